"""Sentry and OpenTelemetry, as deploy/monitoring has them, learn of a request and no word of the visitor's."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.receiver import Receiver, receiving
from tests.server.gunicorn import PATIENCE, ROOT, Server, serving
from tests.waiting import wait_until

T = TypeVar("T")

WORD = "MARIA-4929"
"""It is in every part of a request that a visitor chooses, in the method of some, too."""
TRACE_ID = "4929abcd" * 4

FIELDS = {"form_type": "demo", "email": f"{WORD}@example.com", "mensaje": WORD, WORD: WORD}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}, urlencode(FIELDS).encode()
JSON = {"Content-Type": "application/json"}, json.dumps(FIELDS).encode()
TEXT = {"Content-Type": "text/plain"}, WORD.encode()
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


def ask(server: Server, crash: str, method: str, path: str, body: tuple[dict[str, str], bytes]) -> tuple[int, str]:
    """Ask as somebody who chooses WORD wherever he can; the status of the answer, and the id of the request."""
    response, _ = server.request(method, f"{path}?{WORD}", body[1], SPEAKING | body[0] | {"X-Crash": crash})
    return response.status, str(response.headers["X-Request-ID"])


def assert_unknown(server: Server, receiver: Receiver) -> None:
    """Nobody knows anything of the visitor: no word, no address, and no trace that it claims to be part of."""
    known = server.log.encode() + b"".join(sent.content for sent in receiver.sent)
    for chosen in (WORD.encode(), TRACE_ID.encode(), bytes.fromhex(TRACE_ID), server.client.encode()):
        assert chosen.lower() not in known.lower()


def the_only(find: Callable[[], list[T]]) -> T:
    """The only thing that is found, as soon as there is one."""
    wait_until(find, seconds=PATIENCE)
    (only,) = find()
    return only


def events(receiver: Receiver, request_id: str) -> list[dict[str, Any]]:
    """Sentry's for a request: lines of JSON, each with a line before it that says what it is."""
    lines = [
        [json.loads(line) for line in sent.content.splitlines() if line]
        for sent in list(receiver.sent)
        if sent.path.endswith("/envelope/")
    ]
    found = [content for envelope in lines for item, content in pairwise(envelope) if item.get("type") == "event"]
    return [event for event in found if event.get("tags", {}).get("request_id") == request_id]


def assert_told_to_sentry(receiver: Receiver, request_id: str, failure: str, route: str) -> None:
    event = the_only(lambda: events(receiver, request_id))
    error = event["exception"]["values"][-1]
    assert (error["type"], error["stacktrace"]["frames"][-1]["function"]) == (failure, "fail_as_told")
    assert (event["transaction"], event["release"]) == (route, "development")


def attributes(told: Span | Span.Event) -> dict[str, str | int]:
    values = {attribute.key: attribute.value for attribute in told.attributes}
    return {name: value.string_value or value.int_value for name, value in values.items()}


def span_of(receiver: Receiver, request_id: str, told: dict[str, str | int]) -> Span:
    """OpenTelemetry's for a request. It says this of it, and nothing else."""

    def find() -> list[Span]:
        return [
            span
            for sent in list(receiver.sent)
            if sent.path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(sent.content).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if attributes(span).get("request_id") == request_id
        ]

    span = the_only(find)
    assert attributes(span) == told | {"request_id": request_id}
    assert span.name == f"{told['http.method']} {told.get('http.route', '-')}"
    assert not span.parent_span_id
    return span


POST, HEALTH, STRANGE = ("POST", "/contact.php"), ("GET", "/api/v1/health"), (WORD, f"/{WORD}")
VIEW = {"http.method": "POST", "http.route": "/contact.php"}
OTHER = {"http.method": "_OTHER"}

CRASHES: dict[str, tuple[Any, ...]] = {
    "with a note, before a body that never comes": ("at once", *POST, ENDLESS, "RuntimeError", VIEW),
    "with a cause, after a form": ("with the body", *POST, FORM, "ValueError", VIEW),
    "with a cause, after JSON": ("with the body", *POST, JSON, "ValueError", VIEW),
    "at a path and a method of the visitor's": ("at once", *STRANGE, JSON, "RuntimeError", OTHER),
}
"""Where a request fails, the request, which exception is raised, and what is told of it."""


@pytest.mark.parametrize(("crash", "method", "path", "body", "failure", "told"), CRASHES.values(), ids=CRASHES)
def test_an_exception_is_told_with_its_class_and_no_word_of_the_visitors(
    server: Server, receiver: Receiver, crash: str, method: str, path: str, body: Any, failure: str, told: Any
) -> None:
    status, request_id = ask(server, crash, method, path, body)

    assert status == 500
    assert_told_to_sentry(receiver, request_id, failure, told.get("http.route", "-"))
    span = span_of(receiver, request_id, told | {"http.status_code": 500})
    assert span.status == Status(code=Status.STATUS_CODE_ERROR)
    assert [attributes(event) for event in span.events] == [{"exception.type": failure}]
    server.wait_for(f"{request_id} unforeseen {failure} in ")
    assert_unknown(server, receiver)


REQUESTS: dict[str, tuple[Any, ...]] = {
    "a page": (*HEALTH, JSON, 200, {"http.method": "GET", "http.route": "/api/v1/health"}),
    "a form": (*POST, FORM, 200, VIEW),
    "a refused form": (*POST, TEXT, 400, VIEW),
    "an unknown path and method": (*STRANGE, JSON, 404, OTHER),
}
"""The request, the status of its answer, and what is told of it."""


@pytest.mark.parametrize(("method", "path", "body", "status", "told"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_a_span_with_method_route_status_and_id_and_no_event(
    server: Server, receiver: Receiver, method: str, path: str, body: Any, status: int, told: Any
) -> None:
    answered, request_id = ask(server, "", method, path, body)
    _, crashed = ask(server, "at once", *HEALTH, JSON)

    assert answered == status
    assert not span_of(receiver, request_id, told | {"http.status_code": status}).events
    the_only(lambda: events(receiver, crashed))  # Sentry sends one after the other
    assert events(receiver, request_id) == []
    assert_unknown(server, receiver)


def test_what_fails_around_the_application_is_logged_without_a_word(server: Server, receiver: Receiver) -> None:
    status, _ = ask(server, "around", *POST, JSON)
    _, crashed = ask(server, "at once", *HEALTH, JSON)

    assert status == 500
    server.wait_for("unforeseen RuntimeError in None\n(.*\n)*.*in fail_around")
    the_only(lambda: events(receiver, crashed))
    assert_unknown(server, receiver)


def test_sentry_is_told_without_opentelemetry_once(tmp_path: Path, receiver: Receiver) -> None:
    with watched(tmp_path, "sentry", receiver) as alone:
        server = alone.new_client()
        status, request_id = ask(server, "with the body", *POST, FORM)
        assert_told_to_sentry(receiver, request_id, "ValueError", "/contact.php")

    # It has sent all before it ended: the line of the log would be a second event.
    assert (status, len(events(receiver, request_id))) == (500, 1)
    assert_unknown(server, receiver)
