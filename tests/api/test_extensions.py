"""Extensions that others wrote for Flask do here what they do everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import sentry_sdk
from flask import Flask
from flask.signals import before_render_template, got_request_exception, request_started
from flask_talisman import Talisman
from opentelemetry import trace
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from prometheus_flask_exporter import PrometheusMetrics
from sentry_sdk import integrations as sentry_integrations
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations import flask as sentry_flask
from sentry_sdk.transport import Transport
from werkzeug.test import Client, TestResponse

from tests.api.fields import assert_contract
from tests.conftest import MakeApp
from tests.factories import API_QUOTA, contact_body

SECRET = "la clave de María es 4929 1234"

REQUESTS: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "health": ("GET", "/api/v1/health", {}, 200),
    "index": ("GET", "/api", {}, 200),
    "contact": ("POST", "/contact.php", {"json": contact_body(ts=None)}, 200),
    "wrong parameter": ("GET", "/api?section=x", {}, 400),
    "wrong method": ("DELETE", "/contact.php", {}, 405),
    "unknown path": ("GET", "/no-such-page", {}, 404),
    "preflight": ("OPTIONS", "/api", {}, 204),
    "crash": ("GET", "/rooms/ana", {}, 500),
}
"""Requests of each kind with the status of their answer."""

requests = pytest.mark.parametrize(("method", "path", "options", "status"), REQUESTS.values(), ids=REQUESTS)


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    """The real app with a route more, whose view crashes."""
    app = make_app()

    @app.get("/rooms/<name>")
    def room(name: str) -> NoReturn:
        raise ZeroDivisionError(SECRET, name)

    return app


def ask(app: Flask, path: str, method: str = "GET", **options: Any) -> TestResponse:
    """Asks as a client does; the app's own test client takes only what the document describes."""
    return Client(app).open(path, method=method, **options)


def ask_until_refused(app: Flask) -> TestResponse:
    for _ in range(API_QUOTA.quota):
        assert ask(app, "/api").status_code == 200
    refused = ask(app, "/api")
    assert refused.status_code == 429
    return refused


@pytest.fixture
def spans(app: Flask) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    FlaskInstrumentor.instrument_app(app, tracer_provider=provider)  # type: ignore[no-untyped-call]
    yield exporter
    FlaskInstrumentor.uninstrument_app(app)  # type: ignore[no-untyped-call]
    provider.shutdown()


class TestOpenTelemetry:
    @staticmethod
    def told(exporter: InMemorySpanExporter) -> list[tuple[str, Any, Any]]:
        def shown(span: ReadableSpan) -> tuple[str, Any, Any]:
            attributes = span.attributes or {}
            return span.name, attributes.get("http.route"), attributes.get("http.status_code")

        return [shown(span) for span in exporter.get_finished_spans()]

    @pytest.mark.parametrize(
        ("path", "span"),
        [
            ("/api/v1/health", ("GET /api/v1/health", "/api/v1/health", 200)),
            ("/api?section=x", ("GET /api", "/api", 400)),
            ("/rooms/ana", ("GET /rooms/<name>", "/rooms/<name>", 500)),
            ("/contact.php", ("GET /contact.php", None, 405)),
            ("/no-such-page", ("GET /no-such-page", None, 404)),
        ],
    )
    def test_a_request_is_a_span_with_its_route_and_status(
        self, app: Flask, spans: InMemorySpanExporter, path: str, span: tuple[str, str | None, int]
    ) -> None:
        ask(app, path)

        assert self.told(spans) == [span]

    def test_a_view_runs_within_the_span_of_its_request(self, app: Flask, spans: InMemorySpanExporter) -> None:
        app.get("/traced")(lambda: f"{trace.get_current_span().get_span_context().trace_id:032x}")

        response = ask(app, "/traced")

        (span,) = spans.get_finished_spans()
        assert span.context is not None
        assert response.text == f"{span.context.trace_id:032x}"

    def test_a_refused_request_breaks_nothing(self, app: Flask, spans: InMemorySpanExporter) -> None:
        refused = ask_until_refused(app)
        ask(app, "/openapi.json")

        assert_contract(refused)
        # The quota comes before all hooks, and a span begins in one.
        assert self.told(spans) == [("GET /api", "/api", 200)] * API_QUOTA.quota + [
            ("GET /openapi.json", "/openapi.json", 200)
        ]


class Kept(Transport):
    """Keeps what Sentry would send."""

    def __init__(self) -> None:
        super().__init__()
        self._sent: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self._sent += [item.payload.json for item in envelope.items if item.payload.json is not None]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [event for event in self._sent if "exception" in event]

    @property
    def transactions(self) -> list[dict[str, Any]]:
        return [event for event in self._sent if event.get("type") == "transaction"]


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


class TestSentry:
    @pytest.mark.parametrize(
        ("path", "name", "status"),
        [
            ("/api/v1/health", "/api/v1/health", "200"),
            ("/api?section=x", "/api", "400"),
            ("/rooms/ana", "/rooms/<name>", "500"),
        ],
    )
    def test_a_request_is_a_transaction_with_the_name_of_its_route(
        self, app: Flask, sentry: Kept, path: str, name: str, status: str
    ) -> None:
        ask(app, path)

        (transaction,) = sentry.transactions
        assert transaction["transaction"] == name
        assert transaction["transaction_info"] == {"source": "route"}
        assert transaction["tags"]["http.status_code"] == status

    def test_an_error_arrives_as_the_exception_that_it_is(self, app: Flask, sentry: Kept) -> None:
        response = ask(app, "/rooms/ana")

        assert response.status_code == 500
        (error,) = sentry.errors
        (exception,) = error["exception"]["values"]
        assert exception["type"] == "ZeroDivisionError"
        assert exception["stacktrace"]["frames"][-1]["function"] == "room"
        assert error["transaction"] == "/rooms/<name>"
        assert error["request"]["method"] == "GET"

    # Of OPTIONS its integration makes no transaction.
    @pytest.mark.parametrize("name", sorted(REQUESTS.keys() - {"crash", "preflight"}))
    def test_a_refusal_is_no_error(self, app: Flask, sentry: Kept, name: str) -> None:
        method, path, options, _ = REQUESTS[name]

        ask(app, path, method, **options)

        assert len(sentry.transactions) == 1
        assert sentry.errors == []

    def test_a_refused_request_breaks_nothing(self, app: Flask, sentry: Kept) -> None:
        assert_contract(ask_until_refused(app))
        assert len(sentry.transactions) == API_QUOTA.quota + 1
        assert sentry.errors == []


@requests
@pytest.mark.parametrize("extension", ["spans", "sentry"])
def test_an_extension_that_only_watches_leaves_the_answer_as_it_is(
    request: pytest.FixtureRequest,
    app: Flask,
    extension: str,
    method: str,
    path: str,
    options: dict[str, Any],
    status: int,
) -> None:
    request.getfixturevalue(extension)

    response = ask(app, path, method, **options)

    assert response.status_code == status
    assert_contract(response)


class TestPrometheus:
    @pytest.fixture
    def registry(self, app: Flask) -> CollectorRegistry:
        registry = CollectorRegistry()
        PrometheusMetrics(app, registry=registry)
        return registry

    def test_metrics_are_answered_as_the_text_that_they_are(self, app: Flask, registry: CollectorRegistry) -> None:
        ask(app, "/api/v1/health")

        response = ask(app, "/metrics")

        assert registry.get_sample_value("flask_http_request_total", {"method": "GET", "status": "200"}) == 1
        assert response.status_code == 200
        assert response.mimetype == "text/plain"
        assert 'flask_http_request_total{method="GET",status="200"} 1.0\n' in response.text
        assert_contract(response)

    @requests
    def test_each_request_is_counted_with_path_and_status(
        self, app: Flask, registry: CollectorRegistry, method: str, path: str, options: dict[str, Any], status: int
    ) -> None:
        labels = {"method": method, "status": str(status)}

        for address in ("192.0.2.1", "192.0.2.2"):
            response = ask(app, path, method, environ_overrides={"REMOTE_ADDR": address}, **options)
            assert response.status_code == status
            assert_contract(response)

        assert registry.get_sample_value("flask_http_request_total", labels) == 2
        with_path = labels | {"path": path.partition("?")[0]}
        assert registry.get_sample_value("flask_http_request_duration_seconds_count", with_path) == 2

    def test_a_refused_request_is_counted(self, app: Flask, registry: CollectorRegistry) -> None:
        assert_contract(ask_until_refused(app))

        assert registry.get_sample_value("flask_http_request_total", {"method": "GET", "status": "429"}) == 1


class TestTalisman:
    @requests
    def test_its_fields_arrive_beside_those_of_the_contract(
        self, app: Flask, method: str, path: str, options: dict[str, Any], status: int
    ) -> None:
        Talisman(app, force_https=False)

        response = ask(app, path, method, **options)

        assert response.status_code == status
        for name in ("Content-Security-Policy", "Referrer-Policy", "X-Frame-Options"):
            assert len(response.headers.getlist(name)) == 1
        assert_contract(response)

    def test_its_fields_arrive_with_a_refusal(self, app: Flask) -> None:
        Talisman(app, force_https=False)

        refused = ask_until_refused(app)

        assert refused.headers["X-Frame-Options"] == "SAMEORIGIN"
        assert_contract(refused)
