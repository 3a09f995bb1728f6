"""Sentry and OpenTelemetry, as deploy/monitoring has them, learn of a request and no word of the visitor's."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from app.release import VERSION
from tests.receiver import Receiver, receiving
from tests.server.gunicorn import PATIENCE, ROOT, Server, serving
from tests.waiting import wait_until

WORD = "MARIA-4929"
"""It is in every part of a request that a visitor chooses, in the method of some, too."""
TRACE_ID = "4929abcd" * 4

FIELDS = {"form_type": "demo", "email": f"{WORD}@example.com", "mensaje": WORD, WORD: WORD}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}, urlencode(FIELDS).encode()
JSON = {"Content-Type": "application/json"}, json.dumps(FIELDS).encode()
ENDLESS = {"Content-Type": "application/json", "Content-Length": "9000"}, b"{"

SPEAKING = dict.fromkeys(("Cookie", "Referer", "User-Agent", "Authorization", "X-Forwarded-For", "X-Other"), WORD) | {
    "Host": f"{WORD}.example",
    "Sentry-Trace": f"{TRACE_ID}-{TRACE_ID[:16]}-1",
    "Traceparent": f"00-{TRACE_ID}-{TRACE_ID[:16]}-01",
    "Baggage": f"sentry-trace_id={TRACE_ID},sentry-release={WORD},other={WORD}",
    "Tracestate": f"other={WORD}",
}


@contextmanager
def watched(directory: Path, name: str, receiver: Receiver) -> Iterator[Server]:
    """The service as this drop-in of deploy/monitoring starts it, which tells the receiver both."""
    unit = (ROOT / "deploy" / "monitoring" / f"{name}.conf").read_text()
    (command,) = re.findall(r"exec (.*)'$", unit, re.MULTILINE)
    *words, app = command.replace(".venv/bin", str(Path(sys.executable).parent)).split()
    environ = dict(re.findall(r"([A-Z_]+)=(\S+)", "".join(re.findall("^Environment=(.*\n)", unit, re.MULTILINE))))
    environ |= {
        "MONITORED": app.removesuffix(":app"),
        "SENTRY_DSN": receiver.address.replace("://", "://key@") + "/1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    with serving(directory, command=[*words, "tests.server.crashing:app"], **environ) as server:
        yield server


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Server]:
    """With OpenTelemetry and with Sentry, as its drop-in has it when SENTRY_DSN is set."""
    with watched(tmp_path_factory.mktemp("opentelemetry"), "opentelemetry", receiver) as server:
        yield server


@pytest.fixture
def server(both: Server) -> Server:
    return both.new_client()


def ask(
    server: Server, crash: str, method: str, path: str, body: tuple[dict[str, str], bytes]
) -> tuple[int, str | None]:
    """Ask as somebody who chooses WORD wherever he can; the status of the answer, and the id of the request."""
    response, _ = server.request(method, f"{path}?{WORD}", body[1], SPEAKING | body[0] | {"X-Crash": crash})
    return response.status, response.headers["X-Request-ID"]


def assert_unknown(server: Server, receiver: Receiver) -> None:
    """Nobody knows anything of the visitor: no word, no address, and no trace that it claims to be part of."""
    known = server.log.encode() + b"".join(sent.content for sent in receiver.sent)
    for chosen in (WORD.encode(), TRACE_ID.encode(), bytes.fromhex(TRACE_ID), server.client.encode()):
        assert chosen.lower() not in known.lower()


def told_to_sentry(receiver: Receiver, request_id: str | None) -> list[tuple[str, ...]]:
    """Of each event of the request: class and place of the exception, the route, and the release."""
    lines = [
        json.loads(line)
        for sent in list(receiver.sent)
        if sent.path.endswith("/envelope/")
        for line in sent.content.splitlines()
        if line
    ]
    events = [line for line in lines if "exception" in line and line.get("tags", {}).get("request_id") == request_id]
    errors = [event["exception"]["values"][-1] for event in events]
    return [
        (error["type"], error["stacktrace"]["frames"][-1]["function"], event.get("transaction"), event["release"])
        for event, error in zip(events, errors, strict=True)
    ]


def attributes(told: Span | Span.Event) -> dict[str, str | int]:
    values = {attribute.key: attribute.value for attribute in told.attributes}
    return {name: value.string_value or value.int_value for name, value in values.items()}


def spans(receiver: Receiver, request_id: str | None) -> list[Span]:
    """OpenTelemetry's for a request."""
    return [
        span
        for sent in list(receiver.sent)
        if sent.path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(sent.content).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if attributes(span).get("request_id") == request_id
    ]


POST, STRANGE = ("POST", "/contact.php"), (WORD, f"/{WORD}")
VIEW = {"http.method": "POST", "http.route": "/contact.php"}
OTHER = {"http.method": "_OTHER"}

REQUESTS: dict[str, tuple[Any, ...]] = {
    "a form": ("", *POST, FORM, 200, VIEW),
    "an unknown path and method": ("", *STRANGE, JSON, 404, OTHER),
    "an exception that quotes a form": ("with the body", *POST, FORM, 500, VIEW),
    "an exception that quotes JSON": ("with the body", *POST, JSON, 500, VIEW),
    "an exception before a body that never comes": ("inside", *POST, ENDLESS, 500, VIEW),
    "an exception at a path and a method of the visitor's": ("inside", *STRANGE, JSON, 500, OTHER),
}
"""Where the request fails, the request, the status of its answer, and what is told of it."""


@pytest.mark.parametrize(("crash", "method", "path", "body", "status", "told"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_told_without_a_word_of_the_visitors(
    server: Server, receiver: Receiver, crash: str, method: str, path: str, body: Any, status: int, told: Any
) -> None:
    route, fails = told.get("http.route", "-"), status == 500

    answered, request_id = ask(server, crash, method, path, body)

    assert answered == status
    wait_until(lambda: spans(receiver, request_id), seconds=PATIENCE)
    (span,) = spans(receiver, request_id)
    assert attributes(span) == told | {"request_id": request_id, "http.status_code": status}
    assert (span.name, span.parent_span_id) == (f"{told['http.method']} {route}", b"")
    assert span.status == Status(code=Status.STATUS_CODE_ERROR if fails else Status.STATUS_CODE_UNSET)
    assert [attributes(event) for event in span.events] == [{"exception.type": "RuntimeError"}] * fails
    events = [("RuntimeError", "fail_inside", route, VERSION)] * fails
    wait_until(lambda: told_to_sentry(receiver, request_id) == events, seconds=PATIENCE)
    assert_unknown(server, receiver)


def test_what_fails_around_the_application_is_logged_without_a_word(server: Server, receiver: Receiver) -> None:
    status, no_id = ask(server, "around", *POST, JSON)

    assert status == 500
    server.wait_for("unhandled RuntimeError in None\n(.*\n)*.*in fail_around")
    wait_until(lambda: told_to_sentry(receiver, no_id), seconds=PATIENCE)
    assert_unknown(server, receiver)


def test_sentry_is_told_without_opentelemetry_once(tmp_path: Path, receiver: Receiver) -> None:
    with watched(tmp_path, "sentry", receiver) as alone:
        server = alone.new_client()
        _, request_id = ask(server, "inside", *POST, FORM)

    # It has sent all before it ended: the line of the log would be a second event.
    assert told_to_sentry(receiver, request_id) == [("RuntimeError", "fail_inside", "/contact.php", VERSION)]
    assert_unknown(server, receiver)
