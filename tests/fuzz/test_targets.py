"""Odd request targets: whatever reaches a view under /api has consumed quota and met the sunset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import pytest
from flask import Flask
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.http.wsgi import create
from hypothesis import example, given
from hypothesis import strategies as st
from werkzeug.test import run_wsgi_app

from app import API_POLICY, CONTACT_POLICY
from app.api.hooks import Limits
from app.ratelimit.window import Decision, SlidingWindow
from tests.conftest import MakeApp
from tests.factories import SUNSET
from tests.fuzz.cases import addresses, fuzzed

CONFIG = Config()
FOUND = ("GET", "x:api/v1/health?://")
"""Once passed by quota and sunset."""

PATHS = ("/api", "/api/versioning", "/api/v1", "/api/v1/health", "/api/v1/contact", "/contact.php", "/openapi.json")
FRONTS = (
    "",
    "x:",
    "x:/",
    "x://",
    "//",
    "///",
    "://",
    "http://a",
    "http://a/",
    "http:",
    "/./",
    "/x/..",
    "\\",
    "%2F",
    "*",
)
ENDS = ("", "?", "?://", "?section=docs", "?a#://", "#", "#://", "/", "//", ";a", "%00", "%2F", "/..", "://")

known = st.sampled_from(PATHS)
encoded = known.flatmap(lambda path: st.sampled_from(path).map(lambda c: path.replace(c, f"%{ord(c):02X}", 1)))
printable = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=12)
fronts, ends = st.sampled_from(FRONTS) | printable, st.sampled_from(ENDS) | printable
targets = st.one_of(
    st.builds("{}{}{}".format, fronts, known | encoded, ends),
    # gunicorn takes a target without a slash at its front for an absolute one when "://" stands anywhere in it.
    st.builds("{}:{}{}://".format, st.sampled_from(["x", "http", "file"]), known.map(lambda path: path[1:]), ends),
)
requests = st.tuples(st.sampled_from(["GET", "HEAD", "POST", "CONNECT"]), targets)


class CountingLimiter(SlidingWindow):
    hits = 0

    def hit(self, client: bytes) -> Decision:
        self.hits += 1
        return super().hit(client)


def environ_of(method: str, target: str) -> dict[str, Any] | None:
    """The WSGI environ that gunicorn makes of a request, None where it makes none."""
    head = f"{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    client = (next(addresses), 50_000)
    try:
        request = next(RequestParser(CONFIG, iter([head]), client))
        environ: dict[str, Any] = create(request, None, client, ("127.0.0.1", 80), CONFIG)[1]
    except ParseException:
        return None
    return environ


@dataclass
class Watched:
    """An application that says which of its views under /api were called."""

    app: Flask
    limiter: CountingLimiter
    reached: list[str]
    """Their endpoints."""

    def send(self, method: str, target: str) -> int | None:
        """The status that the target is answered."""
        environ = environ_of(method, target)
        if environ is None:
            return None
        _, status, _ = run_wsgi_app(self.app.wsgi_app, environ)
        return int(status.split()[0])


@pytest.fixture
def watch(make_app: MakeApp) -> Callable[..., Watched]:
    def make(**environ: str) -> Watched:
        limiter = CountingLimiter(API_POLICY)
        app = make_app(collaborators={"limits": Limits(limiter, SlidingWindow(CONTACT_POLICY))}, **environ)
        reached: list[str] = []

        def recording(endpoint: str, view: Callable[[], Any]) -> Callable[[], Any]:
            @wraps(view)
            def record() -> Any:
                reached.append(endpoint)
                return view()

            return record

        for rule in app.url_map.iter_rules():
            if rule.rule.startswith("/api"):
                app.view_functions[rule.endpoint] = recording(rule.endpoint, app.view_functions[rule.endpoint])
        return Watched(app, limiter, reached)

    return make


@pytest.fixture
def current(watch: Callable[..., Watched]) -> Watched:
    return watch()


@pytest.fixture
def sunset(watch: Callable[..., Watched]) -> Watched:
    return watch(**SUNSET)


def test_a_view_is_reached_by_its_path(current: Watched) -> None:
    statuses = [current.send("GET", path) for path in PATHS[:4]]

    assert statuses == [200] * 4
    assert (len(current.reached), current.limiter.hits) == (4, 4)


@fuzzed
@example(request_=FOUND)
@given(request_=requests)
def test_whatever_reaches_a_view_has_consumed_quota(current: Watched, request_: tuple[str, str]) -> None:
    reached, hits = len(current.reached), current.limiter.hits

    current.send(*request_)

    assert current.limiter.hits - hits >= len(current.reached) - reached


@fuzzed
@example(request_=FOUND)
@given(request_=requests)
def test_whatever_reaches_a_view_has_met_the_sunset(sunset: Watched, request_: tuple[str, str]) -> None:
    sunset.send(*request_)

    assert [endpoint for endpoint in sunset.reached if endpoint.startswith("v1.")] == []
