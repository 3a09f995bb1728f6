"""static/openapi.json and the code say the same, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from marshmallow.validate import Length
from openapi_spec_validator import OpenAPIV31SpecValidator

from app import API_POLICY, CONTACT_POLICY
from app.api import body, cors, discovery, v1
from app.api.errorhandlers import MAX_RETRY_AFTER
from app.api.root import DOCUMENT_FILE
from app.contact.antispam import CAPTCHA_LENGTH
from app.contact.letter import ASKED
from app.contact.schema import ContactSchema
from app.contact.submission import FORM_TYPES
from app.errors import ErrorCode
from tests.client import DOCUMENT, LIMITS, make_validator, resolve
from tests.client import FIELDS as HEADER_FIELDS
from tests.conftest import MakeApp
from tests.contract.layout import lay_out

SCHEMAS = DOCUMENT["components"]["schemas"]
EXAMPLES = DOCUMENT["components"]["examples"]
DESCRIPTION = DOCUMENT["info"]["description"]
OPERATIONS = {
    f"{method} {path}": operation for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
}


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """The objects of the document."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(child)


NODES = list(nodes(DOCUMENT))


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_the_file_is_laid_out() -> None:
    """`make format` does it."""
    assert DOCUMENT_FILE.read_text(encoding="utf-8") == lay_out(DOCUMENT) + "\n"


def test_every_served_operation_is_documented_and_every_documented_one_served(make_app: MakeApp) -> None:
    """HEAD is what HTTP says it is, and OPTIONS is documented where the specification lists it."""
    rules = [(rule.rule, rule.methods or set()) for rule in make_app().url_map.iter_rules()]
    served = {f"{method.lower()} {path}" for path, methods in rules for method in methods - {"HEAD"}}

    assert served | {"options /api/v1/contact", "options /contact.php"} == set(OPERATIONS)


ERRORS = [value["error"] for node in NODES if isinstance(value := node.get("value"), dict) and "error" in value]


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_code_has_examples_with_the_texts_of_the_catalogue(code: ErrorCode) -> None:
    texts = {(it["status"], it["message"], it.get("hint")) for it in ERRORS if it["code"] == code}

    assert texts == {(code.status, code.message, code.hint)}


ANSWERS = [
    (status, media_type["schema"], [resolve(example)["value"] for example in media_type.get("examples", {}).values()])
    for operation in OPERATIONS.values()
    for status, response in operation["responses"].items()
    for media_type in resolve(response).get("content", {}).values()
]
REQUESTS = [
    ("", media_type["schema"], [resolve(example)["value"] for example in media_type["examples"].values()])
    for operation in OPERATIONS.values()
    for media_type in resolve(operation.get("requestBody", {})).get("content", {}).values()
]


@pytest.mark.parametrize(("status", "schema", "examples"), ANSWERS + REQUESTS)
def test_every_body_has_valid_examples_of_its_status(status: str, schema: dict[str, Any], examples: list[Any]) -> None:
    assert examples
    assert [error for example in examples for error in make_validator(schema).iter_errors(example)] == []
    assert {str(example["error"]["status"]) for example in examples if "error" in example} <= {status}


POLICIES = (API_POLICY, CONTACT_POLICY)
OF_API, OF_CONTACT = (f'"default";q={policy.quota};w={policy.window_seconds}' for policy in POLICIES)
MOST = max(policy.quota for policy in POLICIES)
LONGEST = max(policy.window_seconds for policy in POLICIES)
HEADERS = {name: resolve(header["schema"]) for name, header in DOCUMENT["components"]["headers"].items()}
RULE = SCHEMAS["RateLimitRule"]["properties"]
SHOWN = [node for node in NODES if set(node) == {"limit", "window_seconds", "scope"} and node["scope"] == "ip"]
FIELDS = ContactSchema().fields
REQUIRED = {name for name, field in FIELDS.items() if field.required}
LENGTHS = {name: it.max for name, field in FIELDS.items() for it in field.validators if isinstance(it, Length)}
BODIES = {name: SCHEMAS[name]["properties"] for name in ("ContactRequest", "ContactForm")}
ONE_CHARACTER = "Un salto de línea cuenta como un solo carácter"
DATA = [schema["allOf"][1]["properties"]["data"] for schema in SCHEMAS.values() if "allOf" in schema]
TAKEN = [
    list(resolve(DOCUMENT["paths"][path]["post"]["requestBody"])["content"])
    for path in ("/api/v1/contact", "/contact.php")
]


def values_of(schema: dict[str, Any]) -> list[str]:
    values: list[str] = resolve(schema)["enum"]
    return values


def parameter(path: str, name: str) -> list[str]:
    parameters = map(resolve, DOCUMENT["paths"][path]["get"]["parameters"])
    return next(values_of(it["schema"]) for it in parameters if it["name"] == name)


FACTS: dict[str, tuple[Any, Any]] = {
    "error codes": (set(values_of(SCHEMAS["ErrorCode"])), set(map(str, ErrorCode))),
    "table of errors": (
        sorted(re.findall(r"^\| `(\w+)` \| (\d+) \|", DESCRIPTION, re.MULTILINE)),
        sorted((code, str(code.status)) for code in ErrorCode),
    ),
    "reasons": (
        values_of(SCHEMAS["ErrorDetails"]["properties"]["reason"]),
        [*get_args(body.Reason), "too_early", "expired"],
    ),
    "sections": (parameter("/api", "section"), list(discovery.SECTION.allowed_values)),
    "methods": (parameter("/api/v1", "method"), list(v1.METHOD.allowed_values)),
    "verbosity": (parameter("/api/v1/health", "verbose"), list(v1.VERBOSE.allowed_values)),
    "versions": (parameter("/api/versioning", "version"), ["v1"]),
    "content types": (TAKEN, [list(body.PARSERS)] * 2),
    "least Retry-After": (HEADERS["Retry-After"]["minimum"], 1),
    "greatest Retry-After": (HEADERS["Retry-After"]["maximum"], MAX_RETRY_AFTER),
    "exposed headers": ({*cors.EXPOSED.split(", ")} - HEADER_FIELDS, set()),
    # TypeScript would make every field of an open object unknown.
    "data of the answers": ([resolve(data)["type"] for data in DATA], ["object"] * 4),
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
    "largest rule in an answer": ((RULE["limit"]["maximum"], RULE["window_seconds"]["maximum"]), (MOST, LONGEST)),
    "fields asked for": ({*re.findall(r"`(\w+)`", SCHEMAS["ContactRequest"]["description"])} & {*ASKED}, {*ASKED}),
    **{f"{name} in an example": (any(name in it["value"] for it in EXAMPLES.values()), True) for name in ASKED},
    **{f"line breaks in {name}": (ONE_CHARACTER in it["mensaje"]["description"], True) for name, it in BODIES.items()},
    **{f"fields of {name}": (set(fields), set(FIELDS)) for name, fields in BODIES.items()},
    **{f"required in {name}": (set(SCHEMAS[name]["required"]), REQUIRED) for name in BODIES},
    **{f"other fields of {name}": (SCHEMAS[name]["additionalProperties"] is False, False) for name in BODIES},
    **{f"kinds of {name}": (values_of(fields["form_type"]), list(FORM_TYPES)) for name, fields in BODIES.items()},
    **{
        f"lengths in {name}": ({it: resolve(fields[it]).get("maxLength") for it in LENGTHS}, LENGTHS)
        for name, fields in BODIES.items()
    },
    **{
        f"{field} in {name}": (fields[field]["pattern"], f"^(.{{{CAPTCHA_LENGTH}}})?$")
        for name, fields in BODIES.items()
        for field in ("captcha_expected", "captcha_input")
    },
}


@pytest.mark.parametrize(("documented", "of_the_code"), FACTS.values(), ids=FACTS)
def test_the_document_and_the_code_agree(documented: Any, of_the_code: Any) -> None:
    """For the quotas this is the only test of their values: the test client takes any."""
    assert documented == of_the_code
