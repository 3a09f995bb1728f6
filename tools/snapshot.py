"""The parts of static/openapi.json that clients rely on, one per line. A stable version keeps them compatible.

(Specification, Versioning, rule 3.) Removing or changing a line breaks clients. So does a new line that a request
requires, or a new value of an ``enum`` in a response.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from app.api.root import DOCUMENT_FILE
from tools import Node, resolve

TYPE = ("type", "format", "const", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "$ref")


def snapshot(_: str) -> str:
    """A line for each operation, parameter, body, response, schema and field of the document."""
    document = json.loads(DOCUMENT_FILE.read_bytes())
    lines = [*_operations(document), *_schemas(document["components"]["schemas"])]
    return "\n".join(sorted(line.rstrip() for line in lines)) + "\n"


def _operations(document: Node) -> Iterator[str]:
    def resolved(node: Node) -> Node:
        return resolve(node, document)

    operations = [(path, *each) for path, item in document["paths"].items() for each in item.items()]
    for path, method, operation in operations:
        name = f"{method.upper()} {path}"
        yield f"{name} is {operation['operationId']}"
        for parameter in map(resolved, operation.get("parameters", [])):
            yield f"{name} ?{parameter['name']} {_kind(parameter['schema'], required=parameter.get('required'))}"
        for media_type, body in resolved(operation.get("requestBody", {})).get("content", {}).items():
            yield f"{name} takes {media_type} {_kind(body['schema'])}"
        for status, response in operation["responses"].items():
            answer = resolved(response)
            bodies = [_kind(body["schema"]) for body in answer.get("content", {}).values()]
            fields = [field for field, header in answer["headers"].items() if resolved(header).get("required")]
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
