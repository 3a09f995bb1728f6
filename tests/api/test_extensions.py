"""The application is a Flask application like any other: what one registers on it runs, and the contract stays."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import flask
import pytest
import sentry_sdk
from flask import Blueprint, Flask, request
from flask.signals import before_render_template, got_request_exception, request_finished, request_started
from flask_talisman import Talisman
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from prometheus_flask_exporter import PrometheusMetrics
from sentry_sdk import integrations as sentry_integrations
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations import flask as sentry_flask
from sentry_sdk.transport import Transport
from werkzeug.test import Client, TestResponse

from tests.api.fields import VARYING, assert_contract
from tests.conftest import MakeApp
from tests.factories import API_QUOTA, contact_body

TYPED = "maria@example.com"
QUOTA = API_QUOTA.quota

Hook = Callable[..., Any]


def ask(app: Flask, sent: str, **options: Any) -> TestResponse:
    """Asks as a client does; the app's own test client takes only what the document describes."""
    method, path = sent.split()
    return Client(app).open(path, method=method, **options)


def fail(*_: Any, **__: Any) -> NoReturn:
    raise ZeroDivisionError(TYPED) from ValueError(request.get_data(as_text=True))


class Kept(Transport):
    """Keeps what Sentry would send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.sent += [item.payload.json for item in envelope.items if item.payload.json is not None]


@pytest.fixture
def sentry() -> Iterator[Kept]:
    call, kept = Flask.__call__, Kept()
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:9/1",
        transport=kept,
        traces_sample_rate=1.0,
        # Those would hook into logging, threads and the interpreter's end.
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[sentry_flask.FlaskIntegration(transaction_style="url")],
        # These would start threads.
        auto_session_tracking=False,
        enable_backpressure_handling=False,
    )
    yield kept
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)
    # What the integration does to Flask it does once in a process, and never undoes.
    Flask.__call__ = call  # type: ignore[method-assign]
    before_render_template.disconnect(sentry_flask._add_sentry_trace)
    request_started.disconnect(sentry_flask._request_started)
    got_request_exception.disconnect(sentry_flask._capture_exception)
    sentry_integrations._processed_integrations.discard("flask")
    sentry_integrations._installed_integrations.discard("flask")


class Watched(NamedTuple):
    """An app on which one of everything is registered, and what each of them has seen."""

    app: Flask
    hooks: list[str]
    sentry: Kept
    spans: InMemorySpanExporter
    registry: CollectorRegistry


@pytest.fixture
def watched(make_app: MakeApp, sentry: Kept) -> Iterator[Watched]:
    app, hooks, spans, registry = make_app(), list[str](), InMemorySpanExporter(), CollectorRegistry()

    def note(name: str) -> Hook:
        return lambda *_, **__: hooks.append(name)

    def note_response(response: flask.Response) -> flask.Response:
        hooks.append("after_request")
        response.set_cookie("visitor", "ana")
        return response

    for name in ("url_value_preprocessor", "before_request", "teardown_request", "teardown_appcontext"):
        getattr(app, name)(note(name))
    app.after_request(note_response)
    signals = {signal: note(signal.name) for signal in (request_started, request_finished, got_request_exception)}
    for signal, receiver in signals.items():
        signal.connect(receiver, app)
    mine = Blueprint("mine", __name__, url_prefix="/rooms")
    mine.before_request(note("blueprint.before_request"))
    mine.get("/<name>")(lambda name: flask.Response(f"room {name}", 203, content_type="text/plain"))
    mine.post("/<name>")(fail)
    app.register_blueprint(mine)
    PrometheusMetrics(app, registry=registry)
    Talisman(app, force_https=False)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    FlaskInstrumentor.instrument_app(app, tracer_provider=provider)  # type: ignore[no-untyped-call]
    yield Watched(app, hooks, sentry, spans, registry)
    FlaskInstrumentor.uninstrument_app(app)  # type: ignore[no-untyped-call]
    provider.shutdown()


ANSWERS: dict[str, tuple[str, dict[str, Any], int, str | None]] = {
    "health": ("GET /api/v1/health", {}, 200, "/api/v1/health"),
    "HEAD": ("HEAD /api", {}, 200, "/api"),
    "document": ("GET /openapi.json", {}, 200, "/openapi.json"),
    "form": ("POST /contact.php", {"json": contact_body(ts=None)}, 200, "/contact.php"),
    "refused form": ("POST /contact.php", {"json": {}}, 400, "/contact.php"),
    "wrong parameter": ("GET /api?section=x", {}, 400, "/api"),
    "wrong method": ("DELETE /contact.php", {}, 405, None),
    "unknown path": ("GET /no-such-page", {}, 404, None),
    "preflight": ("OPTIONS /api", {}, 204, None),
    "view of their own": ("GET /rooms/ana", {}, 203, "/rooms/<name>"),
    "crash": (f"POST /rooms/{TYPED}", {"data": TYPED}, 500, "/rooms/<name>"),
}
"""Requests, the status and the rule of each."""


@pytest.mark.parametrize(("sent", "options", "status", "rule"), ANSWERS.values(), ids=ANSWERS)
def test_each_sees_the_request_and_the_answer_has_the_fields_of_all(
    watched: Watched,
    caplog: pytest.LogCaptureFixture,
    sent: str,
    options: dict[str, Any],
    status: int,
    rule: str | None,
) -> None:
    caplog.set_level(logging.DEBUG)

    response = ask(watched.app, sent, **options)

    assert response.status_code == status
    assert_contract(response, **({"Cache_Control": "private, max-age=300"} if rule == "/openapi.json" else {}))
    assert response.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert response.headers["Set-Cookie"].startswith("visitor=ana;")
    # The hooks, Prometheus, OpenTelemetry, Sentry, and the service's own log.
    expected = ["url_value_preprocessor", "before_request", "after_request", "request-finished", "teardown_request"]
    expected += ["blueprint.before_request"] * (rule == "/rooms/<name>") + ["got-request-exception"] * (status == 500)
    first, *between, last = watched.hooks
    assert (first, sorted(between), last) == ("request-started", sorted(expected), "teardown_appcontext")
    method = sent.partition(" ")[0]
    counted = {"method": method, "status": str(status)}
    assert watched.registry.get_sample_value("flask_http_request_total", counted) == 1
    (span,) = watched.spans.get_finished_spans()
    attributes = span.attributes or {}
    assert (attributes.get("http.route"), attributes["http.status_code"]) == (rule, status)
    told = [event for event in watched.sentry.sent if event.get("type") == "transaction"]
    assert len(told) == (method not in ("HEAD", "OPTIONS"))  # of these its integration makes none
    errors = [error for event in watched.sentry.sent for error in event.get("exception", {"values": []})["values"]]
    assert [error["type"] for error in errors] == (["ValueError", "ZeroDivisionError"] if status == 500 else [])
    (line,) = [record.getMessage() for record in caplog.records if record.name == "app.request"]
    assert f" {rule or ''}" in line
    assert TYPED not in caplog.text


def test_what_the_quota_refuses_no_hook_sees_before_it_and_every_hook_after_it(watched: Watched) -> None:
    statuses = [ask(watched.app, "GET /api").status_code for _ in range(QUOTA)]
    watched.hooks.clear()

    refused = ask(watched.app, "GET /api")

    assert statuses == [200] * QUOTA
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert_contract(refused)
    assert "before_request" not in watched.hooks
    assert "after_request" in watched.hooks
    assert len(watched.spans.get_finished_spans()) == QUOTA  # a span begins in a hook


OF_ORIGINS, *OTHERS = VARYING
FIELDS = ("API-Version", "Vary", "Cache-Control", "X-Content-Type-Options", *OTHERS)
BROKEN = dict.fromkeys(FIELDS, "broken")
"""Fields of the contract, as no contract has them."""

SPOIL: dict[str, Callable[[flask.Response], object]] = {
    "put": lambda response: response.headers.update(BROKEN),
    "add": lambda response: response.headers.extend(BROKEN),
    "put in lower case": lambda response: response.headers.update({name.lower(): "broken" for name in BROKEN}),
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
@pytest.mark.parametrize(("path", "status"), [("/api", 200), ("/api?section=x", 400), ("/x", 404)])
def test_a_hook_cannot_spoil_the_contract(make_app: MakeApp, spoil: Hook, path: str, status: int) -> None:
    app = make_app()
    app.after_request(lambda response: spoil(response) or response)

    response = ask(app, f"GET {path}")

    assert response.status_code == status
    assert_contract(response)


def test_a_hook_may_answer_by_itself(make_app: MakeApp) -> None:
    app = make_app()
    app.before_request(lambda: ({"closed": True}, 503))

    response = ask(app, "GET /api")

    assert (response.status_code, response.json) == (503, {"closed": True})
    assert response.headers["X-RateLimit-Remaining"] == str(QUOTA - 1)
    assert_contract(response)


FAILING: dict[str, Callable[[Flask], Any]] = {
    "view": lambda app: app.post("/rooms/<name>", endpoint="failing")(fail),
    "url_value_preprocessor": lambda app: app.url_value_preprocessor(fail),
    "before_request": lambda app: app.before_request(fail),
    "after_request": lambda app: app.after_request(fail),
    "request_finished": lambda app: request_finished.connect(fail, app),
}
"""What fails, always: also while the error is being answered."""


@pytest.mark.parametrize("register", FAILING.values(), ids=FAILING)
def test_what_fails_is_answered_500_and_logged_without_what_was_typed(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture, register: Callable[[Flask], Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    app = make_app()
    register(app)

    response = ask(app, f"POST /rooms/{TYPED}?q={TYPED}", data=TYPED, headers={"X-Typed": TYPED})

    assert response.status_code == 500
    error = response.get_json()["error"]
    assert (error["code"], error.keys()) == ("internal_error", {"code", "message", "status", "hint"})
    assert TYPED not in response.text
    assert "unforeseen ZeroDivisionError" in caplog.text
    assert "in fail" in caplog.text
    assert TYPED not in caplog.text


@pytest.mark.parametrize("setting", ["TESTING", "DEBUG", "PROPAGATE_EXCEPTIONS"])
def test_a_developer_may_have_an_exception_raised_again(make_app: MakeApp, setting: str) -> None:
    app = make_app()
    app.config["PROPAGATE_EXCEPTIONS"] = None
    app.config[setting] = True
    app.get("/crash")(fail)

    with pytest.raises(ZeroDivisionError):
        ask(app, "GET /crash")
    assert ask(app, "GET /no-such-page").get_json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("path", ["/folder", "//folder/", "/folder//", "/rooms/ana", "//rooms/ana/"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_slash_too_few_or_too_many_is_an_unknown_path_and_no_redirect(
    make_app: MakeApp, path: str, method: str
) -> None:
    app = make_app()
    app.route("/folder/", methods=["GET", "POST"])(lambda: "folder")
    app.route("/rooms/<name>/", methods=["GET", "POST"], endpoint="room")(lambda name: name)

    response = ask(app, f"{method} /", environ_overrides={"PATH_INFO": path})

    assert ask(app, "GET /folder/").status_code == ask(app, "GET /rooms/ana/").status_code == 200
    assert (response.status_code, response.get_json()["error"]["code"]) == (404, "not_found")
    assert "Location" not in response.headers


def test_of_a_path_with_parameters_the_methods_are_those_of_all_its_rules(make_app: MakeApp) -> None:
    app = make_app()
    app.get("/pairs/<number>", endpoint="read")(lambda **_: "read")
    app.route("/pairs/<number>", methods=["POST", "PUT"], endpoint="write")(lambda **_: "written")

    refused, asked = ask(app, "DELETE /pairs/1"), ask(app, "OPTIONS /pairs/1")

    assert (refused.status_code, asked.status_code) == (405, 204)
    assert refused.headers["Allow"] == asked.headers["Allow"] == "GET, HEAD, POST, PUT, OPTIONS"
