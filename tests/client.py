"""The test client: every response that any test receives is validated against static/openapi.json."""

import copy
import functools
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator
from werkzeug.test import TestResponse

import tools

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[1] / "static" / "openapi.json").read_bytes())

NO_CONTENT = {204, 304}

FIELDS = {name for response in DOCUMENT["components"]["responses"].values() for name in response["headers"]}
"""The names of all header fields that the document knows."""

WITH_SUCCESSOR = {"Deprecation", "Sunset"}
"""Those that come with the successor in Link. Mocks send all that are listed, so only a 410 lists them."""

LIMITS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "ContactX-RateLimit-Limit", "SpentX-RateLimit-Remaining")
"""The header fields of the document with a number of requests."""


def _of_any_quota() -> dict[str, Any]:
    """The document with quotas of any size; ``make docs`` writes those of the service."""
    document = copy.deepcopy(DOCUMENT)
    headers = document["components"]["headers"]
    rule = document["components"]["schemas"]["RateLimitRule"]["properties"]
    for name in ("RateLimit-Policy", "ContactRateLimit-Policy"):
        headers[name]["schema"] = {"pattern": '^"default";q=[0-9]+;w=[0-9]+$'}
    for name in LIMITS:
        headers[name]["schema"] = {"type": "integer", "minimum": 0}
    for name in ("limit", "window_seconds"):
        del rule[name]["maximum"]
    return document


ANY_QUOTA = _of_any_quota()


def resolve(node: dict[str, Any], document: dict[str, Any] = DOCUMENT) -> dict[str, Any]:
    """The node, or what its $ref points to."""
    return tools.resolve(node, document)


@functools.cache
def _validator(schema: str, *, any_quota: bool) -> Draft202012Validator:
    # The whole document goes along, so that its references resolve.
    document = ANY_QUOTA if any_quota else DOCUMENT
    return Draft202012Validator({"components": document["components"]} | json.loads(schema), validate_formats=True)


def make_validator(schema: dict[str, Any], *, any_quota: bool = False) -> Draft202012Validator:
    """The validator of a schema of the document, its formats included."""
    return _validator(json.dumps(schema), any_quota=any_quota)


def find_response(method: str, path: str, status: int) -> dict[str, Any]:
    """The documented response; an unknown path is answered with an error of the common form."""
    operations = DOCUMENT["paths"].get(path)
    if operations is not None:
        responses = _responses(method, operations)
        assert str(status) in responses, f"{method} {path} -> {status} is not documented"
        return resolve(responses[str(status)])
    assert status >= 400, f"{method} {path} -> {status} is not documented"
    error = resolve({"$ref": "#/components/responses/NotFound"})
    granted = [f"Access-Control-{name}" for name in ("Allow-Headers", "Allow-Methods", "Max-Age")]
    own: dict[str, Any] = {name: {"schema": {}} for name in ("Allow", "Retry-After", *granted)}
    return error | {"headers": error["headers"] | own}


def _responses(method: str, operations: dict[str, Any]) -> dict[str, Any]:
    """The responses of a path by their status.

    HEAD is answered as GET (RFC 9110, section 9.3.2), and OPTIONS on each path as on the contact paths, where it is
    documented. A method that the path does not serve is refused as its first operation would be.
    """
    first = next(iter(operations.values()))["responses"]
    if method == "OPTIONS":
        preflight = resolve({"$ref": "#/components/responses/ContactOptions"})
        allowed = {"headers": preflight["headers"] | {"Allow": {"$ref": "#/components/headers/Allow"}}}
        own: dict[str, Any] = operations.get("options", {"responses": {}})["responses"]
        return {"204": allowed} | {status: first[status] for status in ("400", "500")} | own
    operation = operations.get("get" if method == "HEAD" else method.lower())
    errors = {status: response for status, response in first.items() if status >= "400"}
    responses: dict[str, Any] = errors if operation is None else operation["responses"]
    return responses


class _Header(NamedTuple):
    name: str
    required: bool
    is_integer: bool
    validator: Draft202012Validator


class _Documented(NamedTuple):
    headers: list[_Header]
    validator: Draft202012Validator | None = None
    """Of the body; None for a response that has none."""
    codes: Collection[str] = ()
    """Of the errors at a known path."""
    may_have_data: bool = False


@functools.lru_cache(maxsize=1024)
def _rules(method: str, path: str, status: int) -> _Documented:
    documented = find_response(method, path, status)
    headers = []
    for name, reference in documented["headers"].items():
        header = resolve(reference, ANY_QUOTA)
        is_integer = resolve(header["schema"]).get("type") == "integer"
        validator = make_validator(header["schema"], any_quota=True)
        headers.append(_Header(name, header.get("required", False), is_integer, validator))
    if status in NO_CONTENT or method == "HEAD":
        return _Documented(headers)
    content = documented["content"]["application/json"]
    schema = content["schema"]
    answers = [resolve(example)["value"] for example in content["examples"].values()]
    codes = {answer["error"]["code"] for answer in answers if "error" in answer} if path in DOCUMENT["paths"] else set()
    may_have_data = schema.get("required") != ["message"]
    return _Documented(headers, make_validator(schema, any_quota=True), codes, may_have_data)


def validate_response(method: str, path: str, status: int, fields: Iterable[tuple[str, str]], body: bytes) -> None:
    """Hold one response to the document: status, header fields and body."""
    documented = _rules(method, path, status)
    headers: dict[str, str] = {}
    for name, value in fields:  # Several lines of one field are one list (RFC 9110, section 5.3).
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    of_the_api = f"{path}/".startswith("/api/") or path in {"", "/openapi.json"}
    assert ('rel="service-desc"' in headers.get("Link", "")) == of_the_api
    announced = WITH_SUCCESSOR if 'rel="successor-version"' in headers.get("Link", "") else set()
    assert headers.keys() & FIELDS <= announced | {header.name for header in documented.headers}
    for header in documented.headers:
        text = headers.get(header.name)
        if text is None:
            assert not header.required, f"{header.name} is missing"
        else:
            header.validator.validate(int(text) if header.is_integer else text)
    if documented.validator is None:
        assert body == b""
        return
    assert headers["Content-Type"] == "application/json"
    payload = json.loads(body)
    documented.validator.validate(payload)
    assert documented.may_have_data or "data" not in payload, f"static/openapi.json has no data in {method} {path}"
    if status >= 400:
        assert payload["error"]["status"] == status
        assert not documented.codes or payload["error"]["code"] in documented.codes, (
            f"{method} {path} answers {payload['error']['code']}: correct its Where in app/errors.py, or the document"
        )


class ValidatingClient(FlaskClient):
    """Opens requests as Flask's client does, and validates what comes back."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        environ = response.request.environ
        path = cast("str", environ["PATH_INFO"])
        validate_response(environ["REQUEST_METHOD"], path, response.status_code, response.headers, response.data)
        return response
