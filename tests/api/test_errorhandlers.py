"""Every error, from whichever layer, comes out in the envelope."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest
from flask import abort
from werkzeug.exceptions import default_exceptions
from werkzeug.test import TestResponse

from app.errors import ErrorCode
from app.mail.message import Message
from tests.client import ValidatingClient
from tests.conftest import MakeApp, MakeClient
from tests.factories import SUNSET, contact_body
from tests.fakes import RecordingMailer

SECRET = "la clave de María es 4929 1234"


class CrashingMailer(RecordingMailer):
    def deliver(self, message: Message) -> None:
        raise ZeroDivisionError(SECRET) from ValueError(message.content)


def submit(client: ValidatingClient, **changes: object) -> TestResponse:
    return client.post("/contact.php", json=contact_body(**changes))


def submit_twice(make_client: MakeClient) -> TestResponse:
    client = make_client()
    submit(client)
    return submit(client)


def ask_61_times(make_client: MakeClient) -> TestResponse:
    client = make_client()
    for _ in range(60):
        assert client.get("/api").status_code == 200
    return client.get("/api")


def fail_to_deliver(make_client: MakeClient) -> TestResponse:
    mailer = RecordingMailer()
    mailer.broken = True
    return submit(make_client(collaborators={"mailer": mailer}))


def crash(make_client: MakeClient) -> TestResponse:
    return submit(make_client(collaborators={"mailer": CrashingMailer()}))


ERRORS: dict[str, tuple[int, Callable[[MakeClient], TestResponse]]] = {
    "method_not_allowed": (405, lambda make: make().get("/contact.php")),
    "invalid_body": (400, lambda make: make().post("/contact.php", data=b"", content_type="application/json")),
    "bad_captcha": (400, lambda make: submit(make(), captcha_input="xxxxx")),
    "invalid_form_type": (400, lambda make: submit(make(), form_type="soporte")),
    "invalid_email": (400, lambda make: submit(make(), email="maria")),
    "rate_limit": (429, submit_twice),
    "rate_limit_exceeded": (429, ask_61_times),
    "mail_delivery_failed": (500, fail_to_deliver),
    "invalid_parameter": (400, lambda make: make().get("/api?section=x")),
    "api_version_sunset": (410, lambda make: make(**SUNSET).get("/api/v1")),
    "too_fast": (429, lambda make: submit(make(), ts=0)),
    "internal_error": (500, crash),
    "not_found": (404, lambda make: make().get("/x")),
    "endpoint_not_found": (404, lambda make: make().get("/api/x")),
    "unsupported_api_version": (404, lambda make: make().get("/api/v9")),
}
"""Each code of the specification with its status and a request that it answers."""

EXTRAS = {
    "too_fast": {"details", "retry_after_seconds"},
    "rate_limit": {"retry_after_seconds"},
    "rate_limit_exceeded": {"retry_after_seconds"},
    "invalid_body": {"details"},
    "invalid_parameter": {"details", "allowed_values"},
    "invalid_form_type": {"allowed_values"},
    "unsupported_api_version": {"details"},
    "mail_delivery_failed": {"details"},
}
"""What an error says beside code, message, status and hint."""


def test_every_code_of_the_catalogue_is_provoked() -> None:
    assert sorted(ERRORS) == sorted(map(str, ErrorCode))


@pytest.mark.parametrize("code", ERRORS)
def test_every_code_comes_with_its_status_in_the_envelope(make_client: MakeClient, code: str) -> None:
    status, provoke = ERRORS[code]

    response = provoke(make_client)

    assert response.status_code == status
    assert response.content_type == "application/json"
    body = response.get_json()
    assert body.keys() == {"ok", "error", "docs"}
    assert body["ok"] is False
    assert body["docs"] == "http://localhost/openapi.json"
    assert body["error"].keys() == {"code", "message", "status", "hint"} | EXTRAS.get(code, set())
    assert body["error"]["code"] == code
    assert body["error"]["status"] == status


@pytest.mark.parametrize("code", ERRORS)
def test_retry_after_comes_with_429_alone_and_equals_the_body(make_client: MakeClient, code: str) -> None:
    status, provoke = ERRORS[code]

    response = provoke(make_client)

    if status == 429:
        assert int(response.headers["Retry-After"]) == response.get_json()["error"]["retry_after_seconds"] >= 1
    else:
        assert "Retry-After" not in response.headers


@pytest.mark.parametrize("code", ERRORS)
def test_allow_comes_with_405_alone(make_client: MakeClient, code: str) -> None:
    status, provoke = ERRORS[code]

    assert ("Allow" in provoke(make_client).headers) == (status == 405)


def test_an_unsupported_version_says_what_is_supported(client: ValidatingClient) -> None:
    assert client.get("/api/v9").get_json()["error"]["details"] == {"supported": ["v1"]}


TRANSLATIONS = {
    400: "invalid_body",
    404: "not_found",
    405: "method_not_allowed",
    408: "invalid_body",
    411: "invalid_body",
    413: "invalid_body",
    414: "invalid_body",
    415: "invalid_body",
    417: "invalid_body",
    422: "invalid_body",
    429: "rate_limit_exceeded",
    431: "invalid_body",
} | {status: "internal_error" for status in default_exceptions if status >= 500}
"""Exceptions whose row in the catalogue is certain; the others may take any row."""


@pytest.mark.parametrize("status", sorted(default_exceptions))
def test_every_exception_of_werkzeug_comes_out_in_the_envelope(make_app: MakeApp, status: int) -> None:
    app = make_app()

    @app.get("/raises")
    def raises() -> NoReturn:
        abort(status, description=SECRET)

    response = app.test_client().get("/raises")

    error = response.get_json()["error"]
    assert error["code"] == TRANSLATIONS.get(status, error["code"])
    assert error["status"] == response.status_code == ERRORS[error["code"]][0]
    assert SECRET.encode() not in response.data


UNKNOWN_PATHS = {
    "not_found": [
        "/",
        "/index.html",
        "/favicon.ico",
        "/static/",
        "/static/openapi.json",
        "/openapi.json/",
        "/openapi.yaml",
        "/contact.php/",
        "/contact.php/x",
        "/contact",
        "//",
        "//contact.php",
        "///contact.php",
        "//api",
        "//api/v1",
        "/API",
        "/apix",
        "/api;x",
        "/./api",
        "/ñ",
    ],
    "endpoint_not_found": [
        "/api/",
        "/api//",
        "/api//v1",
        "/api/x",
        "/api/versioning/",
        "/api/v1/",
        "/api/v1//health",
        "/api/v1/health/",
        "/api/v1/contact/",
        "/api/v1/contact.php",
        "/api/v1/x",
        "/api/V1",
        "/api/v",
        "/api/v/",
        "/api/vx",
        "/api/v1x",
        "/api/v-1",
        "/api/v1.0",
        "/api/vv9",
        "/api/v\u0662",
        "/api/v\udcb2",
        "/api/9",
        "/api/x/v9",
        "/api/../contact.php",
    ],
    "unsupported_api_version": [
        "/api/v9",
        "/api/v9/",
        "/api/v9/x",
        "/api/v9/contact",
        "/api/v0",
        "/api/v01",
        "/api/v01/health",
        "/api/v2",
        "/api/v10",
        "/api/v" + "9" * 1000,
    ],
}


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    ("code", "path"),
    [(code, path) for code, paths in UNKNOWN_PATHS.items() for path in paths],
    ids=lambda text: ascii(text[:30]),
)
def test_an_unknown_path_is_answered_by_where_it_lies(
    client: ValidatingClient, method: str, code: str, path: str
) -> None:
    # The client itself would take //api for a host; PEP 3333 passes the bytes of a path on as Latin-1. A lone surrogate
    # in the table stands for a byte that is no UTF-8.
    environ = {"PATH_INFO": path.encode(errors="surrogateescape").decode("latin-1")}

    response = client.open(method=method, environ_overrides=environ)

    assert response.status_code == 404
    assert response.get_json()["error"]["code"] == code
    assert "Location" not in response.headers


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("path", ["", "*", "api", "api/v1/health", "api/v1/contact", "contact.php", "x:api/v1/health"])
def test_a_path_that_does_not_begin_with_a_slash_is_refused(client: ValidatingClient, method: str, path: str) -> None:
    response = client.open(method=method, environ_overrides={"PATH_INFO": path})

    assert response.status_code == 400
    error = response.get_json()["error"]
    assert (error["code"], error["details"]) == ("invalid_body", {"reason": "http"})
    assert response.headers["X-RateLimit-Remaining"] == "60"


KNOWN_PATHS = {
    "/api": "GET, HEAD, OPTIONS",
    "/api/versioning": "GET, HEAD, OPTIONS",
    "/api/v1": "GET, HEAD, OPTIONS",
    "/api/v1/health": "GET, HEAD, OPTIONS",
    "/openapi.json": "GET, HEAD, OPTIONS",
    "/api/v1/contact": "POST, OPTIONS",
    "/contact.php": "POST, OPTIONS",
}


def test_every_path_of_the_service_is_known(client: ValidatingClient) -> None:
    assert {rule.rule for rule in client.application.url_map.iter_rules()} == set(KNOWN_PATHS)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", KNOWN_PATHS)
def test_a_method_that_a_known_path_does_not_serve_is_refused_with_allow(
    client: ValidatingClient, path: str, method: str
) -> None:
    allow = KNOWN_PATHS[path]

    response = client.open(path, method=method)

    if method in allow.split(", "):
        assert response.status_code != 405
    else:
        assert response.status_code == 405
        assert response.headers["Allow"] == allow
        assert method == "HEAD" or response.get_json()["error"]["code"] == "method_not_allowed"
