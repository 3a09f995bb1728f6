"""The header fields of every kind of response, parsed by the RFCs, and what they promise over sequences of requests."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from wsgiref.types import WSGIEnvironment

import pytest
from flask import Flask
from freezegun import freeze_time
from hypothesis import example, given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse, create_environ, run_wsgi_app

from tests.client import ValidatingClient, validate_response
from tests.conftest import MakeApp, MakeClient
from tests.factories import contact_body
from tests.fakes import RecordingMailer
from tests.fuzz.cases import LONGER_CASES, addresses, fuzzed
from tests.fuzz.inspection import API, CONTACT, State, read_state

VERSIONED, LEGACY = "/api/v1/contact", "/contact.php"
CONTACT_ALLOW = frozenset({"POST", "OPTIONS"})
GET_ALLOW = frozenset({"GET", "HEAD", "OPTIONS"})
DEPRECATED = {
    "API_V1_DEPRECATED_ON": "2026-01-01",
    "API_V1_SUNSET_ON": "2027-01-01",
    "API_V1_SUCCESSOR": "https://example.com/api/v2?from=v1,old",
}
NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
ORIGIN = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}


def read(response: TestResponse) -> State:
    return read_state(response.status_code, response.headers.items())


@dataclass(frozen=True)
class Kind:
    """A response, what is sent to get it and what its fields state."""

    status: int
    method: str
    path: str
    sent: dict[str, Any] = field(default_factory=dict)
    policy: tuple[int, int] = API
    allow: frozenset[str] = frozenset()
    retry_after: int | None = None
    before: tuple[str, str, int] = ("GET", "/openapi.json", 0)


def posted(**changes: Any) -> dict[str, Any]:
    return {"json": contact_body(ts=None, **changes)}


MALFORMED = {"environ_overrides": {"PATH_INFO": ""}}
KINDS = {
    "index": Kind(200, "GET", "/api"),
    "head": Kind(200, "HEAD", "/api/v1/health"),
    "document": Kind(200, "GET", "/openapi.json"),
    "not modified": Kind(304, "GET", "/openapi.json", {"headers": {"If-None-Match": "*"}}),
    "options": Kind(204, "OPTIONS", "/api", allow=GET_ALLOW),
    "preflight": Kind(204, "OPTIONS", VERSIONED, {"headers": ORIGIN}, CONTACT, CONTACT_ALLOW),
    "accepted": Kind(200, "POST", VERSIONED, posted(), CONTACT),
    "accepted by the alias": Kind(200, "POST", LEGACY, posted(), CONTACT),
    "discarded": Kind(200, "POST", LEGACY, posted(_bp_check="x"), CONTACT),
    "empty body": Kind(400, "POST", LEGACY, policy=CONTACT),
    "wrong captcha": Kind(400, "POST", VERSIONED, posted(captcha_input="xxxxx"), CONTACT),
    "wrong parameter": Kind(400, "GET", "/api?section=x"),
    "malformed": Kind(400, "GET", "/malformed", MALFORMED),
    "unknown path": Kind(404, "GET", "/x"),
    "unknown endpoint": Kind(404, "GET", "/api/x"),
    "unknown version": Kind(404, "GET", "/api/v9"),
    "wrong method": Kind(405, "POST", "/api", allow=GET_ALLOW),
    "wrong method of contact": Kind(405, "GET", LEGACY, policy=CONTACT, allow=CONTACT_ALLOW),
    "sent too early": Kind(429, "POST", LEGACY, {"json": {"ts": 1 << 60}}, CONTACT, retry_after=3600),
    "sent too late": Kind(429, "POST", LEGACY, {"json": {"ts": 0}}, CONTACT, retry_after=30),
    "rate limit": Kind(429, "POST", LEGACY, posted(), CONTACT, retry_after=30, before=("POST", LEGACY, 1)),
    "api limit": Kind(429, "GET", "/api", retry_after=60, before=("GET", "/api", 60)),
    "api limit on contact": Kind(429, "POST", VERSIONED, posted(), API, retry_after=60, before=("GET", "/api", 60)),
    "undelivered": Kind(500, "POST", LEGACY, posted(), CONTACT),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_fields_of_every_kind_of_response_parse(
    make_client: MakeClient, mailer: RecordingMailer, kind: Kind
) -> None:
    mailer.broken = kind.status == 500
    with freeze_time("2026-11-21"):
        client = make_client()
        method, path, times = kind.before
        for _ in range(times):
            client.open(path, method=method)
        response = client.open(kind.path, method=kind.method, **kind.sent)
        now = time.time()

    state = read(response)
    assert response.status_code == kind.status
    assert (state.policy, state.allow, state.retry_after) == (kind.policy, kind.allow, kind.retry_after)
    assert state.reset_at == now + state.reset_after
    assert (state.sunset, state.successor) == (None, None)


ENDING = {
    "deprecated": ("2026-11-21", "GET", "/api/v1", 200),
    "deprecated, preflight": ("2026-11-21", "OPTIONS", VERSIONED, 204),
    "deprecated, unknown path": ("2026-11-21", "GET", "/api/v1/x", 404),
    "sunset": ("2027-01-01", "POST", VERSIONED, 410),
}


@pytest.mark.parametrize(("today", "method", "path", "status"), ENDING.values(), ids=ENDING)
def test_the_fields_of_an_ending_version_parse(
    make_client: MakeClient, today: str, method: str, path: str, status: int
) -> None:
    with freeze_time(today):
        response = make_client(**DEPRECATED).open(path, method=method)

    state = read(response)
    assert response.status_code == status
    assert (state.sunset, state.successor) == (NEW_YEAR, DEPRECATED["API_V1_SUCCESSOR"])


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    return make_app()


def _from(address: str) -> dict[str, str]:
    return {"REMOTE_ADDR": address}


class Prepared(NamedTuple):
    """A request, apart from who sends it. Many are sent, and to build one takes as long as to answer it."""

    environ: WSGIEnvironment
    body: bytes


def prepare(path: str, method: str = "GET", **sent: Any) -> Prepared:
    environ = create_environ(path, method=method, **sent)
    return Prepared(environ, environ["wsgi.input"].read())


SENDS = {
    "index": prepare("/api"),
    "unknown": prepare("/api/x"),
    "document": prepare("/openapi.json", "HEAD"),
    "options": prepare(VERSIONED, "OPTIONS"),
    "wrong method": prepare(LEGACY, "PUT"),
    "versioned": prepare(VERSIONED, "POST", **posted()),
    "legacy": prepare(LEGACY, "POST", **posted()),
    "wrong": prepare(LEGACY, "POST", **posted(email="x")),
    "spam": prepare(VERSIONED, "POST", **posted(_bp_check="x")),
}


def send(app: Flask, name: str, address: str) -> tuple[int, State]:
    """The status and the fields of the answer, which is validated as every client's is."""
    environ, body = SENDS[name]
    own = {"REMOTE_ADDR": address, "wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr}
    chunks, status_line, headers = run_wsgi_app(app, environ | own)
    status = int(status_line.split()[0])
    validate_response(environ["REQUEST_METHOD"], environ["PATH_INFO"], status, headers.items(), b"".join(chunks))
    return status, read_state(status, headers)


Step = tuple[str, int] | float
"""So many requests of one kind, or a pause in seconds."""

requests = st.tuples(st.sampled_from(sorted(SENDS)), st.integers(1, 3) | st.integers(55, 62))
pauses = st.sampled_from([0.000001, 0.5, 1.0, 29.999999, 30.0, 59.999999, 60.0]) | st.floats(0.000001, 61)
steps = st.lists(requests | pauses.map(lambda seconds: round(seconds, 6)), min_size=1, max_size=12)
fractions = st.integers(0, 999_999)


def run(app: Flask, tick: Callable[[timedelta], object], sequence: list[Step]) -> None:
    """Make the requests of one client; when it is told to wait, it waits exactly that long and repeats the request."""
    address = next(addresses)
    remaining: dict[tuple[int, int], int] = {}
    for step in sequence:
        if isinstance(step, float):
            tick(timedelta(seconds=step))
            remaining.clear()
            continue
        name, times = step
        for _ in range(times):
            now = time.time_ns()
            _, state = send(app, name, address)
            assert state.remaining <= remaining.get(state.policy, state.policy[0])
            assert 0 <= state.reset_at * 10**9 - now - (state.reset_after - 1) * 10**9 < 2 * 10**9
            remaining[state.policy] = state.remaining
            if state.retry_after is not None:
                tick(timedelta(seconds=state.retry_after))
                remaining.clear()
                status, _ = send(app, name, address)
                assert status != 429


@settings(fuzzed, max_examples=LONGER_CASES)
@given(sequence=steps, microseconds=fractions)
@example(sequence=[("index", 60), 59.999999, ("index", 2)], microseconds=1)
@example(sequence=[("legacy", 1), 29.999999, ("legacy", 2)], microseconds=999_999)
@example(sequence=[("versioned", 62)], microseconds=0)
def test_whoever_waits_as_told_passes_and_nothing_is_gained_without_waiting(
    app: Flask, sequence: list[Step], microseconds: int
) -> None:
    with freeze_time(datetime(2026, 11, 21, microsecond=microseconds, tzinfo=UTC)) as clock:
        run(app, clock.tick, sequence)


SPENT_TWICE: dict[str, list[Step]] = {
    "the contact quota first": [("versioned", 1), 20.0, ("index", 58), ("versioned", 1)],
    "the /api/* quota first": [("index", 59), 59.5, ("versioned", 2)],
}


@pytest.mark.parametrize("sequence", SPENT_TWICE.values(), ids=SPENT_TWICE)
def test_whoever_has_spent_both_quotas_is_told_the_longer_wait(app: Flask, sequence: list[Step]) -> None:
    with freeze_time("2026-11-21") as clock:
        run(app, clock.tick, sequence)


@settings(fuzzed, max_examples=LONGER_CASES)
@given(age=st.integers(-3_590_000, 1_999) | st.integers(3_600_001, 10**10), microseconds=fractions)
@example(age=1_999, microseconds=999_999)
def test_a_form_that_was_sent_too_early_or_too_late_passes_after_the_wait(
    client: ValidatingClient, age: int, microseconds: int
) -> None:
    with freeze_time(datetime(2026, 11, 21, microsecond=microseconds, tzinfo=UTC)) as clock:
        now = time.time_ns() // 10**6
        origin = _from(next(addresses))
        first = client.post(LEGACY, json=contact_body(ts=now - age), environ_base=origin)
        wait = read(first).retry_after
        assert wait is not None
        rendered = now if age > 3_600_000 else now - age
        clock.tick(timedelta(seconds=wait))
        second = client.post(LEGACY, json=contact_body(ts=rendered), environ_base=origin)

    assert (first.status_code, second.status_code) == (429, 200)
