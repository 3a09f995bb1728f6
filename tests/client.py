"""The test client: every response that any test receives is validated against static/openapi.json."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator
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
    return Draft202012Validator({"components": document["components"]} | json.loads(schema), validate_formats=True)


def make_validator(schema: dict[str, Any], *, any_quota: bool = False) -> Draft202012Validator:
    """The validator of a schema of the document, its formats included."""
    return _validator(json.dumps(schema), any_quota=any_quota)


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


class _Header(NamedTuple):
    name: str
    required: bool
    is_integer: bool
    validator: Draft202012Validator


@functools.lru_cache(maxsize=1024)
def _rules(method: str, path: str, status: int) -> tuple[list[_Header], Draft202012Validator | None]:
    """The documented header fields of a response, and the validator of its body; None when it has no body."""
    documented = find_response(method, path, status)
    headers = []
    for name, reference in documented.get("headers", {}).items():
        header = resolve(reference, ANY_QUOTA)
        is_integer = resolve(header["schema"]).get("type") == "integer"
        validator = make_validator(header["schema"], any_quota=True)
        headers.append(_Header(name, header.get("required", False), is_integer, validator))
    if status in NO_CONTENT or method == "HEAD":
        return headers, None
    return headers, make_validator(documented["content"]["application/json"]["schema"], any_quota=True)


def validate_response(method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Hold one response to the document: status, headers and body."""
    documented, validator = _rules(method, path, status)
    for header in documented:
        text = headers.get(header.name)
        if text is None:
            assert not header.required, f"{header.name} is missing"
        else:
            header.validator.validate(int(text) if header.is_integer else text)
    if validator is None:
        assert body == b""
        return
    assert headers["Content-Type"] == "application/json"
    payload = json.loads(body)
    validator.validate(payload)
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
