"""No change of static/openapi.json breaks the clients of the published one, unless it is allowed here on purpose."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import DOCUMENT
from tests.contract.compatibility import NAMED_SCHEMAS, Json, breaking_changes, inlined

PUBLISHED: Json = json.loads(Path(__file__).with_name("published-openapi.json").read_bytes())
"""The document as clients know it, which is renewed at a release: CONTRIBUTING.md says how."""

ALLOWED: dict[str, str] = {}
"""Each break that is made on purpose, word for word, with its reason. A renewal of the published copy empties it."""


def test_no_client_is_broken_by_accident() -> None:
    """Fails on a break that is not allowed, and on an allowed one that does not happen."""
    assert set(breaking_changes(PUBLISHED, DOCUMENT)) == set(ALLOWED)


Change = Callable[[Json], object]

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CONTACT = ("paths", "/api/v1/contact", "post")
INDEX = ("paths", "/api", "get")
SECTION = (*INDEX, "parameters", "section")
BODY = (*CONTACT, "requestBody", "content", JSON, "schema")


def answer(operation: tuple[str, ...], status: str) -> tuple[str, ...]:
    return (*operation, "responses", status, "content", JSON, "schema")


REFUSED = answer(CONTACT, "400")
LISTED = (*answer(("paths", "/api/v1", "get"), "200"), "data", "endpoints")
POLICY = (*answer(("paths", "/api/versioning", "get"), "200"), "data")
HEADERS = (*CONTACT, "responses", "429", "headers")


def places(node: Any, name: str, *rest: str) -> Iterator[tuple[Any, str]]:
    """The holder and the name of what a path leads to, through the fields of schemas and the names of parameters."""
    if isinstance(node, list):
        node = {parameter["name"]: parameter for parameter in node}
    for holder in (node, node.get("properties", {})):
        if name in holder:
            yield from places(holder[name], *rest) if rest else [(holder, name)]
    for part in (*node.get("allOf", []), *node.get("oneOf", [])):
        yield from places(part, name, *rest)


def at(*path: str, do: Callable[[Any, str], object]) -> Change:
    return lambda document: do(*next(places(document, *path)))


def edit(*path: str, by: Callable[[Any], object]) -> Change:
    return at(*path, do=lambda holder, name: by(holder[name]))


def put(*path: str, **members: Any) -> Change:
    return edit(*path, by=lambda node: node.update(copy.deepcopy(members)))


def replace(*path: str, by: Any) -> Change:
    return at(*path, do=lambda holder, name: holder.update({name: copy.deepcopy(by)}))


def rename(*path: str, to: str) -> Change:
    return at(*path, do=lambda holder, name: holder.update({to: holder.pop(name)}))


def drop(*path: str) -> Change:
    return at(*path, do=lambda holder, name: holder.pop(name))


def require(*path: str) -> Change:
    """Gives a schema a required field, or requires one that it has."""
    *parents, name = path

    def change(schema: Json) -> None:
        schema.setdefault("properties", {}).setdefault(name, {"type": "string"})
        schema.setdefault("required", []).append(name)

    return edit(*parents, by=change)


def release(*path: str) -> Change:
    """Requires a field no longer."""
    *parents, name = path
    return edit(*parents, "required", by=lambda names: names.remove(name))


def parameter(**members: Any) -> Change:
    added = {"name": "idioma", "in": "query", "schema": {"type": "string"}} | members
    return edit(*INDEX, "parameters", by=lambda parameters: parameters.append(added))


REQUEST = "POST /api/v1/contact, request: "
SENT = f"{REQUEST}{JSON} body."
TOLD = f"POST /api/v1/contact, response 400: {JSON} body."
POLICY_TOLD = f"GET /api/versioning, response 200: {JSON} body.data."
ENDPOINTS_TOLD = f"GET /api/v1, response 200: {JSON} body.data.endpoints[]."
HEADER_TOLD = "POST /api/v1/contact, response 429: header "
ERROR = (*REFUSED, "error")

BREAKING: dict[str, tuple[Change, str]] = {
    "an operation goes": (drop(*INDEX), "paths: GET /api is gone"),
    "an operation gets another method": (
        rename("paths", "/contact.php", "post", to="put"),
        "paths: POST /contact.php is gone",
    ),
    "an operation gets another name": (
        put(*INDEX, operationId="index"),
        "paths: GET /api had the operationId getApiIndex and has index",
    ),
    "an operation gets another tag": (
        put(*INDEX, tags=["index"]),
        "paths: GET /api had the tags ['discovery'] and has ['index']",
    ),
    "an operation needs credentials": (
        put(*INDEX, security=[{"key": []}]),
        "GET /api, request: other credentials are needed",
    ),
    "the whole service needs credentials": (
        lambda document: document.update(security=[{"key": []}]),
        f"{REQUEST}other credentials are needed (",
    ),
    "a parameter goes": (edit(*INDEX, "parameters", by=list.clear), "GET /api, request: query section is gone"),
    "a parameter takes a value less": (
        edit(*SECTION, "schema", "enum", by=lambda values: values.remove("docs")),
        'GET /api, request: query section no longer takes "docs"',
    ),
    "a parameter becomes required": (
        put(*SECTION, required=True),
        "GET /api, request: query section has become required",
    ),
    "a required parameter comes": (parameter(required=True), "GET /api, request: query idioma has become required"),
    "a required body comes": (
        put(*INDEX, requestBody={"required": True, "content": {JSON: {}}}),
        "GET /api, request: body has become required",
    ),
    "a media type of the request goes": (
        drop(*CONTACT, "requestBody", "content", FORM),
        f"{REQUEST}{FORM} body is gone",
    ),
    "a field of the request goes": (drop(*BODY, "telefono"), f"{SENT}telefono is gone"),
    "a field of the request becomes required": (require(*BODY, "nombre"), f"{SENT}nombre has become required"),
    "a required field of the request comes": (require(*BODY, "puesto"), f"{SENT}puesto has become required"),
    "further fields of the request are refused": (
        put(*BODY, additionalProperties=False),
        f"{SENT}* is no longer taken",
    ),
    "a text of the request becomes shorter": (
        put(*BODY, "mensaje", maxLength=4999),
        f"{SENT}mensaje had the maxLength 5000 and has 4999",
    ),
    "a text of the request may not be empty": (
        put(*BODY, "mensaje", minLength=1),
        f"{SENT}mensaje had the minLength none and has 1",
    ),
    "a text of the request gets a pattern": (
        put(*BODY, "nombre", pattern="^[A-Z]"),
        f"{SENT}nombre had the pattern none and has ^[A-Z]",
    ),
    "a text of the request gets a format": (
        put(*BODY, "empresa", format="uri"),
        f"{SENT}empresa had the format none and has uri",
    ),
    "a text of the request becomes a number": (
        replace(*BODY, "email", by={"type": "integer"}),
        f"{SENT}email no longer takes any string",
    ),
    "a text of the request becomes a list of values": (
        put(*BODY, "email", enum=["a@example.com", "b@example.com"]),
        f"{SENT}email no longer takes any string",
    ),
    "a value of the request goes": (
        edit(*BODY, "form_type", "enum", by=lambda values: values.remove("demo")),
        f'{SENT}form_type no longer takes "demo"',
    ),
    "null is no longer taken": (put(*BODY, "nombre", type="string"), f"{SENT}nombre no longer takes null"),
    "a status of success goes": (
        drop(*CONTACT, "responses", "200"),
        "POST /api/v1/contact, response 200: the status is gone",
    ),
    "a status of success comes": (
        put(*CONTACT, "responses", **{"202": {}}),
        "POST /api/v1/contact, response 202: the status is new",
    ),
    "a redirect comes": (
        put(*CONTACT, "responses", **{"303": {}}),
        "POST /api/v1/contact, response 303: the status is new",
    ),
    "a media type of the response goes": (
        rename(*CONTACT, "responses", "200", "content", JSON, to="text/plain"),
        f"POST /api/v1/contact, response 200: {JSON} body is gone",
    ),
    "a required field of the response goes": (
        lambda document: (release(*ERROR, "message")(document), drop(*ERROR, "message")(document)),
        f"{TOLD}error.message is gone",
    ),
    "an optional field of the response goes": (drop(*ERROR, "hint"), f"{TOLD}error.hint is gone"),
    "a field of the response gets another name": (rename(*ERROR, "hint", to="advice"), f"{TOLD}error.hint is gone"),
    "a field of the response becomes optional": (
        release(*ERROR, "message"),
        f"{TOLD}error.message is no longer always there",
    ),
    "an error code comes": (
        edit(*ERROR, "code", "enum", by=lambda codes: codes.append("teapot")),
        f'{TOLD}error.code can now be "teapot"',
    ),
    "the error code becomes any text": (drop(*ERROR, "code", "enum"), f"{TOLD}error.code can now be any string"),
    "a constant becomes free": (replace(*REFUSED, "ok", by={"type": "boolean"}), f"{TOLD}ok can now be true"),
    "a number of the response becomes a text": (
        replace(*ERROR, "retry_after_seconds", by={"type": "string"}),
        f"{TOLD}error.retry_after_seconds can now be any string",
    ),
    "an integer of the response becomes a number": (
        put(*ERROR, "retry_after_seconds", type="number"),
        f"{TOLD}error.retry_after_seconds can now be any number",
    ),
    "a number of the response may be lower": (
        put(*ERROR, "retry_after_seconds", minimum=-1),
        f"{TOLD}error.retry_after_seconds had the minimum ",
    ),
    "a number of the response has no upper bound": (
        drop(*ERROR, "retry_after_seconds", "maximum"),
        f"{TOLD}error.retry_after_seconds had the maximum ",
    ),
    "a field of the response may be null": (
        put(*ERROR, "message", type=["string", "null"]),
        f"{TOLD}error.message can now be null",
    ),
    "a text of the response may be longer": (
        put(*ERROR, "message", maxLength=10**9),
        f"{TOLD}error.message had the maxLength ",
    ),
    "the docs field need not be an address": (
        drop(*REFUSED, "docs", "format"),
        f"{TOLD}docs had the format uri and has none",
    ),
    "the elements of a list change": (
        replace(*LISTED, "items", "path", by={"type": "integer"}),
        f"{ENDPOINTS_TOLD}path can now be any integer",
    ),
    "a list gets elements of another kind": (
        put(*POLICY, "supported", items={"type": "null"}),
        f"{POLICY_TOLD}supported[] can now be null",
    ),
    "a header field goes": (drop(*HEADERS, "Retry-After"), f"{HEADER_TOLD}retry-after is gone"),
    "a header field becomes optional": (
        put(*HEADERS, "RateLimit", required=False),
        f"{HEADER_TOLD}ratelimit is no longer always there",
    ),
    "a header field gets another pattern": (
        put(*HEADERS, "RateLimit", "schema", pattern="^r=[0-9]+$"),
        f"{HEADER_TOLD}ratelimit had the pattern ",
    ),
    "a header field gets another type": (
        replace(*HEADERS, "Retry-After", "schema", by={"type": "string"}),
        f"{HEADER_TOLD}retry-after can now be any string",
    ),
}


def everywhere(change: Callable[[Json], object]) -> Change:
    """Has a function change each object of the document, from the inside out."""

    def walk(node: Any) -> None:
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(child)
        if isinstance(node, dict):
            change(node)

    return walk


def reword(node: Json) -> None:
    for name in ("title", "summary", "description"):
        if isinstance(node.get(name), str):
            node[name] += " (otra redacción)"


def turn(node: Json) -> None:
    members = list(node.items())
    node.clear()
    node.update(reversed(members))
    if isinstance(node.get("required"), list):
        node["required"].reverse()
    if isinstance(node.get("enum"), list):
        node["enum"].reverse()


def keep_named_schemas(document: Json) -> None:
    """All other schemas go, which nothing refers to once all references are replaced."""
    schemas = document["components"]["schemas"]
    document["components"] = {"schemas": {name: schemas[name] for name in NAMED_SCHEMAS if name in schemas}}


COMPATIBLE: dict[str, Change] = {
    "texts are worded anew": everywhere(reword),
    "examples go": everywhere(lambda node: (node.pop("examples", None), node.pop("example", None))),
    "members and lists change their order": everywhere(turn),
    "extensions come": everywhere(lambda node: node.update({"x-note": 1}) if "type" in node else None),
    "other schemas go": keep_named_schemas,
    "the service gets another address and version": lambda document: document.update(
        servers=[{"url": "https://api.example.com"}], info=document["info"] | {"version": "9.9.9"}, tags=[]
    ),
    "an operation is deprecated": put(*INDEX, deprecated=True),
    "an operation comes": put("paths", "/api", put={"operationId": "new", "responses": {"200": {}}}),
    "a path comes": put("paths", **{"/api/v1/news": {"get": {"operationId": "news", "responses": {"200": {}}}}}),
    "an optional parameter comes": parameter(),
    "a parameter takes a value more": edit(*SECTION, "schema", "enum", by=lambda values: values.append("news")),
    "the body becomes optional": put(*CONTACT, "requestBody", required=False),
    "the request gets a media type": put(*CONTACT, "requestBody", "content", **{"text/plain": {}}),
    "the request gets an optional field": put(*BODY, "properties", puesto={"type": "string", "maxLength": 9}),
    "a field of the request becomes optional": release(*BODY, "email"),
    "a text of the request may be longer": put(*BODY, "mensaje", maxLength=5001),
    "a text of the request has no upper bound": drop(*BODY, "nombre", "maxLength"),
    "a text of the request loses its format": drop(*BODY, "email", "format"),
    "a text of the request may be null": put(*BODY, "email", type=["string", "null"]),
    "a field of the request takes a value more": edit(
        *BODY, "form_type", "enum", by=lambda values: values.append("prensa")
    ),
    "a field of the request takes anything": replace(*BODY, "captcha_input", by={}),
    "a status of failure goes": drop(*CONTACT, "responses", "405"),
    "a status of failure comes": put(*CONTACT, "responses", **{"418": {}}),
    "the response gets a media type": put(*CONTACT, "responses", "200", "content", **{"text/plain": {}}),
    "the response gets an optional field": put(*ERROR, "properties", title={"type": "string"}),
    "the response gets a required field": require(*ERROR, "trace"),
    "a field of the response becomes required": require(*ERROR, "hint"),
    "an error code is no longer answered": edit(*ERROR, "code", "enum", by=lambda codes: codes.pop()),
    "a text of the response becomes shorter": put(*ERROR, "message", maxLength=9),
    "a text of the response gets a list of values": put(*ERROR, "hint", enum=["una", "otra"]),
    "a number of the response is bounded more narrowly": put(*ERROR, "retry_after_seconds", minimum=2, maximum=9),
    "an integer of the response becomes a constant": put(*ERROR, "status", const=400),
    "a header field comes": put(*HEADERS, **{"X-New": {"required": True, "schema": {"type": "string"}}}),
    "a header field is always there": put(*HEADERS, "Access-Control-Allow-Origin", required=True),
    "a header field is written otherwise": rename(*HEADERS, "RateLimit", to="ratelimit"),
}


WITHOUT_REFERENCES: Json = inlined(DOCUMENT, DOCUMENT)


def changed(*changes: Change) -> Json:
    """The document after changes. It has no references, so that each change is in one place."""
    document = copy.deepcopy(WITHOUT_REFERENCES)
    for change in changes:
        change(document)
    assert document != WITHOUT_REFERENCES
    return document


@pytest.mark.parametrize(("change", "sentence"), BREAKING.values(), ids=BREAKING)
def test_a_break_is_told_in_one_sentence(change: Change, sentence: str) -> None:
    (told,) = breaking_changes(DOCUMENT, changed(change))

    assert told.startswith(sentence)


@pytest.mark.parametrize("change", COMPATIBLE.values(), ids=COMPATIBLE)
def test_a_compatible_change_is_not_told(change: Change) -> None:
    assert breaking_changes(DOCUMENT, changed(change)) == []


def test_compatible_changes_together_need_no_renewal_of_the_copy() -> None:
    assert breaking_changes(DOCUMENT, changed(*COMPATIBLE.values())) == []


def test_a_break_of_a_shared_part_is_told_once() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["components"]["headers"]["X-Request-ID"]["required"] = False

    (told,) = breaking_changes(DOCUMENT, document)

    assert re.fullmatch(r"POST .+, response 200: header x-request-id is no longer .+ \(\d+ places\)", told)


def split_objects(node: Json) -> None:
    """An object's schema becomes what its fields are, and all the rest."""
    if node.get("type") == "object" and isinstance(node.get("properties"), dict):
        fields = {"type": "object", "properties": node.pop("properties"), "required": node.pop("required", [])}
        rest = dict(node)
        node.clear()
        node["allOf"] = [rest, fields]


def split_types(node: Json) -> None:
    if isinstance(node.get("type"), list):
        parts = [node | {"type": name} for name in node["type"]]
        node.clear()
        node["oneOf"] = parts


def extract_schemas(document: Json) -> None:
    """Each schema of a body, a header field and a parameter becomes a component."""
    components = document["components"]["schemas"]

    def extract(node: Json) -> None:
        if isinstance(node.get("schema"), dict):
            name = f"Extracted{len(components)}"
            components[name] = node["schema"]
            node["schema"] = {"$ref": f"#/components/schemas/{name}"}

    everywhere(extract)(document["paths"])


FACTORINGS: dict[str, tuple[Change, ...]] = {
    "without references": (keep_named_schemas,),
    "each schema a component": (extract_schemas,),
    "objects in two parts": (everywhere(split_objects),),
    "a schema for each type": (everywhere(split_types),),
    "all of these": (everywhere(split_types), everywhere(split_objects), extract_schemas),
}


@pytest.mark.parametrize("changes", FACTORINGS.values(), ids=FACTORINGS)
def test_the_division_into_parts_does_not_count(changes: tuple[Change, ...]) -> None:
    document = changed(*changes)

    assert breaking_changes(DOCUMENT, document) == []
    assert breaking_changes(document, DOCUMENT) == []


def sent(schema: Any) -> Json:
    """A document whose only operation takes this."""
    return {"paths": {"/": {"post": {"requestBody": {"content": {JSON: {"schema": schema}}}, "responses": {}}}}}


def told(schema: Any) -> Json:
    """A document whose only operation answers this."""
    return {"paths": {"/": {"post": {"responses": {"200": {"content": {JSON: {"schema": schema}}}}}}}}


BOUNDS = {"minimum": 1, "maximum": 9, "exclusiveMinimum": 0, "exclusiveMaximum": 10}
NUMBER = {"type": "number", "multipleOf": 1} | BOUNDS
TEXT = {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[0-9]*$"}
LIST = {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 9, "uniqueItems": True}
FURTHER = {"additionalProperties": {"type": "null"}}
OBJECT = {"type": "object", "required": ["a"], "minProperties": 1, "maxProperties": 9} | FURTHER

SAME: dict[str, tuple[Any, Any]] = {
    "a constant and a list of one": ({"const": "a"}, {"enum": ["a"]}),
    "true and not false": ({"type": "boolean", "const": True}, {"type": "boolean", "not": {"const": False}}),
    "both values of a type": ({"type": "boolean"}, {"enum": [True, False]}),
    "a list and a choice of constants": ({"enum": ["a", 1]}, {"oneOf": [{"const": 1}, {"const": "a"}]}),
    "a choice in two words": (
        {"oneOf": [{"type": "null"}, {"$ref": "#/x"}]},
        {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]},
    ),
    "keywords of several types": (
        NUMBER | TEXT | LIST | OBJECT | {"type": ["number", "string", "array", "object"]},
        {"oneOf": [NUMBER, TEXT, LIST, OBJECT]},
    ),
    "a constant in two parts": ({"const": "a"}, {"allOf": [{"type": "string"}, {"const": "a"}, {"minLength": 1}]}),
    "a list in two parts": (
        {"enum": ["ab", "c"]},
        {"allOf": [{"enum": ["a", "ab", "abc", "c"]}, {"maxLength": 2}, {"enum": ["ab", "abc", "b", "c"]}]},
    ),
    "two patterns": (
        {"type": "string", "allOf": [{"pattern": "^1"}, {"pattern": "1$"}]},
        {"type": "string", "pattern": "^1", "allOf": [{"pattern": "1$"}]},
    ),
    "the same twice": (TEXT, {"allOf": [TEXT, TEXT]}),
    "an integer in two parts": ({"type": "integer"}, {"allOf": [{"type": "integer"}, {"type": "number"}]}),
    "required fields in two parts": (
        {"type": "object", "required": ["a", "b"]},
        {"allOf": [{"type": "object", "required": ["b"]}, {"required": ["a", "b"]}]},
    ),
    **{
        f"the format {name} of numbers": (
            {"type": ["number", "string"], "format": name},
            {"oneOf": [{"type": "number", "format": name}, {"type": "string"}]},
        )
        for name in ("int32", "int64", "float", "double")
    },
    "a format of texts": (
        {"type": ["number", "string"], "format": "uri"},
        {"oneOf": [{"type": "number"}, {"type": "string", "format": "uri"}]},
    ),
    "bounds in two parts": (
        {"type": "string", "minLength": 2, "maxLength": 5},
        {"allOf": [{"type": "string", "minLength": 1, "maxLength": 5}, {"minLength": 2, "maxLength": 9}]},
    ),
    "a reference with more beside it": ({"type": "string", "maxLength": 5}, {"$ref": "#/x", "maxLength": 5}),
    "fields in two parts": (
        OBJECT | {"properties": {"a": NUMBER, "b": TEXT, "c": LIST}},
        {
            "allOf": [
                OBJECT | {"properties": {"a": NUMBER, "b": TEXT}},
                {"properties": {"a": BOUNDS, "c": LIST}},
                FURTHER,
            ]
        },
    ),
    "elements in two parts": (
        {"type": "array", "items": NUMBER},
        {"type": "array", "items": {"type": "number"}, "allOf": [{"items": NUMBER}]},
    ),
    "anything": (
        {"type": ["null", "boolean", "object", "array", "number", "string"]},
        {"description": "Cualquier valor.", "additionalProperties": True},
    ),
    "notes": (
        {"type": "string"},
        {
            "type": "string",
            "title": "T",
            "description": "D",
            "examples": ["a"],
            "example": "a",
            "deprecated": True,
            "$comment": "C",
        },
    ),
    "notes beside a reference": ({"type": "string"}, {"$ref": "#/x", "summary": "S", "description": "D"}),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
@pytest.mark.parametrize("document", [sent, told])
def test_two_ways_to_say_the_same_are_no_change(document: Callable[[Any], Json], one: Any, other: Any) -> None:
    sides = [document(schema) | {"x": {"type": "string"}} for schema in (one, other)]

    assert breaking_changes(*sides) == []
    assert breaking_changes(*reversed(sides)) == []


WIDER: dict[str, tuple[Any, Any]] = {
    "a choice more": ({"oneOf": [{"type": "integer"}]}, {"oneOf": [{"type": "integer"}, {"type": "string"}]}),
    "an open object": ({"type": "object", "additionalProperties": False}, {"type": "object"}),
    "other further fields": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
    ),
    "any further fields": ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
    "other elements": ({"type": "array", "items": {"const": 1}}, {"type": "array", "items": {"enum": [1, 2]}}),
    "elements twice": ({"type": "array", "uniqueItems": True}, {"type": "array"}),
    "no exclusive bound": ({"type": "number", "exclusiveMinimum": 0}, {"type": "number"}),
    "a number for an integer": ({"type": "integer"}, {"type": "number"}),
    "a constant of the pattern": ({"const": "abc"}, {"type": "string", "pattern": "^[a-z]+$"}),
    "an unknown keyword less": ({"type": "object", "propertyNames": {"maxLength": 2}}, {"type": "object"}),
    "anything": ({"type": "string"}, {}),
}


@pytest.mark.parametrize(("narrow", "wide"), WIDER.values(), ids=WIDER)
def test_a_request_may_become_wider_and_a_response_narrower(narrow: Any, wide: Any) -> None:
    assert breaking_changes(sent(narrow), sent(wide)) == []
    assert breaking_changes(told(wide), told(narrow)) == []
    assert breaking_changes(sent(wide), sent(narrow)) != []
    assert breaking_changes(told(narrow), told(wide)) != []


def test_an_answer_that_was_closed_gets_no_field() -> None:
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}

    found = breaking_changes(told(closed), told(closed | {"properties": {"a": {}, "b": {}}}))

    assert found == [f"POST /, response 200: {JSON} body.b can now be there"]


@pytest.mark.parametrize("name", ["ContactRequest", "SuccessResponse", "ErrorResponse"])
def test_the_schemas_of_the_specification_keep_their_names(name: str) -> None:
    document: Json = {"paths": {}, "components": {"schemas": {name: {}, "Other": {}}}}

    assert breaking_changes(document, {"paths": {}}) == [f"components: the schema {name} is gone"]


@pytest.mark.parametrize("method", ["get", "put", "post", "delete", "options", "head", "patch", "trace"])
def test_operations_of_all_methods_are_compared(method: str) -> None:
    document: Json = {"paths": {"/": {"summary": "S", method: {"responses": {}}}}}

    assert breaking_changes(document, {"paths": {}}) == [f"paths: {method.upper()} / is gone"]


def test_parameters_of_a_path_are_those_of_its_operations() -> None:
    parameters = [{"name": "id", "in": "header", "schema": {}}]
    apart = {"paths": {"/": {"get": {"parameters": parameters, "responses": {}}}}}
    shared = {"paths": {"/": {"parameters": parameters, "get": {"responses": {}}}}}

    assert breaking_changes(shared, apart) == []
    assert breaking_changes(shared, {"paths": {"/": {"get": {"responses": {}}}}}) == [
        "GET /, request: header id is gone"
    ]


@pytest.mark.parametrize("security", [[], [{}, {"key": []}], [{"key": []}]])
def test_credentials_may_be_given_up_or_stay(security: list[Json]) -> None:
    document: Json = {"security": [{"key": []}], "paths": {"/": {"get": {"responses": {}}}}}

    assert breaking_changes(document, document | {"security": security}) == []
