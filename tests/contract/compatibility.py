"""Compares the published document with a later one, and says what breaks the clients that were made for the first.

The rule is the specification's ("Versioning" 3): a stable version never receives incompatible changes. A request may
only become wider: what a client sends today is taken tomorrow. A response may only become narrower or richer: it stays
what the client was told, and a client ignores further fields. Both ask whether one schema takes all values of another.

Not compared: the bodies of new error statuses, defaults, styles of parameters, a parameter whose schema becomes
content, the type of a new request field, which clients may have sent as one of their own, and whether one pattern holds
another. A schema may not contain itself. No registry in reach has a tool that compares documents of OpenAPI 3.1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from jsonschema_rs import Draft202012Validator

from tests.client import resolve

Json = dict[str, Any]

# The specification gives these names, and clients know them as types. The names of other schemas are not compared.
NAMED_SCHEMAS = ("ContactRequest", "SuccessResponse", "ErrorResponse")
ANNOTATIONS = {"title", "summary", "description", "examples", "example", "deprecated", "$comment"}
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
CLOSED_TYPES = {"null": [None], "boolean": [False, True]}
KEYWORDS = {
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "minItems", "maxItems", "uniqueItems"},
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
}
NUMERIC_FORMATS = ("int32", "int64", "float", "double")
LOWER_BOUNDS, UPPER_BOUNDS = ("min", "exclusiveMin"), ("max", "exclusiveMax")
NESTING_KEYWORDS = {"type", "properties", "required", "additionalProperties", "items"}


def breaking_changes(published: Json, current: Json) -> list[str]:
    """A sentence for each break. What breaks in several places alike, as a shared header field does, is told once."""
    places: dict[str, list[str]] = {}
    for place, change in dict.fromkeys(_breaks(inlined(published, published), inlined(current, current))):
        places.setdefault(change, []).append(place)
    return [
        f"{where[0]}: {change}" + (f" ({len(where)} places)" if len(where) > 1 else "")
        for change, where in places.items()
    ]


def inlined(node: Any, document: Json) -> Any:
    """The node with each reference replaced by what it refers to."""
    if isinstance(node, list):
        return [inlined(child, document) for child in node]
    if not isinstance(node, dict):
        return node
    members = {name: inlined(child, document) for name, child in node.items() if name != "$ref"}
    if "$ref" not in node:
        return members
    target = inlined(resolve(node, document), document)
    return {"allOf": [target, members]} if members.keys() - ANNOTATIONS else target


def _breaks(published: Json, current: Json) -> Iterator[tuple[str, str]]:
    """Pairs of a place and what breaks there."""
    schemas, schemas_now = (side.get("components", {}).get("schemas", {}) for side in (published, current))
    for name in NAMED_SCHEMAS:
        if name in schemas and name not in schemas_now:
            yield "components", f"the schema {name} is gone"
    operations = _operations(current)
    for name, was in _operations(published).items():
        if name not in operations:
            yield "paths", f"{name} is gone"
            continue
        now = operations[name]
        # Generated clients name their functions by the one, and the classes or modules of these by the other.
        for member in ("operationId", "tags"):
            if was[member] != now[member]:
                yield "paths", f"{name} had the {member} {was[member]} and has {now[member]}"
        for change in _request_breaks(was, now):
            yield f"{name}, request", change
        for status, change in _response_breaks(was["responses"], now["responses"]):
            yield f"{name}, response {status}", change


def _operations(document: Json) -> dict[str, Json]:
    defaults = {"operationId": None, "tags": [], "security": document.get("security", [])}
    return {
        f"{method.upper()} {path}": {
            **(defaults | operation),
            "parameters": item.get("parameters", []) + operation.get("parameters", []),
        }
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    }


def _request_breaks(published: Json, current: Json) -> Iterator[str]:
    if current["security"] not in ([], published["security"]) and {} not in current["security"]:
        yield "other credentials are needed"
    yield from _schema_breaks(_request(published), _request(current), "", sent=True)


def _request(operation: Json) -> Json:
    body = operation.get("requestBody", {})
    parameters = {f"{parameter['in']} {parameter['name']}": parameter for parameter in operation["parameters"]}
    return _message(parameters | {"body": body}, body)


def _response_breaks(published: Json, current: Json) -> Iterator[tuple[str, str]]:
    """A status of success may neither go nor come, because clients wait for the one they know. Errors may.

    HTTP has clients take an unknown 4xx or 5xx as 400 or 500, and all errors of the service have one form.
    """
    for status in sorted(published.keys() | current.keys()):
        if status in published and status in current:
            for change in _schema_breaks(_response(published[status]), _response(current[status]), "", sent=False):
                yield status, change
        elif status[0] in "123":
            yield status, f"the status is {'gone' if status in published else 'new'}"


def _response(response: Json) -> Json:
    headers = {f"header {name.lower()}": header for name, header in response.get("headers", {}).items()}
    return _message(headers, response)


def _message(parts: dict[str, Json], body: Json) -> Json:
    """A request or a response as the schema of an object, because the same changes break it."""
    bodies = {f"{media_type} body": media for media_type, media in body.get("content", {}).items()}
    return {
        "type": "object",
        "properties": {name: part.get("schema", {}) for name, part in (parts | bodies).items()},
        "required": [name for name, part in parts.items() if part.get("required")],
    }


def _schema_breaks(published: Any, current: Any, path: str, *, sent: bool) -> Iterator[str]:
    """Breaks between two schemas. Sent: what the service no longer takes. Answered: what was not published.

    A new value of an enumeration in a response is one of these. Clients ignore unknown fields, but they switch on
    values, error.code above all, and generated ones raise.
    """
    # Each value of the narrow one must be among those of the wide one.
    narrow, wide = (published, current) if sent else (current, published)
    if published == current or wide in ({}, True):
        return
    choices = _choices(wide)
    if not choices:
        yield f"{path} {'is no longer taken' if sent else 'can now be there'}"
        return
    for one in _choices(narrow):
        rivals = [other for other in choices if _of_one_kind(one, other)]
        if rivals:
            yield from min((list(_flat_breaks(one, other, path, sent=sent)) for other in rivals), key=len)
        else:
            value = json.dumps(one["const"], ensure_ascii=False) if "const" in one else f"any {one['type']}"
            yield f"{path} {'no longer takes' if sent else 'can now be'} {value}"


def _of_one_kind(one: Json, other: Json) -> bool:
    if "const" in one:
        return _takes(other, one["const"])
    return "const" not in other and _one_type(one, other) == one["type"]


def _one_type(one: Json, other: Json) -> str | None:
    """The type of the values that both take: an integer is a number, too."""
    types = {one["type"], other["type"]}
    if types == {"integer", "number"}:
        return "integer"
    return types.pop() if len(types) == 1 else None


def _takes(schema: Json, value: Any) -> bool:
    return Draft202012Validator(schema, validate_formats=True).is_valid(value)


def _flat_breaks(narrow: Json, wide: Json, path: str, *, sent: bool) -> Iterator[str]:
    """The differences by which a flat schema takes what another of the same type does not."""
    if "const" in narrow:
        return
    was, now = (narrow, wide) if sent else (wide, narrow)
    for keyword in sorted(wide.keys() - NESTING_KEYWORDS):
        if not _keeps(narrow, keyword, wide[keyword]):
            yield f"{path} had the {keyword} {was.get(keyword, 'none')} and has {now.get(keyword, 'none')}"
    yield from _schema_breaks(was.get("items", True), now.get("items", True), f"{path}[]", sent=sent)
    yield from _object_breaks(was, now, f"{path}." if path else "", sent=sent)


def _keeps(narrow: Json, keyword: str, limit: Any) -> bool:
    if keyword.startswith(LOWER_BOUNDS):
        return bool(narrow.get(keyword, -math.inf) >= limit)
    if keyword.startswith(UPPER_BOUNDS):
        return bool(narrow.get(keyword, math.inf) <= limit)
    # Of a pattern, a format or a keyword that is unknown here, no more can be said than that it is the same.
    return keyword in narrow and bool(narrow[keyword] == limit)


def _object_breaks(published: Json, current: Json, prefix: str, *, sent: bool) -> Iterator[str]:
    was, now = published.get("properties", {}), current.get("properties", {})
    required, required_now = set(published.get("required", ())), set(current.get("required", ()))
    further = published.get("additionalProperties", True)
    for name, schema in was.items():
        if name in now:
            yield from _schema_breaks(schema, now[name], prefix + name, sent=sent)
        else:
            yield f"{prefix}{name} is gone"
    if sent:
        yield from (f"{prefix}{name} has become required" for name in sorted(required_now - required))
    else:
        yield from (
            f"{prefix}{name} is no longer always there" for name in sorted((required - required_now) & now.keys())
        )
        for name in sorted(now.keys() - was.keys()):
            yield from _schema_breaks(further, now[name], prefix + name, sent=sent)
    yield from _schema_breaks(further, current.get("additionalProperties", True), f"{prefix}*", sent=sent)


def _choices(schema: Any) -> list[Json]:
    """The schema as a choice between flat schemas of one type each; every value of a closed list is one of them."""
    if isinstance(schema, bool):
        return _choices({}) if schema else []
    own = {name: value for name, value in schema.items() if name not in ANNOTATIONS and not name.startswith("x-")}
    parts = [[part] for part in own.pop("allOf", [])] + [own.pop(name) for name in ("oneOf", "anyOf") if name in own]
    choices = list(_by_type(own))
    for part in parts:
        options = [option for alternative in part for option in _choices(alternative)]
        choices = [both for one in choices for other in options if (both := _both(one, other))]
    return choices


def _by_type(schema: Json) -> Iterator[Json]:
    types = schema.get("type", (*CLOSED_TYPES, *KEYWORDS))
    for name in [types] if isinstance(types, str) else types:
        values = schema.get("enum", CLOSED_TYPES.get(name))
        if values is not None:
            yield from ({"type": name, "const": value} for value in values if _takes(schema | {"type": name}, value))
            continue
        kind = "number" if name == "integer" else name
        foreign = {keyword for other in KEYWORDS.keys() - {kind} for keyword in KEYWORDS[other]}
        if (schema.get("format") in NUMERIC_FORMATS) != (kind == "number"):
            foreign.add("format")
        yield {keyword: value for keyword, value in schema.items() if keyword not in foreign} | {"type": name}


def _both(one: Json, other: Json) -> Json | None:
    """The flat schema of what both take, if there is any."""
    shared = _one_type(one, other)
    if shared is None:
        return None
    both = one | other | {"type": shared}
    for name in sorted(one.keys() & other.keys() - {"type"}):
        mine, others = one[name], other[name]
        if name == "required":
            both[name] = [*mine, *others]
        elif name == "properties":
            both[name] = (
                mine | others | {key: {"allOf": [mine[key], others[key]]} for key in mine.keys() & others.keys()}
            )
        elif name in NESTING_KEYWORDS:
            both[name] = {"allOf": [mine, others]}
        elif name.startswith(LOWER_BOUNDS + UPPER_BOUNDS):
            both[name] = (max if name.startswith(LOWER_BOUNDS) else min)(mine, others)
        elif mine != others:
            both |= {"allOf": [*both.get("allOf", []), {name: mine}]}
    return both if "const" not in both or _takes(both, both["const"]) else None
