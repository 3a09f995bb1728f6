"""The application is a Flask application like any other: whatever Flask lets one register runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from io import BytesIO
from typing import Any, NoReturn

import flask
import pytest
from flask import Flask, abort, request, session
from flask.signals import (
    got_request_exception,
    request_finished,
    request_started,
)
from werkzeug.exceptions import Conflict
from werkzeug.test import Client, TestResponse

from tests.api.fields import VARYING, assert_contract
from tests.api.test_errorhandlers import ERRORS
from tests.client import ValidatingClient
from tests.conftest import MakeApp, MakeClient
from tests.factories import API_QUOTA, contact_body

SECRET = "la clave de María es 4929 1234"
TYPED = "maria@example.com"
QUOTA = API_QUOTA.quota

Hook = Callable[..., Any]
Answer = tuple[str, str, int]

ANSWERS: dict[str, Answer] = {
    "a path without parameters": ("GET", "/api/v1/health", 200),
    "the document": ("GET", "/openapi.json", 200),
    "HEAD": ("HEAD", "/api", 200),
    "a contact request": ("POST", "/contact.php", 400),
    "a wrong method": ("POST", "/api", 405),
    "an unknown path": ("GET", "/x", 404),
    "a wrong parameter": ("GET", "/api?section=x", 400),
}
"""A request of each kind that Flask's hooks see, and the status of its answer."""

answers = pytest.mark.parametrize(("method", "path", "status"), ANSWERS.values(), ids=ANSWERS)


def ask(app: Flask, path: str = "/probe", method: str = "GET", **options: Any) -> TestResponse:
    """Asks as a client does; the app's own test client takes only what the document describes."""
    return Client(app).open(path, method=method, **options)


def error_code(response: TestResponse) -> str:
    assert response.content_type == "application/json"
    assert response.json is not None
    code: str = response.json["error"]["code"]
    return code


def remaining(response: TestResponse) -> int:
    return int(response.headers["X-RateLimit-Remaining"])


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    """The real app with a route more, /probe."""
    app = make_app()

    @app.get("/probe")
    def probe() -> dict[str, str]:
        return {"probe": "ok"}

    return app


def watch(app: Flask, seen: list[str]) -> None:
    """Register one hook of each kind that a request can meet."""
    app.url_value_preprocessor(lambda _endpoint, _values: seen.append("url_value_preprocessor"))

    @app.before_request
    def before() -> None:
        seen.append("before_request")

    @app.after_request
    def after(response: flask.Response) -> flask.Response:
        seen.append("after_request")
        return response

    @app.teardown_request
    def teardown(_: BaseException | None) -> None:
        seen.append("teardown_request")

    @app.teardown_appcontext
    def teardown_context(_: BaseException | None) -> None:
        seen.append("teardown_appcontext")


class TestHooks:
    """Each runs, in Flask's order, whatever is asked for."""

    @answers
    def test_the_hooks_of_the_app_run(self, app: Flask, method: str, path: str, status: int) -> None:
        seen: list[str] = []
        watch(app, seen)

        response = ask(app, path, method)

        assert response.status_code == status
        assert seen == [
            "url_value_preprocessor",
            "before_request",
            "after_request",
            "teardown_request",
            "teardown_appcontext",
        ]

    @answers
    def test_the_response_is_the_same_with_hooks(self, make_app: MakeApp, method: str, path: str, status: int) -> None:
        plain, watched = make_app(), make_app()
        watch(watched, [])

        responses = [ask(app, path, method) for app in (plain, watched)]

        assert [response.status_code for response in responses] == [status, status]
        without, with_hooks = (
            {name: value for name, value in response.headers if name not in VARYING} for response in responses
        )
        assert without == with_hooks

    def test_a_hook_before_all_views_may_answer_by_itself(self, app: Flask) -> None:
        app.before_request(lambda: ({"closed": True}, 503))

        response = ask(app, "/api")

        assert (response.status_code, response.json) == (503, {"closed": True})
        assert remaining(response) == QUOTA - 1
        assert_contract(response)

    def test_a_hook_may_put_another_response_in_the_place(self, app: Flask) -> None:
        app.after_request(lambda _response: flask.Response("other", 202, content_type="text/plain"))

        response = ask(app, "/api/v1/health")

        assert (response.status_code, response.text, response.content_type) == (202, "other", "text/plain")
        assert_contract(response)


class TestSignals:
    def test_the_exception_itself_is_told(self, app: Flask) -> None:
        told: list[BaseException] = []
        error = ZeroDivisionError(SECRET)

        @app.get("/crash")
        def crash() -> NoReturn:
            raise error

        def receive(_: Flask, exception: BaseException, **__: Any) -> None:
            told.append(exception)

        with got_request_exception.connected_to(receive, app):
            response = ask(app, "/crash")

        assert error_code(response) == "internal_error"
        assert told == [error]


BROKEN = {
    "API-Version": "broken",
    "Vary": "broken",
    "Cache-Control": "broken",
    "X-Content-Type-Options": "broken",
    "RateLimit": "broken",
    "RateLimit-Policy": "broken",
    "X-RateLimit-Limit": "broken",
    "X-RateLimit-Remaining": "broken",
    "X-RateLimit-Reset": "broken",
    "X-Request-ID": "broken",
    "Access-Control-Allow-Origin": "broken",
    "Access-Control-Expose-Headers": "broken",
}
"""Every field of the contract, as no contract has it."""


def put(response: flask.Response) -> flask.Response:
    response.headers.update(BROKEN)
    return response


def add(response: flask.Response) -> flask.Response:
    for name, value in BROKEN.items():
        response.headers.add(name, value)
    return response


def put_in_lower_case(response: flask.Response) -> flask.Response:
    response.headers.update({name.lower(): value for name, value in BROKEN.items()})
    return response


def delete(response: flask.Response) -> flask.Response:
    for name in BROKEN:
        response.headers.pop(name, None)
    return response


class TestOrder:
    """The contract comes first, before all hooks of others, and last, after them."""

    def test_a_hook_never_sees_what_the_quota_refuses(self, app: Flask) -> None:
        seen: list[str] = []
        app.before_request(lambda: seen.append(request.path))

        statuses = [ask(app, "/api").status_code for _ in range(QUOTA + 1)]

        assert statuses == [200] * QUOTA + [429]
        assert seen == ["/api"] * QUOTA

    def test_a_hook_never_sees_what_is_no_request(self, app: Flask) -> None:
        seen: list[str] = []
        app.before_request(lambda: seen.append(request.path))

        refused = ask(app, environ_overrides={"PATH_INFO": "api/v1"})
        ask(app)

        assert error_code(refused) == "invalid_body"
        assert seen == ["/probe"]

    def test_a_refusal_of_the_quota_is_a_response_like_any_other(self, app: Flask) -> None:
        seen: list[int] = []

        @app.after_request
        def after(response: flask.Response) -> flask.Response:
            seen.append(response.status_code)
            return response

        for _ in range(QUOTA + 1):
            refused = ask(app, "/api")

        assert seen == [200] * QUOTA + [429]
        assert error_code(refused) == "rate_limit_exceeded"
        assert int(refused.headers["Retry-After"]) >= 1

    def test_a_request_counts_before_a_hook_fails(self, app: Flask) -> None:
        @app.before_request
        def fail() -> NoReturn:
            raise ZeroDivisionError

        responses = [ask(app, "/api") for _ in range(2)]

        assert [response.status_code for response in responses] == [500, 500]
        assert [remaining(response) for response in responses] == [QUOTA - 1, QUOTA - 2]

    @answers
    @pytest.mark.parametrize("spoil", [put, add, put_in_lower_case, delete])
    def test_a_hook_cannot_spoil_the_contract(
        self, make_app: MakeApp, spoil: Hook, method: str, path: str, status: int
    ) -> None:
        plain, app = make_app(), make_app()
        app.after_request(spoil)
        seen: list[str] = []
        watch(app, seen)

        response = ask(app, path, method)

        assert "after_request" in seen
        assert response.status_code == status
        caching = ask(plain, path, method).headers["Cache-Control"]
        assert_contract(response, Cache_Control=caching)

    @answers
    def test_a_field_of_its_own_arrives(self, app: Flask, method: str, path: str, status: int) -> None:
        @app.after_request
        def mark(response: flask.Response) -> flask.Response:
            response.set_cookie("visitor", "ana")
            response.set_cookie("language", "es")
            response.headers["X-Frame-Options"] = "DENY"
            return response

        response = ask(app, path, method)

        assert response.status_code == status
        assert response.headers["X-Frame-Options"] == "DENY"
        assert [cookie.partition(";")[0] for cookie in response.headers.getlist("Set-Cookie")] == [
            "visitor=ana",
            "language=es",
        ]

    def test_a_view_cannot_spoil_the_contract(self, app: Flask) -> None:
        app.get("/spoilt")(lambda: ("spoilt", BROKEN))

        response = ask(app, "/spoilt")

        assert response.text == "spoilt"
        assert_contract(response)


def fail_with_secrets(*_: Any, **__: Any) -> NoReturn:
    raise ZeroDivisionError(SECRET) from ValueError(request.get_data(as_text=True))


FAILING: dict[str, Callable[[Flask], Any]] = {
    "view": lambda app: app.post("/rooms/<name>", endpoint="failing")(fail_with_secrets),
    "url_value_preprocessor": lambda app: app.url_value_preprocessor(fail_with_secrets),
    "before_request": lambda app: app.before_request(fail_with_secrets),
    "after_request": lambda app: app.after_request(fail_with_secrets),
    "teardown_request": lambda app: app.teardown_request(fail_with_secrets),
    "request_started": lambda app: request_started.connect(fail_with_secrets_by_signal, app),
    "request_finished": lambda app: request_finished.connect(fail_with_secrets_by_signal, app),
}
"""What fails, always: also while the error is being answered."""


def fail_with_secrets_by_signal(_: Flask, **__: Any) -> NoReturn:
    fail_with_secrets()


class TestFailures:
    @pytest.mark.parametrize("what", FAILING)
    def test_what_fails_is_answered_in_the_envelope_and_logged_without_what_was_typed(
        self, make_app: MakeApp, caplog: pytest.LogCaptureFixture, what: str
    ) -> None:
        caplog.set_level(logging.DEBUG)
        app = make_app()
        FAILING[what](app)

        response = ask(app, f"/rooms/{TYPED}?q={TYPED}", "POST", data=TYPED, headers={"X-Typed": TYPED})

        assert response.status_code == 500
        assert error_code(response) == "internal_error"
        assert_contract(response)
        assert "ZeroDivisionError" in caplog.text
        assert "test_flask.py" in caplog.text
        assert "fail_with_secrets" in caplog.text
        assert SECRET not in caplog.text
        assert "maria" not in caplog.text
        assert SECRET not in response.text
        assert [record.name for record in caplog.records].count("app.request") == 1

    def test_a_hook_that_forgets_to_return_the_response_fails(self, app: Flask) -> None:
        app.after_request(lambda _response: None)

        response = ask(app, "/api")

        assert error_code(response) == "internal_error"
        assert_contract(response)

    @pytest.mark.parametrize("path", ["/crash", "/api"])
    def test_a_hook_that_always_fails_leaves_the_fields_to_a_handler_of_ones_own(
        self, app: Flask, caplog: pytest.LogCaptureFixture, path: str
    ) -> None:
        app.get("/crash")(fail_with_secrets)
        app.after_request(fail_with_secrets)
        app.register_error_handler(500, lambda _: ("mine", 500))

        response = ask(app, path)

        assert (response.status_code, response.text) == (500, "mine")
        assert_contract(response)
        assert SECRET not in caplog.text

    @pytest.mark.parametrize("setting", ["testing", "debug", "PROPAGATE_EXCEPTIONS"])
    def test_a_developer_may_have_it_raised_again(self, app: Flask, setting: str) -> None:
        app.config["PROPAGATE_EXCEPTIONS"] = None
        app.config[setting if setting.isupper() else setting.upper()] = True
        app.get("/crash")(fail_with_secrets)

        with pytest.raises(ZeroDivisionError):
            ask(app, "/crash")
        assert error_code(ask(app, "/no-such-page")) == "not_found"

    def test_without_a_setting_it_is_answered(self, app: Flask) -> None:
        app.config["PROPAGATE_EXCEPTIONS"] = None
        app.get("/crash")(fail_with_secrets)

        assert error_code(ask(app, "/crash")) == "internal_error"


def teapot() -> NoReturn:
    abort(418)


def refuse_by_response() -> NoReturn:
    abort(flask.Response("out of tea", 409, content_type="text/plain"))


def csv() -> flask.Response:
    return flask.send_file(BytesIO(b"a,b\n"), mimetype="text/csv", download_name="a.csv")


JSON = "application/json"

VIEWS: dict[str, tuple[Hook, int, str, bytes]] = {
    "dict": (lambda: {"a": 1}, 200, JSON, b'{"a":1}\n'),
    "list": (lambda: [1, 2], 200, JSON, b"[1,2]\n"),
    "str": (lambda: '"ñ"', 200, JSON, '"ñ"'.encode()),
    "bytes": (lambda: b"[]", 200, JSON, b"[]"),
    "generator": (lambda: iter(["[", "]"]), 200, JSON, b"[]"),
    "body and status": (lambda: ({"a": 1}, 202), 202, JSON, b'{"a":1}\n'),
    "body, status and headers": (lambda: ("a", 203, {"Content-Type": "text/plain"}), 203, "text/plain", b"a"),
    "body and headers": (lambda: ("a", {"Content-Type": "text/plain"}), 200, "text/plain", b"a"),
    "flask.Response": (lambda: flask.Response("a", 201, content_type="text/csv"), 201, "text/csv", b"a"),
    "make_response": (lambda: flask.make_response({"a": 1}, 202), 202, JSON, b'{"a":1}\n'),
    "jsonify": (lambda: flask.jsonify(a=1), 200, JSON, b'{"a":1}\n'),
    "send_file": (csv, 200, "text/csv; charset=utf-8", b"a,b\n"),
    "WSGI application": (lambda: Conflict(response=flask.Response("a", 409, content_type="a/b")), 409, "a/b", b"a"),
    "abort with a response": (refuse_by_response, 409, "text/plain", b"out of tea"),
}
"""What a view may return, and how it is answered: status, content type and body."""

views = pytest.mark.parametrize(("view", "status", "content_type", "body"), VIEWS.values(), ids=VIEWS)


class TestViews:
    @views
    def test_what_a_view_returns_is_answered_with_the_fields_of_every_response(
        self, app: Flask, view: Hook, status: int, content_type: str, body: bytes
    ) -> None:
        app.get("/view")(view)

        response = ask(app, "/view")

        assert (response.status_code, response.content_type, response.data) == (status, content_type, body)
        assert_contract(response)

    @pytest.mark.parametrize(
        ("view", "status", "code"),
        [
            pytest.param(lambda: abort(404), 404, "not_found", id="404"),
            pytest.param(teapot, 400, "invalid_body", id="418"),
            pytest.param(lambda: abort(500), 500, "internal_error", id="500"),
            pytest.param(lambda: None, 500, "internal_error", id="nothing"),
            pytest.param(lambda: flask.redirect("/api"), 302, None, id="redirect"),
        ],
    )
    def test_what_a_view_refuses_has_the_fields_of_every_response(
        self, app: Flask, view: Hook, status: int, code: str | None
    ) -> None:
        app.get("/view", endpoint="view")(view)

        response = ask(app, "/view")

        assert response.status_code == status
        assert code is None or error_code(response) == code
        assert_contract(response)


class TestSessions:
    def test_with_a_key_a_session_works(self, app: Flask) -> None:
        app.secret_key = "a key of these tests"

        @app.get("/count")
        def count() -> dict[str, int]:
            session["count"] = session.get("count", 0) + 1
            return {"count": session["count"]}

        ana, luis = Client(app), Client(app)
        responses = [client.get("/count") for client in (ana, ana, luis)]

        assert [response.json for response in responses] == [{"count": 1}, {"count": 2}, {"count": 1}]
        assert_contract(responses[1])


def visit(make_client: MakeClient, provoke: Callable[[MakeClient], TestResponse]) -> list[TestResponse]:
    """The responses to two visitors of one app whose hook marks the response of the first."""
    clients: dict[bool, ValidatingClient] = {}

    def mark(response: flask.Response) -> flask.Response:
        if request.remote_addr == "192.0.2.1":
            response.set_cookie("visitor", "ana")
            response.headers["X-Visitor"] = "ana"
        return response

    def make(address: str) -> MakeClient:
        def make_once(**options: Any) -> ValidatingClient:
            # All apps of a case are made alike, so the first visitor's serves the second.
            client = clients.get(True)
            if client is None:
                client = clients[True] = make_client(**options)
                client.application.after_request(mark)
            client.environ_base["REMOTE_ADDR"] = address
            return client

        return make_once

    return [provoke(make(address)) for address in ("192.0.2.1", "192.0.2.2")]


UNSHARED: dict[str, Callable[[MakeClient], TestResponse]] = {
    path: lambda make, path=path: make().get(path)
    for path in (
        "/api",
        "/api?section=docs",
        "/api/versioning",
        "/api/versioning?version=v1",
        "/api/v1",
        "/api/v1?method=GET",
        "/api/v1/health",
        "/api/v1/health?verbose=true",
        "/openapi.json",
    )
} | {
    "304": lambda make: make().get("/openapi.json", headers={"If-None-Match": "*"}),
    "HEAD": lambda make: make().head("/api"),
    "accepted": lambda make: make().post("/contact.php", json=contact_body()),
    "discarded": lambda make: make().post("/contact.php", json=contact_body(_bp_check="x")),
    **{code: provoke for code, (_, provoke) in ERRORS.items()},
}
"""Requests whose answers could be made once for all."""


@pytest.mark.parametrize("provoke", UNSHARED.values(), ids=UNSHARED)
def test_a_visitor_never_sees_what_another_one_was_given(
    make_client: MakeClient, provoke: Callable[[MakeClient], TestResponse]
) -> None:
    first, second = visit(make_client, provoke)

    assert first.status_code == second.status_code
    assert first.headers["X-Visitor"] == "ana"
    assert "visitor=ana" in first.headers["Set-Cookie"]
    assert "X-Visitor" not in second.headers
    assert "Set-Cookie" not in second.headers


class TestRoutes:
    @pytest.mark.parametrize("rule", ["/folder/", "/<name>/folder/"])
    @pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
    def test_a_missing_slash_is_an_unknown_path_and_no_redirect(self, app: Flask, rule: str, method: str) -> None:
        app.route(rule, methods=["GET", "POST"], endpoint="folder")(lambda **_: "folder")
        path = rule.replace("<name>", "a")

        found, missing = ask(app, path, method), ask(app, path.rstrip("/"), method)

        assert found.status_code == (204 if method == "OPTIONS" else 200)
        assert missing.status_code == 404
        assert error_code(missing) == "not_found"
        assert "Location" not in missing.headers

    @pytest.mark.parametrize("path", ["//probe", "/probe/", "/folder//", "//folder/"])
    def test_a_slash_too_many_is_an_unknown_path_and_no_redirect(self, app: Flask, path: str) -> None:
        app.get("/folder/")(lambda: "folder")

        response = ask(app, environ_overrides={"PATH_INFO": path})

        assert error_code(response) == "not_found"
        assert "Location" not in response.headers

    @pytest.mark.parametrize("path", ["/pair", "/pairs/1"])
    def test_two_rules_on_one_path_are_one_to_those_who_ask(self, app: Flask, path: str) -> None:
        for rule in ("/pair", "/pairs/<number>"):
            app.get(rule, endpoint=f"read {rule}")(lambda **_: "read")
            app.route(rule, methods=["POST", "PUT"], endpoint=f"write {rule}")(lambda **_: "written")

        assert [ask(app, path, method).text for method in ("GET", "POST", "PUT")] == ["read", "written", "written"]
        refused, asked = ask(app, path, "DELETE"), ask(app, path, "OPTIONS")
        preflight = ask(
            app, path, "OPTIONS", headers={"Origin": "https://a.example", "Access-Control-Request-Method": "PUT"}
        )

        allowed = {"GET", "HEAD", "POST", "PUT", "OPTIONS"}
        assert (refused.status_code, asked.status_code) == (405, 204)
        for value in (
            refused.headers["Allow"],
            asked.headers["Allow"],
            preflight.headers["Access-Control-Allow-Methods"],
        ):
            assert sorted(value.split(", ")) == sorted(allowed)
