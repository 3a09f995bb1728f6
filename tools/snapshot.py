"""What clients rely on in static/openapi.json, a line each: a stable version never receives an incompatible change.

(Specification, Versioning, rule 3.) A line that goes or changes breaks clients. So does a new line that a request
requires, or a new value of an ``enum`` that is answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Node = dict[str, Any]

TYPE = ("type", "format", "const", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "$ref")


def snapshot(_: str) -> str:
    """A line for each operation, parameter, body, response, schema and field of the document."""
    document = json.loads((Path(__file__).parents[1] / "static" / "openapi.json").read_bytes())
    lines = [*_operations(document), *_schemas(document["components"]["schemas"])]
    return "\n".join(sorted(lines)) + "\n"


def _operations(document: Node) -> Iterator[str]:
    def resolve(node: Node) -> Node:
        if "$ref" not in node:
            return node
        _, kind, name = node["$ref"].removeprefix("#/").split("/")
        return resolve(document["components"][kind][name])

    operations = [(path, *each) for path, item in document["paths"].items() for each in item.items()]
    for path, method, operation in operations:
        name = f"{method.upper()} {path}"
        yield f"{name} is {operation['operationId']}"
        for parameter in map(resolve, operation.get("parameters", [])):
            yield f"{name} ?{parameter['name']} {_kind(parameter['schema'], required=parameter.get('required'))}"
        for media_type, body in resolve(operation.get("requestBody", {})).get("content", {}).items():
            yield f"{name} takes {media_type} {_kind(body['schema'])}"
        for status, response in operation["responses"].items():
            answer = resolve(response)
            bodies = [_kind(body["schema"]) for body in answer.get("content", {}).values()]
            fields = [field for field, header in answer["headers"].items() if resolve(header).get("required")]
            yield " ".join([f"{name} answers {status}", *bodies, "with", *sorted(fields)])


def _schemas(schemas: Node) -> Iterator[str]:
    for name, schema in schemas.items():
        for part in (schema, *schema.get("allOf", [])):
            yield f"{name} {_kind(part)}"
            for field, its_schema in part.get("properties", {}).items():
                yield f"{name}.{field} {_kind(its_schema, required=field in part.get('required', []))}"


def _kind(schema: Node, *, required: Any = False) -> str:
    """The type of a schema in a few words."""
    said = [f"{word}={schema[word]}" for word in TYPE if word in schema]
    items = [f"of ({_kind(schema['items'])})"] if "items" in schema else []
    return " ".join([*said, *items, *(["required"] if required else [])])
