"""Sentry, as deploy/monitoring has it, learns class and place of an exception and no word of the visitor's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.server.gunicorn import Server
from tests.server.monitored import WORD, Receiver, Visitor, each_failure, watched


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Server]:
    dsn = f"http://key@127.0.0.1:{receiver.server_port}/1"
    # Timings are of no use here, and yet some people will ask for them.
    added = 'import sentry_sdk; sentry_sdk.get_client().options["traces_sample_rate"] = 1.0'
    with watched(tmp_path_factory.mktemp("sentry"), "sentry", added=added, SENTRY_DSN=dsn) as server:
        yield server


def events(receiver: Receiver) -> list[dict[str, Any]]:
    """The events of the envelopes: lines of JSON, each with a line before it that says what it is."""
    found = []
    for sent in list(receiver.sent):
        lines = [json.loads(line) for line in sent.content.splitlines() if line]
        found += [content for item, content in pairwise(lines) if item.get("type") == "event"]
    return found


def event_of(receiver: Receiver, request_id: str) -> dict[str, Any]:
    return receiver.the_only(
        lambda: [event for event in events(receiver) if event.get("tags", {}).get("request_id") == request_id]
    )


@each_failure
def test_an_exception_arrives_with_class_and_place_and_no_word_of_the_visitors(
    visitor: Visitor, receiver: Receiver, moment: str, failure: str, body: str
) -> None:
    status, request_id = visitor.ask(f"{moment} {failure}", body=body)

    assert status == 500
    event = event_of(receiver, request_id)
    errors = event["exception"]["values"]
    assert failure in [error["type"] for error in errors]
    assert "fail_or_read" in functions(errors)
    assert (event["transaction"], event["release"]) == ("/contact.php", "development")
    visitor.assert_unknown(receiver.everything)


def functions(errors: list[dict[str, Any]]) -> list[str]:
    """The functions on the stacks of exceptions."""
    stacks = [error["stacktrace"]["frames"] for error in errors if error.get("stacktrace")]
    return [frame["function"] for frames in stacks for frame in frames]


def test_an_unknown_path_and_an_unknown_method_are_the_visitors_words(visitor: Visitor, receiver: Receiver) -> None:
    status, request_id = visitor.ask("anywhere", method=WORD, path=f"/{WORD}")

    assert status == 500
    event = event_of(receiver, request_id)
    assert event["transaction"] == "-"
    assert "fail_at_once" in functions(event["exception"]["values"])
    visitor.assert_unknown(receiver.everything)


def test_a_body_that_has_not_come_is_not_waited_for(visitor: Visitor, receiver: Receiver) -> None:
    status, request_id = visitor.ask("before RuntimeError", announced=9_000)

    assert status == 500
    assert "fail_or_read" in functions(event_of(receiver, request_id)["exception"]["values"])


def test_a_refusal_is_no_event(visitor: Visitor, receiver: Receiver) -> None:
    refused = [visitor.ask("", path=path) for path in ("/contact.php", "/contact.php", f"/{WORD}")]
    _, request_id = visitor.ask("anywhere")

    assert [status for status, _ in refused] == [200, 429, 404]
    event_of(receiver, request_id)
    assert not {request_id for _, request_id in refused} & {event["tags"]["request_id"] for event in events(receiver)}
    visitor.assert_unknown(receiver.everything)


def test_the_log_quotes_the_visitor_no_more_than_sentry_does(server: Server, visitor: Visitor) -> None:
    _, request_id = visitor.ask("after RuntimeError")

    server.wait_for(f"{request_id} unforeseen RuntimeError in ")
    visitor.assert_unknown(server.log.encode())
