"""static/openapi.json and the code say the same, in both directions."""

import re
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from app.api import cors
from app.api.body import PARSERS
from app.contact.content import ASKED
from app.contact.schema import ContactSchema
from app.errors import ErrorCode
from tests.client import DOCUMENT, make_validator, resolve
from tests.client import FIELDS as HEADER_FIELDS
from tests.conftest import MakeApp
from tests.versions import CONTACT_PATHS, HEALTH, INDEX
from tools import document

SCHEMAS = DOCUMENT["components"]["schemas"]
EXAMPLES = DOCUMENT["components"]["examples"]
OPERATIONS = {
    f"{method} {path}": operation for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
}


def test_the_document_is_valid_openapi() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_every_served_operation_is_documented_and_every_documented_one_served(make_app: MakeApp) -> None:
    """HEAD is what HTTP says it is, and OPTIONS is documented where the specification lists it."""
    rules = [(rule.rule, rule.methods or set()) for rule in make_app().url_map.iter_rules()]
    served = {f"{method.lower()} {path}" for path, methods in rules for method in methods - {"HEAD"}}

    assert served | {f"options {path}" for path in CONTACT_PATHS} == set(OPERATIONS)


BODIES_OF = {
    f"{name} {status} {content_type}": (
        status,
        body["schema"],
        [resolve(it)["value"] for it in body.get("examples", {}).values()],
    )
    for name, operation in OPERATIONS.items()
    for status, sent in (*operation["responses"].items(), ("", operation.get("requestBody", {})))
    for content_type, body in resolve(sent).get("content", {}).items()
}


@pytest.mark.parametrize(("status", "schema", "examples"), [*BODIES_OF.values()], ids=BODIES_OF)
def test_every_body_has_valid_examples_of_its_status(status: str, schema: dict[str, Any], examples: list[Any]) -> None:
    assert examples
    assert [error for example in examples for error in make_validator(schema).iter_errors(example)] == []
    assert {str(example["error"]["status"]) for example in examples if "error" in example} <= {status}


@pytest.mark.parametrize("name", [name for name in OPERATIONS if not name.startswith("options ")])
def test_an_operation_shows_the_errors_that_it_can_answer(name: str) -> None:
    operation = OPERATIONS[name]

    able = {code for code in ErrorCode if document.can_answer(code, name.partition(" ")[2], operation)}

    assert document.codes_of(operation, DOCUMENT) == able


FIELDS = ContactSchema().fields
BODIES = {name: SCHEMAS[name]["properties"] for name in ("ContactRequest", "ContactForm")}
ONE_CHARACTER = "Un salto de línea cuenta como un solo carácter"
DATA = [schema["allOf"][1]["properties"]["data"] for schema in SCHEMAS.values() if "allOf" in schema]


def parameter(path: str, name: str) -> dict[str, Any]:
    parameters = map(resolve, DOCUMENT["paths"][path]["get"]["parameters"])
    return next(it["schema"] for it in parameters if it["name"] == name)


CHOICES = {
    "a code": (SCHEMAS["ApiError"]["properties"]["code"], "ErrorCode"),
    "a reason": (SCHEMAS["ErrorDetails"]["properties"]["reason"], "ErrorReason"),
    "a section": (parameter("/api", "section"), "IndexSection"),
    "a method": (parameter(INDEX, "method"), "EndpointMethod"),
    "verbosity": (parameter(HEALTH, "verbose"), "VerboseFlag"),
    "a version": (parameter("/api/versioning", "version"), "PublishedVersion"),
    **{f"a kind in {name}": (fields["form_type"], "FormType") for name, fields in BODIES.items()},
}
TAKEN = [list(resolve(DOCUMENT["paths"][path]["post"]["requestBody"])["content"]) for path in CONTACT_PATHS]


FACTS: dict[str, tuple[Any, Any]] = {
    **{name: (node.get("$ref"), f"#/components/schemas/{schema}") for name, (node, schema) in CHOICES.items()},
    "content types": (TAKEN, [list(PARSERS)] * len(CONTACT_PATHS)),
    "least Retry-After": (resolve(DOCUMENT["components"]["headers"]["Retry-After"])["schema"]["minimum"], 1),
    "exposed headers": ({*cors.EXPOSED.split(", ")} - HEADER_FIELDS, set()),
    # TypeScript would make every field of an open object unknown.
    "data of the answers": ([resolve(data)["type"] for data in DATA], ["object"] * len(DATA)),
    "fields asked for": ({*re.findall(r"`(\w+)`", SCHEMAS["ContactRequest"]["description"])} & {*ASKED}, {*ASKED}),
    **{f"{name} in an example": (any(name in it["value"] for it in EXAMPLES.values()), True) for name in ASKED},
    **{f"line breaks in {name}": (ONE_CHARACTER in it["mensaje"]["description"], True) for name, it in BODIES.items()},
    **{f"other fields of {name}": (SCHEMAS[name]["additionalProperties"] is False, False) for name in BODIES},
}


@pytest.mark.parametrize(("documented", "of_the_code"), FACTS.values(), ids=FACTS)
def test_the_document_and_the_code_agree(documented: Any, of_the_code: Any) -> None:
    assert documented == of_the_code
