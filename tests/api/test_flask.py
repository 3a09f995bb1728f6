"""The application is a Flask application like any other: whatever Flask lets one register runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any, NoReturn

import flask
import pytest
from flask import Blueprint, Flask, abort, current_app, g, request, session, url_for
from flask.signals import (
    appcontext_popped,
    appcontext_pushed,
    appcontext_tearing_down,
    before_render_template,
    got_request_exception,
    request_finished,
    request_started,
    request_tearing_down,
    template_rendered,
)
from werkzeug.exceptions import Conflict
from werkzeug.test import Client, TestResponse, create_environ, run_wsgi_app

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

    def test_the_hooks_of_a_blueprint_run_for_its_own_routes(self, app: Flask) -> None:
        seen: list[str] = []
        blueprint = Blueprint("house", __name__, url_prefix="/house")
        blueprint.url_value_preprocessor(lambda _endpoint, _values: seen.append("url_value_preprocessor"))
        blueprint.before_request(lambda: seen.append("before_request"))

        @blueprint.after_request
        def after(response: flask.Response) -> flask.Response:
            seen.append("after_request")
            return response

        blueprint.teardown_request(lambda _error: seen.append("teardown_request"))
        blueprint.get("/room")(lambda: "room")
        app.register_blueprint(blueprint)

        elsewhere = ask(app)
        assert (elsewhere.status_code, seen) == (200, [])
        assert ask(app, "/house/room").text == "room"
        assert seen == ["url_value_preprocessor", "before_request", "after_request", "teardown_request"]

    def test_a_hook_sees_the_request_as_the_view_does(self, app: Flask) -> None:
        seen: list[Any] = []
        app.before_request(
            lambda: seen.append((request.endpoint, request.url_rule and request.url_rule.rule, request.view_args))
        )

        ask(app)
        ask(app, "/no-such-page")

        assert seen == [("probe", "/probe", {}), (None, None, None)]

    def test_a_hook_before_all_views_may_answer_by_itself(self, app: Flask) -> None:
        app.before_request(lambda: ({"closed": True}, 503))

        response = ask(app, "/api")

        assert (response.status_code, response.json) == (503, {"closed": True})
        assert remaining(response) == QUOTA - 1
        assert_contract(response)

    def test_a_view_may_change_its_own_response(self, app: Flask) -> None:
        @app.get("/marked")
        def marked() -> str:
            @flask.after_this_request
            def mark(response: flask.Response) -> flask.Response:
                response.headers["X-Marked"] = "yes"
                return response

            return "marked"

        assert ask(app, "/marked").headers["X-Marked"] == "yes"
        assert "X-Marked" not in ask(app).headers

    def test_a_hook_may_change_one_response_of_a_path(self, app: Flask) -> None:
        @app.before_request
        def mark_verbose() -> None:
            if "verbose" in request.args:

                @flask.after_this_request
                def mark(response: flask.Response) -> flask.Response:
                    response.headers["X-Marked"] = "yes"
                    return response

        assert ask(app, "/api/v1/health?verbose=true").headers["X-Marked"] == "yes"
        assert "X-Marked" not in ask(app, "/api/v1/health").headers

    def test_a_hook_may_put_another_response_in_the_place(self, app: Flask) -> None:
        app.after_request(lambda _response: flask.Response("other", 202, content_type="text/plain"))

        response = ask(app, "/api/v1/health")

        assert (response.status_code, response.text, response.content_type) == (202, "other", "text/plain")
        assert_contract(response)

    def test_values_of_an_address_are_taken_and_given(self, app: Flask) -> None:
        blueprint = Blueprint("rooms", __name__, url_prefix="/<language>")

        @blueprint.url_value_preprocessor
        def take(_endpoint: str | None, values: dict[str, Any] | None) -> None:
            g.language = (values or {}).pop("language")

        @blueprint.url_defaults
        def give(_endpoint: str, values: dict[str, Any]) -> None:
            values.setdefault("language", g.language)

        app.url_defaults(lambda _endpoint, values: values.setdefault("page", 1))
        blueprint.get("/room/<int:page>")(lambda page: {"language": g.language, "page": page, "own": url_for(".room")})
        blueprint.get("/door", endpoint="room")(lambda: "door")
        app.register_blueprint(blueprint)

        assert ask(app, "/es/room/7").json == {"language": "es", "page": 7, "own": "/es/door?page=1"}

    def test_what_a_hook_keeps_in_g_reaches_the_view_and_no_other_request(self, app: Flask) -> None:
        @app.before_request
        def greet() -> None:
            assert "name" not in g
            g.name = request.args["name"]

        app.get("/greeting")(lambda: {"name": g.name, "app": current_app.name})

        assert [ask(app, f"/greeting?name={name}").json for name in ("Ana", "Luis")] == [
            {"name": "Ana", "app": app.name},
            {"name": "Luis", "app": app.name},
        ]

    def test_the_error_handlers_of_app_and_blueprint_run(self, app: Flask) -> None:
        def crash() -> NoReturn:
            raise LookupError(SECRET)

        blueprint = Blueprint("house", __name__, url_prefix="/house")
        blueprint.errorhandler(LookupError)(lambda _error: ("blueprint", 409))
        blueprint.get("/crash")(crash)
        app.register_blueprint(blueprint)
        app.errorhandler(LookupError)(lambda _error: ("app", 410))
        app.get("/crash", endpoint="crash")(crash)

        responses = [ask(app, path) for path in ("/house/crash", "/crash")]

        assert [(response.text, response.status_code) for response in responses] == [("blueprint", 409), ("app", 410)]
        for response in responses:
            assert_contract(response)

    def test_a_teardown_hook_is_given_the_exception(self, app: Flask) -> None:
        errors: list[BaseException | None] = []
        app.teardown_request(errors.append)
        error = ZeroDivisionError(SECRET)

        @app.get("/crash")
        def crash() -> NoReturn:
            raise error

        ask(app)
        ask(app, "/no-such-page")
        ask(app, "/crash")

        assert errors == [None, None, error]


SIGNALS = {
    "appcontext_pushed": appcontext_pushed,
    "request_started": request_started,
    "request_finished": request_finished,
    "request_tearing_down": request_tearing_down,
    "appcontext_tearing_down": appcontext_tearing_down,
    "appcontext_popped": appcontext_popped,
}
"""What is sent once for every request."""


class TestSignals:
    @answers
    @pytest.mark.parametrize("name", SIGNALS)
    def test_each_signal_is_sent_once_for_a_request(
        self, app: Flask, name: str, method: str, path: str, status: int
    ) -> None:
        senders: list[Flask] = []

        def receive(sender: Flask, **_: Any) -> None:
            senders.append(sender)

        with SIGNALS[name].connected_to(receive, app):
            response = ask(app, path, method)

        assert response.status_code == status
        assert senders == [app]

    def test_the_response_is_told_when_the_request_is_finished(self, app: Flask) -> None:
        told: list[Any] = []

        def receive(_: Flask, response: flask.Response, **__: Any) -> None:
            told.append((response.status_code, response.get_json()))

        with request_finished.connected_to(receive, app):
            answered = ask(app)

        assert told == [(200, answered.json)]

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

    @pytest.mark.parametrize("code", [code for code in ERRORS if code != "internal_error"])
    def test_a_refusal_is_no_exception(self, make_client: MakeClient, code: str) -> None:
        told: list[BaseException] = []

        def receive(_: Flask, exception: BaseException, **__: Any) -> None:
            told.append(exception)

        with got_request_exception.connected_to(receive):
            ERRORS[code][1](make_client)

        assert told == []

    def test_a_template_tells_of_itself(self, app: Flask) -> None:
        told: list[str] = []
        app.get("/page")(lambda: flask.render_template_string("{{ request.path }}"))

        def before(_: Flask, **__: Any) -> None:
            told.append("before_render_template")

        def after(_: Flask, **__: Any) -> None:
            told.append("template_rendered")

        with before_render_template.connected_to(before, app), template_rendered.connected_to(after, app):
            response = ask(app, "/page")

        assert response.text == "/page"
        assert told == ["before_render_template", "template_rendered"]


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

    def test_a_hook_that_fails_once_leaves_the_next_request_alone(self, app: Flask) -> None:
        @app.after_request
        def fail(response: flask.Response) -> flask.Response:
            if "once" in request.args:
                raise ZeroDivisionError(SECRET)
            return response

        assert [ask(app, path).status_code for path in ("/api?once", "/api", "/openapi.json?once")] == [500, 200, 500]

    def test_the_other_hooks_after_the_views_run_when_a_view_fails(self, app: Flask) -> None:
        app.get("/crash")(fail_with_secrets)
        seen: list[str] = []
        watch(app, seen)

        ask(app, "/crash")

        assert seen[1:] == ["before_request", "after_request", "teardown_request", "teardown_appcontext"]

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

    @views
    def test_head_has_the_fields_of_get_and_no_body(
        self, app: Flask, view: Hook, status: int, content_type: str, body: bytes
    ) -> None:
        app.get("/view")(view)

        got, asked = ask(app, "/view"), ask(app, "/view", "HEAD")

        assert got.data == body
        assert (asked.status_code, asked.content_type, asked.data) == (status, content_type, b"")
        assert asked.headers.get("Content-Length") == got.headers.get("Content-Length")
        assert_contract(asked)

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

    @pytest.mark.parametrize("status", [204, 304])
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_a_status_without_content_has_none(self, app: Flask, status: int, method: str) -> None:
        app.get("/view", endpoint="view")(lambda: ("lost", status))

        response = ask(app, "/view", method)

        assert (response.status_code, response.data) == (status, b"")
        assert "Content-Length" not in response.headers
        assert_contract(response)

    def test_a_file_that_was_not_modified_is_not_sent_again(self, app: Flask) -> None:
        app.get("/file")(lambda: flask.send_file(BytesIO(b"a"), mimetype="text/plain", etag="x", conditional=True))

        first = ask(app, "/file")
        second = ask(app, "/file", headers={"If-None-Match": first.headers["ETag"]})

        assert (second.status_code, second.data) == (304, b"")
        assert_contract(second)

    @pytest.mark.parametrize("chunks", [["a", "ñ"], ("a", "ñ")], ids=["list", "tuple"])
    def test_text_in_chunks_reaches_the_server_as_bytes(self, app: Flask, chunks: Sequence[str]) -> None:
        @app.get("/chunks")
        def chunked() -> flask.Response:
            response = flask.Response(chunks, content_type="text/plain")
            response.content_length = 3
            return response

        body, status, _ = run_wsgi_app(app, create_environ("/chunks"))

        assert (status, list(body)) == ("200 OK", [b"a", "ñ".encode()])

    @pytest.mark.parametrize("chunks", [1, 3])
    def test_a_generator_is_closed_however_much_of_it_was_read(self, app: Flask, chunks: int) -> None:
        closed: list[bool] = []

        def generate() -> Iterator[str]:
            try:
                yield from "abc"
            finally:
                closed.append(True)

        app.get("/stream", endpoint="stream")(generate)
        response = ask(app, "/stream", buffered=False)

        read = [next(response.response) for _ in range(chunks)]  # type: ignore[call-overload] # it is an iterator here
        assert (read, closed) == ([b"a", b"b", b"c"][:chunks], [])
        response.close()

        assert closed == [True]

    def test_what_waits_for_the_end_of_a_response_is_called_once(self, app: Flask) -> None:
        closed: list[str] = []

        @app.get("/closing")
        def closing() -> flask.Response:
            response = flask.Response("a")
            response.call_on_close(lambda: closed.append("view"))
            return response

        @app.after_request
        def after(response: flask.Response) -> flask.Response:
            response.call_on_close(lambda: closed.append("hook"))
            return response

        for path in ("/closing", "/api", "/openapi.json"):
            ask(app, path).close()

        assert closed == ["view", "hook", "hook", "hook"]

    def test_a_stream_may_keep_its_request(self, app: Flask) -> None:
        @app.get("/stream")
        def stream() -> Iterator[str]:
            def generate() -> Iterator[str]:
                yield request.args["name"]

            return flask.stream_with_context(generate())

        assert ask(app, "/stream?name=ana").text == "ana"


class TestAddresses:
    def test_an_address_in_a_request_is_relative(self, app: Flask) -> None:
        app.get("/rooms/<int:number>", endpoint="room")(lambda number: url_for("room", number=number + 1, view="sea"))

        assert ask(app, "/rooms/4").text == "/rooms/5?view=sea"

    @pytest.mark.parametrize("path", ["/api/v1/health", "/no-such-page"])
    def test_a_hook_finds_addresses_wherever_it_runs(self, app: Flask, path: str) -> None:
        seen: list[str] = []

        @app.after_request
        def after(response: flask.Response) -> flask.Response:
            seen.append(url_for("probe"))
            return response

        ask(app, path)

        assert seen == ["/probe"]

    def test_a_request_can_be_made_up(self, app: Flask) -> None:
        with app.test_request_context("/probe?a=1", method="GET"):
            assert current_app.name == app.name
            assert (request.endpoint, request.path, request.args["a"]) == ("probe", "/probe", "1")
            assert url_for("probe") == "/probe"
            assert url_for("probe", _external=True) == "http://localhost/probe"

    def test_outside_of_a_request_an_address_needs_the_name_of_the_server(self, app: Flask) -> None:
        with app.app_context(), pytest.raises(RuntimeError, match="SERVER_NAME"):
            url_for("probe")

        app.config["SERVER_NAME"] = "pay.example.com"

        with app.app_context():
            assert url_for("probe") == "http://pay.example.com/probe"


class TestSessions:
    def test_a_session_without_a_key_says_what_is_missing(self, app: Flask) -> None:
        @app.get("/count")
        def count() -> NoReturn:
            with pytest.raises(RuntimeError, match="secret key"):
                session["count"] = 1
            abort(404)

        assert ask(app, "/count").status_code == 404

    def test_a_session_without_a_key_can_be_read(self, app: Flask) -> None:
        app.get("/count")(lambda: {"count": session.get("count")})

        assert ask(app, "/count").json == {"count": None}

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
    @pytest.mark.parametrize(
        ("path", "expected"), [("/things/a", "a"), ("/things/%3Cname%3E", "<name>"), ("/things/%C3%B1", "ñ")]
    )
    def test_a_path_with_a_parameter_is_served(self, app: Flask, path: str, expected: str) -> None:
        app.get("/things/<name>")(lambda name: {"name": name})

        assert ask(app, path).json == {"name": expected}

    def test_a_path_without_parameters_goes_before_one_with(self, app: Flask) -> None:
        app.get("/things/<name>", endpoint="thing")(lambda name: name)
        app.get("/things/all", endpoint="all")(lambda: "every one")

        assert [ask(app, path).text for path in ("/things/all", "/things/one")] == ["every one", "one"]

    def test_a_parameter_of_another_type_is_an_unknown_path(self, app: Flask) -> None:
        app.get("/numbers/<int:number>")(lambda number: {"number": number})

        assert ask(app, "/numbers/7").json == {"number": 7}
        assert error_code(ask(app, "/numbers/seven")) == "not_found"

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

    def test_a_blueprint_may_come_later(self, make_app: MakeApp) -> None:
        app = make_app()
        inner = Blueprint("inner", __name__, url_prefix="/inner")
        inner.get("/room/<name>")(lambda name: {"name": name, "address": url_for(".hall")})
        inner.get("/hall", endpoint="hall")(lambda: "hall")
        outer = Blueprint("outer", __name__, url_prefix="/api/outer")
        outer.register_blueprint(inner)
        app.register_blueprint(outer)

        response = ask(app, "/api/outer/inner/room/ana")

        assert response.json == {"name": "ana", "address": "/api/outer/inner/hall"}
        assert remaining(response) == QUOTA - 1
        assert_contract(response)

    def test_middleware_of_others_can_be_put_around(self, app: Flask) -> None:
        inner = app.wsgi_app
        seen: list[str] = []

        def middleware(environ: dict[str, Any], start_response: Any) -> Any:
            seen.append(environ["PATH_INFO"])
            return inner(environ, start_response)

        app.wsgi_app = middleware  # type: ignore[method-assign] # the way that Flask's documentation shows

        assert ask(app).status_code == 200
        assert seen == ["/probe"]
