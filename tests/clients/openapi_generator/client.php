<?php

/** Makes the calls of the table with the client that OpenAPI Generator has generated for PHP. */

declare(strict_types=1);

use GuzzleHttp\Client;
use OpenAPI\Client\Api\ContactApi;
use OpenAPI\Client\Api\DiscoveryApi;
use OpenAPI\Client\Api\DocumentApi;
use OpenAPI\Client\Api\HealthApi;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model\ContactRequest;
use OpenAPI\Client\Model\EndpointMethod;
use OpenAPI\Client\Model\ErrorDetails;
use OpenAPI\Client\Model\ErrorResponse;
use OpenAPI\Client\Model\FormType;
use OpenAPI\Client\Model\IndexSection;
use OpenAPI\Client\Model\PublishedVersion;
use OpenAPI\Client\Model\VerboseFlag;

[, $folder, $live, $retired, $mailless, $network] = $argv;

// A notice is an error.
set_error_handler(function (int $level, string $message, string $file, int $line): never {
    throw new ErrorException($message, 0, $level, $file, $line);
});
require 'GuzzleHttp/autoload.php';
spl_autoload_register(function (string $class) use ($folder): void {
    $file = $folder . '/lib/' . str_replace(['OpenAPI\\Client\\', '\\'], ['', '/'], $class) . '.php';
    if (is_file($file)) {
        require $file;
    }
});

/** @return array{Client, Configuration} what an Api takes: a client at an address of its own */
function client(string $base): array
{
    global $network;
    static $addresses = 0;
    $headers = ['X-Forwarded-For' => $network . '.' . ++$addresses];
    return [new Client(['headers' => $headers]), (new Configuration())->setHost($base)];
}

/** @param array<string, mixed> $fields */
function form(array $fields = []): ContactRequest
{
    return new ContactRequest($fields + ['form_type' => FormType::DEMO, 'email' => 'maria@example.com']);
}

/** The client refuses an argument, so that nothing is sent. */
class Refused extends Exception
{
}

function permit(callable $make): mixed
{
    try {
        return $make();
    } catch (InvalidArgumentException) {
        throw new Refused();
    }
}

/** @return array<string, mixed> */
function describe(ApiException $exception): array
{
    $response = $exception->getResponseObject();
    assert($response instanceof ErrorResponse);
    $error = $response->getError();
    $details = $error->getDetails() ?? new ErrorDetails();
    $values = [
        'code' => $error->getCode(),
        'status' => $error->getStatus(),
        'retry_after_seconds' => $error->getRetryAfterSeconds(),
        'allowed_values' => $error->getAllowedValues(),
        'reason' => $details->getReason(),
        'fields' => $details->getFields() === null ? null : array_keys($details->getFields()),
        'kept' => $details->getKept(),
        'parameter' => $details->getParameter(),
        'supported' => $details->getSupported(),
    ];
    return array_filter($values, fn (mixed $value): bool => $value !== null);
}

/**
 * @param array{null, int, array<string, string[]>} $response
 * @return array<string, mixed>
 */
function options(array $response): array
{
    [, $status, $headers] = $response;
    return ['status' => $status, 'allow' => implode(',', $headers['Allow'])];
}

/** @return array<string, mixed> */
function state(string $base): array
{
    $state = (new DiscoveryApi(...client($base)))->getVersioning(PublishedVersion::V1)->getData();
    return [
        'version' => $state->getVersion(),
        'status' => $state->getStatus(),
        'sunset_on' => $state->getSunsetOn()?->format('Y-m-d'),
    ];
}

$contact = fn (): ContactApi => new ContactApi(...client($live));
$discovery = fn (): DiscoveryApi => new DiscoveryApi(...client($live));

$calls = [
    'form' => fn () => ['message' => $contact()->submitContact(form(['nombre' => 'Ñandú']))->getMessage()],
    'legacy form' => fn () => [
        'message' => $contact()->submitContactLegacy(form(['form_type' => FormType::VENTAS]))->getMessage(),
    ],
    'options' => fn () => options($contact()->getContactOptionsWithHttpInfo()),
    'legacy options' => fn () => options($contact()->getContactLegacyOptionsWithHttpInfo()),
    'index' => function () use ($discovery) {
        $index = $discovery()->getApiIndex()->getData();
        return [
            'name' => $index->getName(),
            'current_version' => $index->getCurrentVersion(),
            'limit' => $index->getRateLimit()->getLimit(),
        ];
    },
    'section' => fn () => [
        'form_types' => $discovery()->getApiIndex(IndexSection::CONTACT)->getData()->getContact()->getFormTypes(),
    ],
    'policy' => fn () => [
        'notice_period_days' => $discovery()->getVersioning()->getData()->getDeprecationProcess()->getNoticePeriodDays(),
    ],
    'version' => fn () => state($live),
    'retired version' => fn () => state($retired),
    'endpoints' => fn () => [
        'endpoints' => array_map(
            fn ($endpoint) => $endpoint->getMethod() . ' ' . $endpoint->getPath(),
            $discovery()->getV1Index(EndpointMethod::POST)->getData()->getEndpoints(),
        ),
    ],
    'health' => function () use ($live) {
        $health = (new HealthApi(...client($live)))->getHealth(VerboseFlag::TRUE)->getData();
        return [
            'status' => $health->getStatus(),
            'transport' => $health->getDetails()->getMail()->getTransport(),
        ];
    },
    'document' => fn () => [
        'title' => (new DocumentApi(...client($live)))->getOpenApiDocument()->getInfo()->getTitle(),
    ],
    'invalid_email' => fn () => $contact()->submitContact(form(['email' => 'maria'])),
    'bad_captcha' => fn () => $contact()->submitContactLegacy(
        form(['captcha_expected' => 'aB3dE', 'captcha_input' => 'xxxxx']),
    ),
    'too_fast' => fn () => $contact()->submitContact(form(['ts' => 1])),
    'invalid_body' => fn () => $contact()->submitContact(permit(fn () => form()->setNombre(str_repeat('a', 201)))),
    'invalid_parameter' => fn () => $discovery()->getApiIndex('newer'),
    'endpoint_not_found' => fn () => (new HealthApi(...client("$live/api/nowhere")))->getHealth(),
    'unsupported_api_version' => fn () => (new DiscoveryApi(...client("$live/api/v9")))->getApiIndex(),
    'rate_limit' => function () use ($contact) {
        $api = $contact();
        $api->submitContact(form());
        return $api->submitContact(form());
    },
    'rate_limit_exceeded' => function () use ($discovery) {
        $api = $discovery();
        for ($asked = 0; $asked < 61; $asked++) {
            $api->getVersioning();
        }
    },
    'api_version_sunset' => fn () => (new DiscoveryApi(...client($retired)))->getV1Index(),
    'mail_delivery_failed' => fn () => (new ContactApi(...client($mailless)))->submitContact(form()),
];

$outcomes = [];
foreach ($calls as $name => $call) {
    try {
        $outcomes[$name] = $call();
    } catch (ApiException $exception) {
        $outcomes[$name] = describe($exception);
    } catch (Refused) {
        $outcomes[$name] = 'refused by the client';
    } catch (Throwable $fault) {
        $outcomes[$name] = get_class($fault) . ': ' . $fault->getMessage();
    }
}
echo json_encode($outcomes, JSON_THROW_ON_ERROR);
