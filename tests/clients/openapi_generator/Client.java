import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.ApiResponse;
import org.openapitools.client.api.ContactApi;
import org.openapitools.client.api.DiscoveryApi;
import org.openapitools.client.api.DocumentApi;
import org.openapitools.client.api.HealthApi;
import org.openapitools.client.model.ApiError;
import org.openapitools.client.model.ApiIndex;
import org.openapitools.client.model.ContactRequest;
import org.openapitools.client.model.EndpointMethod;
import org.openapitools.client.model.ErrorDetails;
import org.openapitools.client.model.ErrorResponse;
import org.openapitools.client.model.FormType;
import org.openapitools.client.model.Health;
import org.openapitools.client.model.IndexSection;
import org.openapitools.client.model.PublishedVersion;
import org.openapitools.client.model.VerboseFlag;
import org.openapitools.client.model.VersioningData;

/** Makes the calls of the table with the client that OpenAPI Generator has generated for Java. */
class Client {
    interface Call {
        Map<String, Object> make() throws ApiException;
    }

    /** The client refuses an argument, so that nothing is sent. */
    private static class Refused extends RuntimeException {
    }

    private static String live;
    private static String network;
    private static int addresses;

    /** A client at an address of its own. */
    private static ApiClient client(String base) {
        String address = network + "." + ++addresses;
        ApiClient client = new ApiClient();
        client.updateBaseUri(base);
        client.setRequestInterceptor(request -> request.header("X-Forwarded-For", address));
        return client;
    }

    private static ContactApi contact() {
        return new ContactApi(client(live));
    }

    private static DiscoveryApi discovery() {
        return new DiscoveryApi(client(live));
    }

    private static ContactRequest form() {
        return new ContactRequest().formType(FormType.DEMO).email("maria@example.com");
    }

    private static <T> T permit(Supplier<T> make) {
        try {
            return make.get();
        } catch (IllegalArgumentException refused) {
            throw new Refused();
        }
    }

    private static Map<String, Object> options(ApiResponse<Void> response) {
        return Map.of("status", response.getStatusCode(), "allow", String.join(",", response.getHeaders().get("allow")));
    }

    private static Map<String, Object> state(String base) throws ApiException {
        VersioningData state = new DiscoveryApi(client(base)).getVersioning(PublishedVersion.V1).getData();
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("version", state.getVersion());
        outcome.put("status", state.getStatus().getValue());
        outcome.put("sunset_on", state.getSunsetOn() == null ? null : state.getSunsetOn().toString());
        return outcome;
    }

    private static Map<String, Object> describe(ApiException exception) {
        if (exception.getResponseBody() == null) {
            throw new IllegalStateException(exception);
        }
        ApiError error;
        try {
            error = ApiClient.createDefaultObjectMapper().readValue(exception.getResponseBody(), ErrorResponse.class).getError();
        } catch (JsonProcessingException broken) {
            throw new IllegalStateException(broken);
        }
        ErrorDetails details = error.getDetails() == null ? new ErrorDetails() : error.getDetails();
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("code", error.getCode().getValue());
        outcome.put("status", error.getStatus().getValue());
        outcome.put("retry_after_seconds", error.getRetryAfterSeconds());
        outcome.put("allowed_values", error.getAllowedValues());
        outcome.put("reason", details.getReason() == null ? null : details.getReason().getValue());
        // A map that is missing is an empty one to this client.
        outcome.put("fields", details.getFields().isEmpty() ? null : details.getFields().keySet());
        outcome.put("kept", details.getKept());
        outcome.put("parameter", details.getParameter());
        outcome.put("supported", details.getSupported());
        outcome.values().removeIf(value -> value == null);
        return outcome;
    }

    private static Map<String, Call> calls(String retired, String mailless) {
        Map<String, Call> calls = new LinkedHashMap<>();
        calls.put("form", () -> Map.of("message", contact().submitContact(form().nombre("Ñandú")).getMessage()));
        calls.put("legacy form", () ->
            Map.of("message", contact().submitContactLegacy(form().formType(FormType.VENTAS)).getMessage()));
        calls.put("options", () -> options(contact().getContactOptionsWithHttpInfo()));
        calls.put("legacy options", () -> options(contact().getContactLegacyOptionsWithHttpInfo()));
        calls.put("index", () -> {
            ApiIndex index = discovery().getApiIndex(null).getData();
            return Map.of(
                "name", index.getName(),
                "current_version", index.getCurrentVersion(),
                "limit", index.getRateLimit().getLimit());
        });
        calls.put("section", () -> {
            ApiIndex index = discovery().getApiIndex(IndexSection.CONTACT).getData();
            return Map.of("form_types", index.getContact().getFormTypes().stream().map(FormType::getValue).toList());
        });
        calls.put("policy", () -> Map.of(
            "notice_period_days",
            discovery().getVersioning(null).getData().getDeprecationProcess().getNoticePeriodDays()));
        calls.put("version", () -> state(live));
        calls.put("retired version", () -> state(retired));
        calls.put("endpoints", () -> {
            List<String> endpoints = new ArrayList<>();
            discovery().getV1Index(EndpointMethod.POST).getData().getEndpoints()
                .forEach(endpoint -> endpoints.add(endpoint.getMethod().getValue() + " " + endpoint.getPath()));
            return Map.of("endpoints", endpoints);
        });
        calls.put("health", () -> {
            Health health = new HealthApi(client(live)).getHealth(VerboseFlag.TRUE).getData();
            return Map.of(
                "status", health.getStatus().getValue(),
                "transport", health.getDetails().getMail().getTransport().getValue());
        });
        calls.put("document", () ->
            Map.of("title", new DocumentApi(client(live)).getOpenApiDocument(null).getInfo().getTitle()));
        calls.put("invalid_email", () -> accept(contact(), form().email("maria")));
        calls.put("bad_captcha", () -> {
            contact().submitContactLegacy(form().captchaExpected("aB3dE").captchaInput("xxxxx"));
            return null;
        });
        calls.put("too_fast", () -> accept(contact(), form().ts(1L)));
        calls.put("invalid_body", () -> accept(contact(), form().nombre("a".repeat(201))));
        calls.put("invalid_parameter", () -> {
            discovery().getApiIndex(permit(() -> IndexSection.fromValue("newer")));
            return null;
        });
        calls.put("endpoint_not_found", () -> {
            new HealthApi(client(live + "/api/nowhere")).getHealth(null);
            return null;
        });
        calls.put("unsupported_api_version", () -> {
            new DiscoveryApi(client(live + "/api/v9")).getApiIndex(null);
            return null;
        });
        calls.put("rate_limit", () -> {
            ContactApi api = contact();
            accept(api, form());
            return accept(api, form());
        });
        calls.put("rate_limit_exceeded", () -> {
            DiscoveryApi api = discovery();
            for (int asked = 0; asked < 61; asked++) {
                api.getVersioning(null);
            }
            return null;
        });
        calls.put("api_version_sunset", () -> {
            new DiscoveryApi(client(retired)).getV1Index(null);
            return null;
        });
        calls.put("mail_delivery_failed", () -> accept(new ContactApi(client(mailless)), form()));
        return calls;
    }

    private static Map<String, Object> accept(ContactApi api, ContactRequest form) throws ApiException {
        return Map.of("message", api.submitContact(form).getMessage());
    }

    private static Object outcome(Call call) {
        try {
            return call.make();
        } catch (ApiException exception) {
            return describe(exception);
        } catch (Refused refused) {
            return "refused by the client";
        } catch (RuntimeException fault) {
            return fault.toString();
        }
    }

    public static void main(String[] arguments) throws Exception {
        live = arguments[0];
        network = arguments[3];
        Map<String, Object> outcomes = new LinkedHashMap<>();
        calls(arguments[1], arguments[2]).forEach((name, call) -> outcomes.put(name, outcome(call)));
        System.out.print(new ObjectMapper().writeValueAsString(outcomes));
    }
}
