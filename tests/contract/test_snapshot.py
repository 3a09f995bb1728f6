"""The document keeps what clients rely on: a stable version never receives an incompatible change (Versioning 3).

``.venv/bin/python -m tests.contract.test_snapshot`` renews the snapshot. A line that goes or changes breaks clients. So
does a new line that a request requires, or a new value of an ``enum`` that is answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.client import DOCUMENT, resolve

SNAPSHOT = Path(__file__).with_name("snapshot.txt")
RENEW = "if that is on purpose: .venv/bin/python -m tests.contract.test_snapshot"
TYPE = ("type", "format", "const", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "$ref")


def lines() -> Iterator[str]:
    """A line for each operation, parameter, body, response, schema and field of the document."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            name = f"{method.upper()} {path}"
            yield f"{name} is {operation['operationId']}"
            for parameter in map(resolve, operation.get("parameters", [])):
                yield f"{name} ?{parameter['name']} {kind(parameter['schema'], required=parameter.get('required'))}"
            for media_type, body in resolve(operation.get("requestBody", {})).get("content", {}).items():
                yield f"{name} takes {media_type} {kind(body['schema'])}"
            for status, response in operation["responses"].items():
                bodies = [kind(body["schema"]) for body in resolve(response).get("content", {}).values()]
                fields = [field for field, header in resolve(response)["headers"].items() if is_required(header)]
                yield " ".join([f"{name} answers {status}", *bodies, "with", *sorted(fields)])
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for part in (schema, *schema.get("allOf", [])):
            yield f"{name} {kind(part)}"
            for field, its_schema in part.get("properties", {}).items():
                yield f"{name}.{field} {kind(its_schema, required=field in part.get('required', []))}"


def is_required(header: dict[str, Any]) -> bool:
    return bool(resolve(header).get("required"))


def kind(schema: dict[str, Any], *, required: Any = False) -> str:
    """The type of a schema in a few words."""
    said = [f"{word}={schema[word]}" for word in TYPE if word in schema]
    items = [f"of ({kind(schema['items'])})"] if "items" in schema else []
    return " ".join([*said, *items, *(["required"] if required else [])])


def test_the_document_keeps_what_clients_rely_on() -> None:
    assert sorted(lines()) == SNAPSHOT.read_text().splitlines(), RENEW


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(sorted(lines())) + "\n")
