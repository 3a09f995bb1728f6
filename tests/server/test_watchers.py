"""Sentry and OpenTelemetry, as deploy/monitoring has them, learn of a request and no word of the visitor's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.receiver import Receiver, receiving
from tests.server.gunicorn import PATIENCE, Server
from tests.server.monitored import FORM, WORD, Visitor, watched
from tests.waiting import wait_until

T = TypeVar("T")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Server]:
    """With both, as its drop-in has it when SENTRY_DSN is set."""
    with watched(tmp_path_factory.mktemp("opentelemetry"), "opentelemetry", receiver) as server:
        yield server


@pytest.fixture
def visitor(server: Server) -> Visitor:
    return Visitor(server)


def the_only(find: Callable[[], list[T]]) -> T:
    """The only thing that is found, as soon as there is one."""
    wait_until(find, seconds=PATIENCE)
    (only,) = find()
    return only


def everything(receiver: Receiver) -> bytes:
    return b"".join(sent.content for sent in receiver.sent)


def events(receiver: Receiver, request_id: str) -> list[dict[str, Any]]:
    """Sentry's for a request: lines of JSON, each with a line before it that says what it is."""
    lines = [
        [json.loads(line) for line in sent.content.splitlines() if line]
        for sent in list(receiver.sent)
        if sent.path.endswith("/envelope/")
    ]
    found = [content for envelope in lines for item, content in pairwise(envelope) if item.get("type") == "event"]
    return [event for event in found if event.get("tags", {}).get("request_id") == request_id]


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
    assert span.end_time_unix_nano > span.start_time_unix_nano
    assert not span.parent_span_id
    return span


def assert_told_to_sentry(receiver: Receiver, request_id: str, failure: str, place: str, route: str) -> None:
    event = the_only(lambda: events(receiver, request_id))
    errors = event["exception"]["values"]
    stacks = [error["stacktrace"]["frames"] for error in errors if error.get("stacktrace")]
    assert failure in [error["type"] for error in errors]
    assert place in [frame["function"] for frames in stacks for frame in frames]
    assert (event["transaction"], event["release"]) == (route, "development")


VIEW = {"http.method": "POST", "http.route": "/contact.php"}
OTHER = {"http.method": "_OTHER"}
STRANGE: dict[str, Any] = {"method": WORD, "path": f"/{WORD}"}
HEALTH = {"method": "GET", "path": "/api/v1/health"}

CRASHES: dict[str, tuple[str, dict[str, Any], str, dict[str, str]]] = {
    "with a note, before the body is read": ("before RuntimeError", {}, "fail_or_read", VIEW),
    "before a body that never comes": ("before RuntimeError", {"Content-Length": "9000"}, "fail_or_read", VIEW),
    "with a cause, after a form": ("after ValueError", {"body": FORM}, "fail_or_read", VIEW),
    "of the system, after JSON": ("after OSError", {}, "fail_or_read", VIEW),
    "of several, after JSON": ("after ExceptionGroup", {}, "fail_or_read", VIEW),
    "at a path and a method of the visitor's": ("anywhere RuntimeError", STRANGE, "fail_at_once", OTHER),
}
"""Where which exception is raised, in which request, in which function, and what is told of the request."""


@pytest.mark.parametrize(("crash", "asked", "place", "told"), CRASHES.values(), ids=CRASHES)
def test_an_exception_is_told_with_its_class_and_no_word_of_the_visitors(
    server: Server,
    visitor: Visitor,
    receiver: Receiver,
    crash: str,
    asked: dict[str, Any],
    place: str,
    told: dict[str, str],
) -> None:
    failure = crash.partition(" ")[2]
    status, request_id = visitor.ask(crash, **asked)

    assert status == 500
    assert_told_to_sentry(receiver, request_id, failure, place, told.get("http.route", "-"))
    span = span_of(receiver, request_id, {**told, "http.status_code": 500})
    assert span.status == Status(code=Status.STATUS_CODE_ERROR)
    (event,) = map(attributes, span.events)
    assert event.keys() == {"exception.type"}
    assert str(event["exception.type"]).rpartition(".")[2] == failure
    server.wait_for(f"{request_id} unforeseen {failure} in ")
    visitor.assert_unknown(server.log.encode() + everything(receiver))


REQUESTS: dict[str, tuple[int, dict[str, Any], dict[str, str]]] = {
    "a page": (200, HEALTH, {"http.method": "GET", "http.route": "/api/v1/health"}),
    "a form": (200, {}, VIEW),
    "a refused form": (400, {"body": ("text/plain", WORD.encode())}, VIEW),
    "a wrong method": (405, {"method": "DELETE"}, {"http.method": "DELETE"}),
    "an unknown path": (404, {"method": "GET", "path": f"/{WORD}"}, {"http.method": "GET"}),
    "an unknown path and method": (404, STRANGE, OTHER),
}


@pytest.mark.parametrize(("status", "asked", "told"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_a_span_with_method_route_status_and_id_and_no_event(
    visitor: Visitor, receiver: Receiver, status: int, asked: dict[str, Any], told: dict[str, str]
) -> None:
    answered, request_id = visitor.ask("", **asked)

    assert answered == status
    assert not span_of(receiver, request_id, {**told, "http.status_code": status}).events
    _, crashed = visitor.ask("anywhere RuntimeError")
    the_only(lambda: events(receiver, crashed))  # Sentry sends one after the other
    assert events(receiver, request_id) == []
    visitor.assert_unknown(everything(receiver))


def test_what_fails_around_the_application_is_logged_without_a_word(
    server: Server, visitor: Visitor, receiver: Receiver
) -> None:
    status, _ = visitor.ask("around RuntimeError")

    assert status == 500
    server.wait_for("unforeseen RuntimeError in None\n(.*\n)*.*in fail_around")
    _, crashed = visitor.ask("anywhere RuntimeError")
    the_only(lambda: events(receiver, crashed))
    visitor.assert_unknown(server.log.encode() + everything(receiver))


def test_sentry_is_told_without_opentelemetry_once(tmp_path: Path, receiver: Receiver) -> None:
    with watched(tmp_path, "sentry", receiver) as server:
        visitor = Visitor(server)
        status, request_id = visitor.ask("after ValueError", body=FORM)
        assert_told_to_sentry(receiver, request_id, "ValueError", "fail_or_read", "/contact.php")

    # It has sent all before it ended: the line of the log would be a second event.
    assert (status, len(events(receiver, request_id))) == (500, 1)
    visitor.assert_unknown(everything(receiver))
