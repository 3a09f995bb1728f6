"""The test client: every response that any test receives is validated against static/openapi.json."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from werkzeug.test import TestResponse

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[1] / "static" / "openapi.json").read_bytes())

NO_CONTENT = {204, 304}


def _of_any_quota() -> dict[str, Any]:
    """The document with quotas of any size; one test holds their values (contract/test_document.py)."""
    document = copy.deepcopy(DOCUMENT)
    headers = document["components"]["headers"]
    rule = document["components"]["schemas"]["RateLimitRule"]["properties"]
    headers["RateLimit-Policy"]["schema"]["pattern"] = '^"default";q=[0-9]+;w=[0-9]+$'
    for name in ("X-RateLimit-Limit", "X-RateLimit-Remaining"):
        del headers[name]["schema"]["maximum"]
    for name in ("limit", "window_seconds"):
        del rule[name]["maximum"]
    return document


ANY_QUOTA = _of_any_quota()


def resolve(node: dict[str, Any], document: dict[str, Any] = DOCUMENT) -> dict[str, Any]:
    """The node, or what its $ref points to."""
    while "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


@functools.cache
def _validator(schema: str, *, any_quota: bool) -> Draft202012Validator:
    # The whole document goes along, so that its references resolve.
    document = ANY_QUOTA if any_quota else DOCUMENT
    return Draft202012Validator(
        {"components": document["components"]} | json.loads(schema), format_checker=Draft202012Validator.FORMAT_CHECKER
    )


def validate(value: Any, schema: dict[str, Any], *, any_quota: bool = False) -> None:
    _validator(json.dumps(schema), any_quota=any_quota).validate(value)


def _typed(text: str, schema: dict[str, Any]) -> Any:
    return int(text) if resolve(schema).get("type") == "integer" else text


def _validate_headers(headers: Mapping[str, str], documented: dict[str, Any]) -> None:
    for name, reference in documented.items():
        header = resolve(reference, ANY_QUOTA)
        if name in headers:
            validate(_typed(headers[name], header["schema"]), header["schema"], any_quota=True)
        else:
            assert not header.get("required"), f"{name} is missing"


def find_response(method: str, path: str, status: int) -> dict[str, Any]:
    """The documented response; what is answered outside the documented operations has the common error's form."""
    operation = DOCUMENT["paths"].get(path, {}).get(method.lower())
    if operation is not None:
        assert str(status) in operation["responses"], f"{method} {path} -> {status} is not documented"
        return resolve(operation["responses"][str(status)])
    assert status >= 400, f"{method} {path} -> {status} is not documented"
    any_error = DOCUMENT["components"]["schemas"]["ErrorResponse"]
    assert any_error
    headers = resolve(DOCUMENT["paths"]["/api"]["get"]["responses"]["400"])["headers"]
    return {
        "headers": {name: header for name, header in headers.items() if name != "Allow"},
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}},
    }


def validate_response(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Hold one response to the document: status, headers and body."""
    documented = find_response(method, path, status)
    _validate_headers(headers, documented.get("headers", {}))
    if status in NO_CONTENT or method == "HEAD":
        assert body == b""
        return
    assert headers["Content-Type"] == "application/json"
    payload = json.loads(body)
    validate(payload, documented["content"]["application/json"]["schema"], any_quota=True)
    if status >= 400:
        assert payload["error"]["status"] == status


class ValidatingClient(FlaskClient):
    """Opens requests as Flask's client does, and validates what comes back."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        environ = response.request.environ
        path = cast("str", environ["PATH_INFO"])
        validate_response(environ["REQUEST_METHOD"], path, response.status_code, dict(response.headers), response.data)
        return response
