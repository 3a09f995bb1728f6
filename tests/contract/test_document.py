"""static/openapi.json and the code say the same, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from marshmallow.validate import Length, OneOf
from openapi_spec_validator import OpenAPIV31SpecValidator

from app import API_POLICY, CONTACT_POLICY
from app.api import body, cors, discovery, v1
from app.api.errorhandlers import MAX_RETRY_AFTER
from app.api.root import DOCUMENT_FILE
from app.contact.antispam import CAPTCHA_LENGTH
from app.contact.letter import ASKED
from app.contact.schema import ContactSchema
from app.errors import ErrorCode
from tests.client import DOCUMENT, LIMITS, ValidatingClient, make_validator, resolve
from tests.conftest import MakeApp
from tests.contract.layout import lay_out

SCHEMAS = DOCUMENT["components"]["schemas"]
CONTACT_PATHS = ("/api/v1/contact", "/contact.php")
CONTACT_FIELDS = ContactSchema().fields
OPERATIONS = {
    f"{method} {path}": operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
    if method in {"get", "head", "post", "options", "put", "patch", "delete"}
}


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for child in node.values():
            yield from nodes(child)
    elif isinstance(node, list):
        for child in node:
            yield from nodes(child)


def enumeration(schema: dict[str, Any]) -> list[str]:
    values: list[str] = resolve(schema)["enum"]
    return values


def query_parameter(path: str, name: str) -> list[str]:
    parameters = map(resolve, DOCUMENT["paths"][path]["get"]["parameters"])
    return next(enumeration(parameter["schema"]) for parameter in parameters if parameter["name"] == name)


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_the_file_is_laid_out() -> None:
    """`make format` does it."""
    assert DOCUMENT_FILE.read_text(encoding="utf-8") == lay_out(DOCUMENT) + "\n"


def test_every_served_operation_is_documented_and_every_documented_one_served(make_app: MakeApp) -> None:
    """HEAD is what HTTP says it is, and OPTIONS is documented where the specification lists it."""
    served = {
        f"{method.lower()} {rule.rule}"
        for rule in make_app().url_map.iter_rules()
        for method in rule.methods or ()
        if method != "HEAD"
    }

    assert served | {f"options {path}" for path in CONTACT_PATHS} == set(OPERATIONS)


def test_head_is_served_where_get_is_and_options_everywhere(make_app: MakeApp) -> None:
    app = make_app()
    for rule in app.url_map.iter_rules():
        methods = rule.methods or set()

        assert ("HEAD" in methods) == ("GET" in methods)
        assert app.test_client().options(rule.rule).status_code == 204


ERROR_EXAMPLES = [
    value["error"] for node in nodes(DOCUMENT) if isinstance(value := node.get("value"), dict) and "error" in value
]


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_code_has_examples_with_the_texts_of_the_catalogue(code: ErrorCode) -> None:
    examples = [example for example in ERROR_EXAMPLES if example["code"] == code]
    texts = {(example["status"], example["message"], example.get("hint")) for example in examples}

    assert texts == {(code.status, code.message, code.hint)}


def examples_of(operation: str) -> Iterator[tuple[str, list[Any]]]:
    """The status of each answer that has a body, and its examples."""
    for status, reference in OPERATIONS[operation]["responses"].items():
        for media_type in resolve(reference).get("content", {}).values():
            yield status, [resolve(example)["value"] for example in media_type.get("examples", {}).values()]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_with_a_body_has_examples_of_its_status(operation: str) -> None:
    for status, values in examples_of(operation):
        assert values, status
        assert {str(value["error"]["status"]) for value in values if "error" in value} <= {status}


POLICIES = (API_POLICY, CONTACT_POLICY)
OF_API, OF_CONTACT = (f'"default";q={policy.quota};w={policy.window_seconds}' for policy in POLICIES)
MOST = max(policy.quota for policy in POLICIES)
DESCRIPTION = DOCUMENT["info"]["description"]
HEADERS = {name: resolve(header["schema"]) for name, header in DOCUMENT["components"]["headers"].items()}
RULE = SCHEMAS["RateLimitRule"]["properties"]
SHOWN = [
    node for node in nodes(DOCUMENT) if set(node) == {"limit", "window_seconds", "scope"} and node["scope"] == "ip"
]
FACTS: dict[str, tuple[Any, Any]] = {
    "error codes": (set(enumeration(SCHEMAS["ErrorCode"])), set(map(str, ErrorCode))),
    "table of errors": (
        sorted(re.findall(r"^\| `(\w+)` \| (\d+) \|", DESCRIPTION, re.MULTILINE)),
        sorted((code, str(code.status)) for code in ErrorCode),
    ),
    "reasons of an invalid body": (
        enumeration(SCHEMAS["ErrorDetails"]["properties"]["reason"]),
        [*get_args(body.Reason), "too_early", "expired"],
    ),
    "sections": (query_parameter("/api", "section"), list(discovery.SECTION.allowed_values)),
    "methods": (query_parameter("/api/v1", "method"), list(v1.METHOD.allowed_values)),
    "verbosity": (query_parameter("/api/v1/health", "verbose"), list(v1.VERBOSE.allowed_values)),
    "versions": (query_parameter("/api/versioning", "version"), ["v1"]),
    **{
        f"content types of {path}": (
            list(resolve(DOCUMENT["paths"][path]["post"]["requestBody"])["content"]),
            list(body.PARSERS),
        )
        for path in CONTACT_PATHS
    },
    "seconds of Retry-After": (
        (HEADERS["Retry-After"]["minimum"], HEADERS["Retry-After"]["maximum"]),
        (1, MAX_RETRY_AFTER),
    ),
    "quotas in the answers": ({(it["limit"], it["window_seconds"]) for it in SHOWN}, {tuple(it) for it in POLICIES}),
    "table of quotas": (
        re.findall(r"\| (\d+) petici\w+ cada (\d+) segundos \|", DESCRIPTION),
        [(str(policy.quota), str(policy.window_seconds)) for policy in POLICIES],
    ),
    "RateLimit-Policy": (HEADERS["RateLimit-Policy"]["const"], OF_API),
    "RateLimit-Policy of the contact paths": (HEADERS["ContactRateLimit-Policy"]["enum"], [OF_CONTACT, OF_API]),
    "smallest limit": (HEADERS["X-RateLimit-Limit"]["minimum"], API_POLICY.quota),
    "smallest limit of the contact paths": (HEADERS["ContactX-RateLimit-Limit"]["minimum"], CONTACT_POLICY.quota),
    "largest limit": ({HEADERS[name]["maximum"] for name in LIMITS}, {MOST}),
    "largest limit in an answer": (RULE["limit"]["maximum"], MOST),
    "longest window in an answer": (
        RULE["window_seconds"]["maximum"],
        max(policy.window_seconds for policy in POLICIES),
    ),
}


@pytest.mark.parametrize(("documented", "of_the_code"), FACTS.values(), ids=FACTS)
def test_the_document_and_the_code_agree(documented: Any, of_the_code: Any) -> None:
    """For the quotas this is the only test of their values: the test client takes any."""
    assert documented == of_the_code


bodies = pytest.mark.parametrize("body_schema", ["ContactRequest", "ContactForm"])


@bodies
@pytest.mark.parametrize("name", CONTACT_FIELDS)
def test_a_contact_field_is_documented_as_the_schema_has_it(name: str, body_schema: str) -> None:
    field = CONTACT_FIELDS[name]
    contact = SCHEMAS[body_schema]
    documented = resolve(contact["properties"][name])

    assert (name in contact["required"]) == field.required
    for validator in field.validators:
        if isinstance(validator, OneOf):
            assert enumeration(documented) == list(validator.choices)
        if isinstance(validator, Length):
            assert documented["maxLength"] == validator.max


@bodies
def test_the_document_says_how_long_a_line_break_is(body_schema: str) -> None:
    described = SCHEMAS[body_schema]["properties"]["mensaje"]["description"]

    assert "salto de línea cuenta como un solo carácter" in described


@bodies
def test_the_document_names_no_contact_field_that_the_schema_does_not_know(body_schema: str) -> None:
    assert set(SCHEMAS[body_schema]["properties"]) == set(CONTACT_FIELDS)
    assert SCHEMAS[body_schema]["additionalProperties"] is not False


@pytest.mark.parametrize("name", ASKED)
def test_a_field_that_one_kind_of_form_asks_for_is_described_and_has_an_example(name: str) -> None:
    examples = DOCUMENT["components"]["examples"].values()

    assert f"`{name}`" in SCHEMAS["ContactRequest"]["description"]
    assert [example for example in examples if name in example["value"] and name in example["summary"]]


@pytest.mark.parametrize("name", ["captcha_expected", "captcha_input"])
def test_the_captcha_has_its_length(name: str) -> None:
    validator = make_validator(SCHEMAS["ContactRequest"]["properties"][name])

    validator.validate("a" * CAPTCHA_LENGTH)
    for length in (CAPTCHA_LENGTH - 1, CAPTCHA_LENGTH + 1):
        assert not validator.is_valid("a" * length)


def test_the_exposed_headers_are_documented_response_headers() -> None:
    documented = {name for node in nodes(DOCUMENT) if isinstance(node.get("headers"), dict) for name in node["headers"]}

    assert set(cors.EXPOSED.split(", ")) <= documented


def test_every_reference_resolves_and_every_component_is_used() -> None:
    references = {node["$ref"] for node in nodes(DOCUMENT) if isinstance(node.get("$ref"), str)}
    components = {f"#/components/{kind}/{name}" for kind, members in DOCUMENT["components"].items() for name in members}

    assert components - references == set()
    for reference in references:
        assert resolve({"$ref": reference})


def media_types() -> Iterator[tuple[dict[str, Any], str, Any]]:
    for node in nodes(DOCUMENT):
        for media_type in node.get("content", {}).values() if isinstance(node.get("content"), dict) else ():
            for name, example in media_type.get("examples", {}).items():
                yield media_type["schema"], name, resolve(example)["value"]


@pytest.mark.parametrize(("schema", "name", "value"), list(media_types()))
def test_every_example_is_valid(schema: dict[str, Any], name: str, value: Any) -> None:  # noqa: ARG001 - a test's id
    make_validator(schema).validate(value)


def leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from leaves(child)
    else:
        yield node


def test_the_examples_of_the_fields_are_those_of_the_answers() -> None:
    """What is answered is compared with the examples of the answers below."""
    answered = set(leaves([example["value"] for example in DOCUMENT["components"]["examples"].values()]))

    for name, schema in SCHEMAS.items():
        if name not in {"ContactRequest", "ContactForm", "OpenApiPaths"}:
            for node in nodes(schema):
                examples = node.get("examples", [])
                assert not isinstance(examples, list) or set(leaves(examples)) <= answered, name


def test_the_data_of_every_answer_is_an_object() -> None:
    """SuccessResponse leaves its type open: TypeScript would make every field of an open object unknown."""
    payloads = [schema["allOf"][1]["properties"]["data"] for schema in SCHEMAS.values() if "allOf" in schema]

    assert len(payloads) == 4
    assert {resolve(payload)["type"] for payload in payloads} == {"object"}


DISCOVERY_EXAMPLES = {
    "/api": "ApiIndex",
    "/api?section=rate_limit": "ApiIndexSection",
    "/api/versioning": "VersioningPolicy",
    "/api/versioning?version=v1": "VersionCurrent",
    "/api/v1": "EndpointList",
    "/api/v1?method=GET": "EndpointListGet",
}


@pytest.mark.parametrize(("url", "example"), DISCOVERY_EXAMPLES.items())
def test_the_examples_of_the_discovery_endpoints_are_what_they_answer(
    client: ValidatingClient, url: str, example: str
) -> None:
    answered = client.get(url, base_url="http://127.0.0.1:8000").json

    assert answered == DOCUMENT["components"]["examples"][example]["value"]
