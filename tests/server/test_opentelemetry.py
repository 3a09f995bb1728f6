"""OpenTelemetry, as deploy/monitoring has it, learns route and status of a request and no word of the visitor's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.ports import free_port
from tests.server.gunicorn import Server
from tests.server.monitored import WORD, Receiver, Visitor, each_failure, watched


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Server]:
    """With Sentry, too, as who has both has it: nobody takes its events here."""
    directory = tmp_path_factory.mktemp("opentelemetry")
    endpoint = f"http://127.0.0.1:{receiver.server_port}"
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    settings["SENTRY_DSN"] = f"http://key@127.0.0.1:{free_port()}/1"
    with watched(directory, "opentelemetry", **settings) as server:
        yield server


def spans(receiver: Receiver) -> list[Span]:
    return [
        span
        for sent in list(receiver.sent)
        for resource in ExportTraceServiceRequest.FromString(sent.content).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes(told: Span | Span.Event) -> dict[str, str | int]:
    values = {attribute.key: attribute.value for attribute in told.attributes}
    return {name: value.string_value or value.int_value for name, value in values.items()}


def span_of(receiver: Receiver, request_id: str) -> Span:
    return receiver.the_only(
        lambda: [span for span in spans(receiver) if attributes(span).get("request_id") == request_id]
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [
        ("GET", "/api/v1/health", 200, {"http.method": "GET", "http.route": "/api/v1/health"}),
        ("POST", "/contact.php", 200, {"http.method": "POST", "http.route": "/contact.php"}),
        ("DELETE", "/contact.php", 405, {"http.method": "DELETE"}),
        ("GET", f"/{WORD}", 404, {"http.method": "GET"}),
        (WORD, f"/{WORD}", 404, {"http.method": "_OTHER"}),
    ],
)
def test_a_request_is_a_span_with_method_route_status_and_id(
    visitor: Visitor, receiver: Receiver, method: str, path: str, status: int, told: dict[str, str]
) -> None:
    answered, request_id = visitor.ask("", method=method, path=path)

    assert answered == status
    span = span_of(receiver, request_id)
    assert attributes(span) == told | {"http.status_code": status, "request_id": request_id}
    assert span.name == f"{told['http.method']} {told.get('http.route', '-')}"
    assert span.end_time_unix_nano > span.start_time_unix_nano
    assert not span.events
    assert not span.parent_span_id
    visitor.assert_unknown(receiver.everything)


@each_failure
def test_an_exception_arrives_with_its_class_and_no_word_of_the_visitors(
    visitor: Visitor, receiver: Receiver, moment: str, failure: str, body: str
) -> None:
    answered, request_id = visitor.ask(f"{moment} {failure}", body=body)

    assert answered == 500
    span = span_of(receiver, request_id)
    assert attributes(span)["http.status_code"] == 500
    assert span.status == Status(code=Status.STATUS_CODE_ERROR)
    (event,) = map(attributes, span.events)
    assert event.keys() == {"exception.type"}
    assert str(event["exception.type"]).rpartition(".")[2] == failure
    visitor.assert_unknown(receiver.everything)


def test_a_request_that_a_limit_refuses_has_a_span_and_one_line_in_the_log(
    server: Server, visitor: Visitor, receiver: Receiver
) -> None:
    status = 200
    while status == 200:
        status, refused = visitor.ask("", method="GET", path="/api")

    assert status == 429
    assert attributes(span_of(receiver, refused))["http.status_code"] == 429
    server.wait_for(refused)
    (line,) = [line for line in server.log.splitlines() if refused in line]
    assert " GET /api 429 " in line
