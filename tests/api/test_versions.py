"""The life of a version: v1 on its way to the end, alone and beside a second one."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from flask import Blueprint, Flask
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from werkzeug.test import Client, TestResponse

from app.versions import Lifecycle, Version, Versions
from tests.api.exchanges import NO_END, PREFLIGHT, Row, member, send, usual
from tests.api.fields import assert_contract, signals
from tests.conftest import MakeApp, MakeClient
from tests.factories import API_QUOTA
from tests.fakes import RecordingMailer

SUCCESSOR = "https://www.example.com/api/v2"
ANNOUNCED = {
    "API_V1_DEPRECATED_ON": "2026-01-01",
    "API_V1_SUNSET_ON": "2026-06-30",
    "API_V1_SUCCESSOR": SUCCESSOR,
}
SIGNALS = {
    "Deprecation": "true",
    "Sunset": "Tue, 30 Jun 2026 00:00:00 GMT",
    "Link": f'<{SUCCESSOR}>; rel="successor-version"',
}
ENDING = {
    "version": "v1",
    "status": "deprecated",
    "base_path": "/api/v1",
    "deprecated_on": "2026-01-01",
    "sunset_on": "2026-06-30",
    "successor": SUCCESSOR,
}
STAYING = NO_END | {"version": "v2", "base_path": "/api/v2"}
MOMENTS = {
    "2025-06-01T12:00:00": "current",
    "2025-12-31T23:59:59.999999": "current",
    "2026-01-01T00:00:00": "deprecated",
    "2026-06-29T23:59:59.999999": "deprecated",
    "2026-06-30T00:00:00": "sunset",
    "2036-01-01T00:00:00": "sunset",
}
"""Long before, the last and the first moment of each state, and long after."""
REQUESTS: dict[str, tuple[int, int]] = {
    "GET /api/v1": (200, 410),
    "HEAD /api/v1/health": (200, 410),
    "POST /api/v1/contact": (200, 410),
    "PUT /api/v1/contact": (405, 410),
    "GET /api/v1?method=PUT": (400, 410),
    "GET /api/v1/nothing": (404, 410),
    "GET /api/v1/": (404, 410),
    "OPTIONS /api/v1": (204, 204),
    "OPTIONS /api/v1/contact": (204, 204),
    "OPTIONS /api/v1/nothing": (404, 410),
    "POST /contact.php": (200, 200),
    "OPTIONS /contact.php": (204, 204),
    "GET /api": (200, 200),
    "GET /api/versioning": (200, 200),
    "GET /openapi.json": (200, 200),
    "GET /api/v10": (404, 404),
    "GET /api/v1x": (404, 404),
    "GET /v1": (404, 404),
}
"""Requests, and what they are answered until the sunset and after it."""


def ask(app: Flask, request: str) -> TestResponse:
    """Asks as a client does; the app's own test client takes only what the document describes."""
    return send(Client(app), Row(request, 0))


def data(app: Flask, target: str) -> dict[str, Any]:
    answered: Any = ask(app, f"GET {target}").json
    found: dict[str, Any] = answered["data"]
    return found


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("request_", "statuses"), REQUESTS.items(), ids=REQUESTS)
def test_a_response_under_v1_signals_its_end_and_no_other_does(
    make_client: MakeClient,
    mailer: RecordingMailer,
    clock: FrozenDateTimeFactory,
    request_: str,
    statuses: tuple[int, int],
    moment: str,
) -> None:
    clock.move_to("2025-01-01")
    client = make_client(**ANNOUNCED)
    row = usual(request_)._replace(headers=PREFLIGHT)
    clock.move_to(moment)

    response = send(client, row)

    assert response.status_code == statuses[MOMENTS[moment] == "sunset"]
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    if response.status_code == 410 and row.method != "HEAD":
        assert response.get_json()["error"]["code"] == "api_version_sunset"
    assert signals(response) == (SIGNALS if row.is_under_v1 and MOMENTS[moment] != "current" else {})
    assert ("Allow" in response.headers) == (response.status_code in {204, 405})
    assert len(mailer.messages) == (row.method == "POST" and response.status_code == 200)


@pytest.mark.parametrize(("moment", "status"), MOMENTS.items())
@pytest.mark.parametrize("hours_from_utc", [-11, 0, 13])
def test_the_index_and_the_policy_say_where_v1_stands_wherever_the_server_does(
    make_app: MakeApp, moment: str, status: str, hours_from_utc: int
) -> None:
    with freeze_time(moment, tz_offset=hours_from_utc):
        app = make_app(**ANNOUNCED)
        state = data(app, "/api/versioning?version=v1")
        listed = [data(app, "/api/versioning"), data(app, "/api")["versions"]]

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
    blueprint.get("/health", endpoint="health")(lambda: {"ok": True, "data": {"version": "v2", "status": "ok"}})
    blueprint.post("/contact", endpoint="contact")(lambda: ({"ok": True, "message": "Recibido."}, 202))
    app = make_app(collaborators={"versions": Versions(ending, current)})
    app.register_blueprint(blueprint)
    return app


SERVED: dict[str, tuple[int, int, str]] = {
    "GET /api/v2": (200, 200, "v2"),
    "HEAD /api/v2/health": (200, 200, "v2"),
    "POST /api/v2/contact": (202, 202, "v2"),
    "GET /api/v2/x": (404, 404, "v2"),
    "GET /api/v2/": (404, 404, "v2"),
    "DELETE /api/v2/contact": (405, 405, "v2"),
    "OPTIONS /api/v2/contact": (204, 204, "v2"),
    "GET /api/v1": (200, 410, "v1"),
    "GET /api/v1?method=x": (400, 410, "v1"),
    "POST /api/v1/contact": (400, 410, "v1"),
    "GET /api/v1/x": (404, 410, "v1"),
    "DELETE /api/v1": (405, 410, "v1"),
    "OPTIONS /api/v1": (204, 204, "v1"),
    "POST /contact.php": (400, 400, "v1"),
    "GET /contact.php": (405, 405, "v1"),
    "OPTIONS /contact.php": (204, 204, "v1"),
    "GET /api": (200, 200, "v2"),
    "OPTIONS /api": (204, 204, "v2"),
    "GET /api/versioning": (200, 200, "v2"),
    "GET /api/versioning?version=v3": (400, 400, "v2"),
    "GET /openapi.json": (200, 200, "v2"),
    "GET /api/x": (404, 404, "v2"),
    "GET /api/v3": (404, 404, "v2"),
    "GET /api/v1x": (404, 404, "v2"),
    "GET /x": (404, 404, "v2"),
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

    row = Row(request_, 0)
    caching = response.headers["Cache-Control"] if row.path == "/openapi.json" else "no-store"
    assert response.status_code == served[after]
    assert_contract(response, API_Version=served[2], Cache_Control=caching)
    assert signals(response) == (SIGNALS if row.is_under_v1 else {})


ANSWERS: dict[str, tuple[str, Any]] = {
    "GET /api?section=versions": (
        "data.versions",
        {"current": "v2", "supported": ["v1", "v2"], "deprecated": ["v1"], "index": "http://localhost/api/v2"},
    ),
    "GET /api?section=contact": ("data.contact.url", "http://localhost/api/v2/contact"),
    "GET /api?section=contact&x": ("data.contact.legacy_url", "http://localhost/contact.php"),
    "GET /api?section=docs": ("data.docs.health", "http://localhost/api/v2/health"),
    "GET /api?section=docs&x": ("data.docs.endpoints", "http://localhost/api/v2"),
    "GET /api": ("data.current_version", "v2"),
    "GET /api/versioning": ("data.supported", ["v1", "v2"]),
    "GET /api/versioning?version=v1": ("data", ENDING),
    "GET /api/versioning?version=v2": ("data", STAYING),
    "GET /api/versioning?version=v3": ("error.allowed_values", ["v1", "v2"]),
    "GET /api/v3": ("error.details.supported", ["v1", "v2"]),
    "GET /api/v20": ("error.code", "unsupported_api_version"),
    "GET /api/v2/x": ("error.code", "endpoint_not_found"),
}


@pytest.mark.parametrize(("request_", "expected"), ANSWERS.items(), ids=ANSWERS)
def test_the_index_and_the_errors_know_both(two: Flask, request_: str, expected: tuple[str, Any]) -> None:
    path, value = expected

    assert member(ask(two, request_).json, path) == value


def test_every_address_that_the_index_names_answers(two: Flask) -> None:
    index = data(two, "/api")
    named = {index["openapi"], *index["docs"].values(), index["versions"]["index"], index["versioning"]["policy"]}

    statuses = {ask(two, f"GET {address.removeprefix('http://localhost')}").status_code for address in named}

    assert statuses == {200}


def test_a_preflight_of_the_second_is_granted(two: Flask) -> None:
    headers = {"Origin": "https://www.example.com", "Access-Control-Request-Method": "POST"}

    response = Client(two).options("/api/v2/contact", headers=headers)

    assert response.headers["Access-Control-Allow-Methods"] == "OPTIONS, POST"
    assert response.headers["Allow"] == "POST, OPTIONS"


def test_both_versions_spend_one_quota(two: Flask) -> None:
    paths = ["/api/v1/health", "/api/v2/health"]

    remaining = [ask(two, f"GET {paths[number % 2]}").headers["X-RateLimit-Remaining"] for number in range(60)]

    assert remaining == [str(left) for left in reversed(range(API_QUOTA.quota))]
    assert [ask(two, f"GET {path}").headers["API-Version"] for path in paths] == ["v1", "v2"]
    assert [ask(two, f"GET {path}").status_code for path in paths] == [429, 429]


def test_what_was_answered_before_is_not_answered_after(two: Flask, clock: FrozenDateTimeFactory) -> None:
    """Bodies that are kept to be answered again change with the date."""
    seen, others = [], []
    for moment in MOMENTS:
        clock.move_to(moment)
        policy, index = data(two, "/api/versioning"), data(two, "/api")["versions"]
        assert data(two, "/api?section=versions")["versions"] == index
        assert (policy["supported"], policy["deprecated"]) == (index["supported"], index["deprecated"])
        assert member(ask(two, "GET /api/v3").json, "error.details.supported") == index["supported"]
        assert ask(two, "GET /api/v2").status_code == 200
        others.append([data(two, "/api")[name] for name in ("rate_limit", "versioning", "contact")])
        seen.append((ask(two, "GET /api/v1").status_code, index["supported"], index["deprecated"]))

    assert others == others[:1] * len(others)
    both, none = ["v1", "v2"], list[str]()
    assert seen == [*[(200, both, none)] * 2, *[(200, both, ["v1"])] * 2, *[(410, ["v2"], none)] * 2]


def test_the_alias_outlives_the_first_version(two: Flask, clock: FrozenDateTimeFactory) -> None:
    clock.move_to("2026-06-30")

    assert send(Client(two), usual("POST /contact.php")).status_code == 200


def test_one_version_alone_is_current(make_app: MakeApp) -> None:
    app = make_app(collaborators={"versions": Versions(Version("v1", None))})

    assert data(app, "/api/versioning")["supported"] == ["v1"]
    assert ask(app, "GET /x").headers["API-Version"] == "v1"
