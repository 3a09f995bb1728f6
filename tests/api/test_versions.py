"""The life of a version: when v1 ends, and v1 beside a second one (tests/api/exchanges.py has v1 on its way)."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from flask import Blueprint, Flask
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from werkzeug.test import Client, TestResponse

from app.versions import Lifecycle, Version, Versions
from tests.api.exchanges import NO_END, Row, member, send
from tests.conftest import MakeApp
from tests.fuzz.inspection import read_state

SUCCESSOR = "https://www.example.com/api/v2"
ANNOUNCED = {"API_V1_DEPRECATED_ON": "2026-01-01", "API_V1_SUNSET_ON": "2026-06-30", "API_V1_SUCCESSOR": SUCCESSOR}
ENDS = {
    ("Deprecation", "true"),
    ("Sunset", "Tue, 30 Jun 2026 00:00:00 GMT"),
    ("Link", f'<{SUCCESSOR}>; rel="successor-version"'),
}
"""What a response signals of the end of its version."""
ENDING = NO_END | {"deprecated_on": "2026-01-01", "sunset_on": "2026-06-30", "successor": SUCCESSOR}
MOMENTS = {
    "2025-12-31T23:59:59.999999": "current",
    "2026-01-01T00:00:00": "deprecated",
    "2026-06-29T23:59:59.999999": "deprecated",
    "2026-06-30T00:00:00": "sunset",
}
"""The last and the first moment of each state."""


def ask(app: Flask, request: str) -> TestResponse:
    """Asks as a client does; the app's own test client takes only what the document describes."""
    return send(Client(app), Row(request, 0))


def data(app: Flask, target: str) -> Any:
    return member(ask(app, f"GET {target}").json, "data")


@pytest.mark.parametrize(("moment", "status"), MOMENTS.items())
@pytest.mark.parametrize("hours_from_utc", [-11, 0, 13])
def test_v1_ends_on_the_day_that_was_announced_wherever_the_server_is(
    make_app: MakeApp, moment: str, status: str, hours_from_utc: int
) -> None:
    with freeze_time("2025-01-01", tz_offset=hours_from_utc) as clock:
        app = make_app(**ANNOUNCED)
        clock.move_to(moment)
        response, state = ask(app, "GET /api/v1"), data(app, "/api/versioning?version=v1")
        listed = [data(app, "/api/versioning"), data(app, "/api")["versions"]]

    assert response.status_code == (410 if status == "sunset" else 200)
    assert ENDS & {*response.headers} == (set() if status == "current" else ENDS)
    assert state == ENDING | {"status": status}
    assert [each["supported"] for each in listed] == [[] if status == "sunset" else ["v1"]] * 2
    assert [each["deprecated"] for each in listed] == [["v1"] if status == "deprecated" else []] * 2


@pytest.fixture
def two(make_app: MakeApp, clock: FrozenDateTimeFactory) -> Flask:
    """The service with v1, which ends, and a small v2 mounted by the ordinary means, on the day of the deprecation."""
    clock.move_to("2026-01-01")
    ending, current = Version("v1", Lifecycle(date(2026, 1, 1), date(2026, 6, 30), SUCCESSOR)), Version("v2", None)
    blueprint = Blueprint("v2", __name__, url_prefix=current.base_path)
    blueprint.get("")(lambda: {"ok": True, "data": {"version": "v2"}})
    blueprint.post("/contact", endpoint="contact")(lambda: ({"ok": True, "message": "Recibido."}, 202))
    app = make_app(collaborators={"versions": Versions(ending, current)})
    app.register_blueprint(blueprint)
    return app


SERVED: dict[str, tuple[int, int, str]] = {
    "GET /api/v2": (200, 200, "v2"),
    "POST /api/v2/contact": (202, 202, "v2"),
    "GET /api/v2/x": (404, 404, "v2"),
    "OPTIONS /api/v2/contact": (204, 204, "v2"),
    "GET /api/v1": (200, 410, "v1"),
    "POST /contact.php": (400, 400, "v1"),
    "GET /api": (200, 200, "v2"),
    "GET /api/v3": (404, 404, "v2"),
    "GET *": (400, 400, "v2"),
}
"""Requests, their status until the sunset and after it, and the version that serves them."""


@pytest.mark.parametrize("after", [False, True], ids=["deprecated", "sunset"])
@pytest.mark.parametrize(("request_", "served"), SERVED.items(), ids=SERVED)
def test_a_response_names_the_version_that_served_it_and_only_v1_signals_an_end(
    two: Flask, clock: FrozenDateTimeFactory, request_: str, served: tuple[int, int, str], *, after: bool
) -> None:
    if after:
        clock.move_to("2026-06-30")

    response = ask(two, request_)

    state = read_state(response.status_code, [*response.headers])
    assert (response.status_code, response.headers["API-Version"]) == (served[after], served[2])
    assert (state.sunset is not None) == Row(request_, 0).is_under_v1


ANSWERS: dict[str, tuple[str, Any]] = {
    "GET /api?section=versions": (
        "data.versions",
        {"current": "v2", "supported": ["v1", "v2"], "deprecated": ["v1"], "index": "http://localhost/api/v2"},
    ),
    "GET /api?section=contact": ("data.contact.url", "http://localhost/api/v2/contact"),
    "GET /api?section=docs": ("data.docs.health", "http://localhost/api/v2/health"),
    "GET /api/versioning": ("data.supported", ["v1", "v2"]),
    "GET /api/versioning?version=v1": ("data", ENDING | {"status": "deprecated"}),
    "GET /api/versioning?version=v2": ("data", NO_END | {"version": "v2", "base_path": "/api/v2"}),
    "GET /api/versioning?version=v3": ("error.allowed_values", ["v1", "v2"]),
    "GET /api/v3": ("error.details.supported", ["v1", "v2"]),
}


@pytest.mark.parametrize(("request_", "expected"), ANSWERS.items(), ids=ANSWERS)
def test_the_index_and_the_errors_know_both(two: Flask, request_: str, expected: tuple[str, Any]) -> None:
    path, value = expected

    assert member(ask(two, request_).json, path) == value
