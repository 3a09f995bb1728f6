"""The life of a version: when v1 ends, and v1 beside the next one (tests/api/exchanges.py has v1 on its way)."""

import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from werkzeug.test import Client, TestResponse

from app.api.endpoints import Endpoint, create_version_blueprint
from app.versions import Lifecycle, Version, Versions
from tests.api.exchanges import Row, member, send
from tests.conftest import MakeApp
from tests.factories import make_settings
from tests.fuzz.inspection import read_state
from tests.versions import FIRST, PUBLISHED
from tools import ROOT, pages

LATER = [*PUBLISHED][1:]
"""The versions after v1."""
NEXT = Version("v77", None)
"""One that is not published yet."""
SUCCESSOR = "https://www.example.com/api/v2"
ANNOUNCED = {"API_V1_DEPRECATED_ON": "2026-01-01", "API_V1_SUNSET_ON": "2026-06-30", "API_V1_SUCCESSOR": SUCCESSOR}
ENDS = {
    ("Deprecation", "true"),
    ("Sunset", "Tue, 30 Jun 2026 00:00:00 GMT"),
    ("Link", f'<{SUCCESSOR}>; rel="successor-version"'),
}
"""What a response signals of the end of its version."""
ENDING = {
    "version": "v1",
    "base_path": "/api/v1",
    "deprecated_on": "2026-01-01",
    "sunset_on": "2026-06-30",
    "successor": SUCCESSOR,
}
NO_END = dict.fromkeys(("deprecated_on", "sunset_on", "successor"))
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
    assert [each["supported"] for each in listed] == [LATER if status == "sunset" else [*PUBLISHED]] * 2
    assert [each["deprecated"] for each in listed] == [["v1"] if status == "deprecated" else []] * 2


def test_every_version_is_registered() -> None:
    modules = {path.stem for path in (ROOT / "app" / "api").glob("v[0-9]*.py")}

    assert modules == PUBLISHED.keys(), "VERSIONS in app/__init__.py"


def test_the_settings_end_v1_alone(tmp_path: Path) -> None:
    versions = Versions.from_settings(make_settings(tmp_path, **ANNOUNCED), ["v1", "v77"])

    assert [version.lifecycle is None for version in versions.values()] == [False, True]


@pytest.fixture
def two(make_app: MakeApp, clock: FrozenDateTimeFactory) -> Flask:
    """The service with v1, which ends, and another one, on the day of the deprecation."""
    clock.move_to("2026-01-01")
    ending = replace(FIRST, lifecycle=Lifecycle(date(2026, 1, 1), date(2026, 6, 30), SUCCESSOR))
    contact = Endpoint("POST", "/contact", "Recibe formularios.", lambda: {"ok": True, "message": "Recibido."})
    app = make_app(collaborators={"versions": Versions(*(PUBLISHED | {"v1": ending}).values(), NEXT)})
    app.register_blueprint(create_version_blueprint(NEXT, contact))
    return app


SERVED: dict[str, tuple[int, int, str]] = {
    "GET /api/v77": (200, 200, "v77"),
    "POST /api/v77/contact": (200, 200, "v77"),
    "GET /api/v77/x": (404, 404, "v77"),
    "OPTIONS /api/v77/contact": (204, 204, "v77"),
    "GET /api/v1": (200, 410, "v1"),
    "POST /contact.php": (400, 400, "v1"),
    "GET /api": (200, 200, "v77"),
    "GET /api/v78": (404, 404, "v77"),
    "GET *": (400, 400, "v77"),
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
    assert (state.sunset is not None) == (Row(request_, 0).version is FIRST)


KNOWN = [*PUBLISHED, "v77"]
ANSWERS: dict[str, tuple[str, Any]] = {
    "GET /api?section=versions": (
        "data.versions",
        {"current": "v77", "supported": KNOWN, "deprecated": ["v1"], "index": "http://localhost/api/v77"},
    ),
    "GET /api?section=contact": ("data.contact.url", "http://localhost/api/v77/contact"),
    "GET /api?section=docs": ("data.docs.health", "http://localhost/api/v77/health"),
    "GET /api/versioning": ("data.supported", KNOWN),
    "GET /api/versioning?version=v1": ("data", ENDING | {"status": "deprecated"}),
    "GET /api/versioning?version=v77": (
        "data",
        NO_END | {"version": "v77", "status": "current", "base_path": "/api/v77"},
    ),
    "GET /api/versioning?version=v78": ("error.allowed_values", KNOWN),
    "GET /api/v77": ("data.version", "v77"),
    "GET /api/v78": ("error.details.supported", KNOWN),
}


@pytest.mark.parametrize(("request_", "expected"), ANSWERS.items(), ids=ANSWERS)
def test_the_index_and_the_errors_know_both(two: Flask, request_: str, expected: tuple[str, Any]) -> None:
    path, value = expected

    assert member(ask(two, request_).json, path) == value


OF_NGINX = {
    **dict.fromkeys(("/api", "/api/v78", "/api/v1x", "/contact.php/x", "/"), "v78"),
    **dict.fromkeys(("/api/v77", "/api/v77/contact", "/api/v77?x"), "v77"),
    **dict.fromkeys(("/api/v1", "/api/v1/x?y", "/contact.php", "/contact.php?x"), "v1"),
}
"""Targets, and the version that nginx's own errors name: the last one is current."""


@pytest.mark.parametrize(("target", "version"), OF_NGINX.items())
def test_nginx_names_the_version_of_a_path(target: str, version: str) -> None:
    text = (ROOT / "deploy" / "nginx" / "snippets" / "http.conf").read_text()

    written = pages.nginx_maps(text, Versions(FIRST, NEXT, Version("v78", None)))

    rows = re.findall(r"\$public_web_interface_version {\n +default (\w+);\n((?: .*\n)+)}", written)
    [(default, others)] = rows
    found = [name for pattern, name in re.findall(r'"~(.*)" (\w+);', others) if re.search(pattern, target)]
    assert (found or [default]) == [version]
