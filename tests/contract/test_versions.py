"""A second version beside the first, mounted by the ordinary means of the factory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from flask import Blueprint, Flask
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from werkzeug.test import Client, TestResponse

from app.versions import Lifecycle, Version, Versions
from tests.api.fields import assert_contract, signals
from tests.conftest import MakeApp
from tests.factories import API_QUOTA, contact_body

BEFORE, DEPRECATED, SUNSET = "2029-12-31T23:59:59", "2030-01-01", "2030-12-31"
LAST_SECOND = "2030-12-30T23:59:59"

SIGNALS = {
    "Deprecation": "true",
    "Sunset": "Tue, 31 Dec 2030 00:00:00 GMT",
    "Link": '</api/v2>; rel="successor-version"',
}


@pytest.fixture(scope="module")
def frozen() -> Iterator[FrozenDateTimeFactory]:
    """Held for all tests of this module, because to freeze the time takes longer than most of them."""
    with freeze_time(DEPRECATED) as clock:
        assert isinstance(clock, FrozenDateTimeFactory)
        yield clock


@pytest.fixture
def clock(frozen: FrozenDateTimeFactory) -> FrozenDateTimeFactory:
    frozen.move_to(DEPRECATED)
    return frozen


@pytest.fixture
def app(make_app: MakeApp, clock: FrozenDateTimeFactory) -> Flask:  # noqa: ARG001 - the app is made on the first day
    """The service with v1, which ends, and a small v2, on the day of the deprecation."""
    ending = Version("v1", Lifecycle(date(2030, 1, 1), date(2030, 12, 31), "/api/v2"))
    current = Version("v2", None)
    blueprint = Blueprint("v2", __name__, url_prefix=current.base_path)
    blueprint.get("")(lambda: {"ok": True, "data": {"version": "v2"}})
    blueprint.get("/health", endpoint="health")(lambda: {"ok": True, "data": {"version": "v2", "status": "ok"}})
    blueprint.post("/contact", endpoint="contact")(lambda: ({"ok": True, "message": "Recibido."}, 202))
    app = make_app(collaborators={"versions": Versions(ending, current)})
    app.register_blueprint(blueprint)
    return app


def ask(app: Flask, path: str, method: str = "GET", **options: Any) -> TestResponse:
    """Asks as a client does; the app's own test client takes only what the document describes."""
    return Client(app).open(path, method=method, **options)


def data(app: Flask, path: str) -> dict[str, Any]:
    answered: Any = ask(app, path).json
    found: dict[str, Any] = answered["data"]
    return found


def error(response: TestResponse) -> dict[str, Any]:
    answered: Any = response.json
    found: dict[str, Any] = answered["error"]
    return found


SERVED: dict[str, tuple[str, str, int, str]] = {
    "v2": ("GET", "/api/v2", 200, "v2"),
    "its health": ("GET", "/api/v2/health", 200, "v2"),
    "HEAD of its health": ("HEAD", "/api/v2/health", 200, "v2"),
    "its contact": ("POST", "/api/v2/contact", 202, "v2"),
    "unknown below v2": ("GET", "/api/v2/x", 404, "v2"),
    "v2 with a slash": ("GET", "/api/v2/", 404, "v2"),
    "wrong method of v2": ("DELETE", "/api/v2/contact", 405, "v2"),
    "OPTIONS of v2": ("OPTIONS", "/api/v2/contact", 204, "v2"),
    "v1": ("GET", "/api/v1", 200, "v1"),
    "health of v1": ("GET", "/api/v1/health", 200, "v1"),
    "wrong parameter of v1": ("GET", "/api/v1?method=x", 400, "v1"),
    "empty contact of v1": ("POST", "/api/v1/contact", 400, "v1"),
    "unknown below v1": ("GET", "/api/v1/x", 404, "v1"),
    "wrong method of v1": ("DELETE", "/api/v1", 405, "v1"),
    "OPTIONS of v1": ("OPTIONS", "/api/v1", 204, "v1"),
    "alias of v1": ("POST", "/contact.php", 400, "v1"),
    "wrong method of the alias": ("GET", "/contact.php", 405, "v1"),
    "OPTIONS of the alias": ("OPTIONS", "/contact.php", 204, "v1"),
    "index": ("GET", "/api", 200, "v2"),
    "OPTIONS of the index": ("OPTIONS", "/api", 204, "v2"),
    "policy": ("GET", "/api/versioning", 200, "v2"),
    "document": ("GET", "/openapi.json", 200, "v2"),
    "unknown endpoint": ("GET", "/api/x", 404, "v2"),
    "unknown version": ("GET", "/api/v3", 404, "v2"),
    "a name that only begins so": ("GET", "/api/v1x", 404, "v2"),
    "unknown path": ("GET", "/x", 404, "v2"),
    "no path": ("GET", "*", 400, "v2"),
}
"""Requests, their status and the version that serves them."""

requests = pytest.mark.parametrize(("method", "path", "status", "version"), SERVED.values(), ids=SERVED)


@requests
def test_a_response_names_the_version_that_served_it(
    app: Flask, method: str, path: str, status: int, version: str
) -> None:
    response = ask(app, "/", method, environ_overrides={"PATH_INFO": path.partition("?")[0]}, query_string=query(path))

    assert response.status_code == status
    caching = response.headers["Cache-Control"] if path == "/openapi.json" else "no-store"
    assert_contract(response, API_Version=version, Cache_Control=caching)


def query(path: str) -> str:
    return path.partition("?")[2]


@requests
def test_the_version_that_ends_signals_it_and_no_other(
    app: Flask, method: str, path: str, status: int, version: str
) -> None:
    response = ask(app, "/", method, environ_overrides={"PATH_INFO": path.partition("?")[0]}, query_string=query(path))

    assert (response.status_code, response.headers["API-Version"]) == (status, version)
    ends = path.partition("?")[0] == "/api/v1" or path.startswith("/api/v1/")
    assert signals(response) == (SIGNALS if ends else {})


def test_an_error_of_its_own_is_in_the_envelope(app: Flask) -> None:
    unknown, refused = ask(app, "/api/v2/x"), ask(app, "/api/v2", "POST")

    assert error(unknown)["code"] == "endpoint_not_found"
    assert error(refused)["code"] == "method_not_allowed"
    assert refused.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_a_preflight_is_granted(app: Flask) -> None:
    response = ask(
        app,
        "/api/v2/contact",
        "OPTIONS",
        headers={"Origin": "https://www.example.com", "Access-Control-Request-Method": "POST"},
    )

    assert response.headers["Allow"] == "POST, OPTIONS"
    assert set(response.headers["Access-Control-Allow-Methods"].split(", ")) == {"POST", "OPTIONS"}


def test_the_index_leads_to_the_current_version(app: Flask) -> None:
    index = data(app, "/api")

    assert index["current_version"] == "v2"
    assert index["versions"] == {
        "current": "v2",
        "supported": ["v1", "v2"],
        "deprecated": ["v1"],
        "index": "http://localhost/api/v2",
    }
    assert index["contact"]["url"] == "http://localhost/api/v2/contact"
    assert index["contact"]["legacy_url"] == "http://localhost/contact.php"
    assert index["docs"]["endpoints"] == "http://localhost/api/v2"
    assert index["docs"]["health"] == "http://localhost/api/v2/health"


def test_every_address_that_the_index_names_answers(app: Flask) -> None:
    index = data(app, "/api")

    for address in {index["openapi"], *index["docs"].values(), index["versions"]["index"]}:
        assert ask(app, address.removeprefix("http://localhost")).status_code == 200
    assert ask(app, index["contact"]["url"].removeprefix("http://localhost"), "POST").status_code == 202


def test_the_policy_knows_both(app: Flask) -> None:
    policy = data(app, "/api/versioning")

    assert policy["current_version"] == "v2"
    assert policy["supported"] == ["v1", "v2"]
    assert policy["deprecated"] == ["v1"]


def test_the_state_of_each_can_be_asked(app: Flask) -> None:
    assert data(app, "/api/versioning?version=v1") == {
        "version": "v1",
        "status": "deprecated",
        "base_path": "/api/v1",
        "deprecated_on": "2030-01-01",
        "sunset_on": "2030-12-31",
        "successor": "/api/v2",
    }
    assert data(app, "/api/versioning?version=v2") == {
        "version": "v2",
        "status": "current",
        "base_path": "/api/v2",
        "deprecated_on": None,
        "sunset_on": None,
        "successor": None,
    }


def test_no_third_one_can_be_asked_for(app: Flask) -> None:
    response = ask(app, "/api/versioning?version=v3")

    assert response.status_code == 400
    assert error(response)["code"] == "invalid_parameter"
    assert error(response)["allowed_values"] == ["v1", "v2"]


@pytest.mark.parametrize("path", ["/api/v3", "/api/v3/health", "/api/v20"])
def test_a_version_that_never_was_is_told_what_is(app: Flask, path: str) -> None:
    response = ask(app, path)

    assert response.status_code == 404
    assert error(response)["code"] == "unsupported_api_version"
    assert error(response)["details"] == {"supported": ["v1", "v2"]}


def test_after_the_sunset_the_first_is_gone_and_the_second_serves(app: Flask, clock: FrozenDateTimeFactory) -> None:
    clock.move_to(SUNSET)

    gone = [ask(app, "/api/v1"), ask(app, "/api/v1/health"), ask(app, "/api/v1/contact", "POST"), ask(app, "/api/v1/x")]
    served = [ask(app, "/api/v2"), ask(app, "/api/v2/health"), ask(app, "/api"), ask(app, "/openapi.json")]

    assert [response.status_code for response in gone] == [410] * 4
    assert {error(response)["code"] for response in gone} == {"api_version_sunset"}
    assert {response.headers["API-Version"] for response in gone} == {"v1"}
    for response in gone:
        assert {name: response.headers[name] for name in SIGNALS} == SIGNALS
    assert [response.status_code for response in served] == [200] * 4
    assert {response.headers["API-Version"] for response in served} == {"v2"}


def test_the_alias_outlives_the_first_version(app: Flask, clock: FrozenDateTimeFactory) -> None:
    clock.move_to(SUNSET)

    assert ask(app, "/contact.php", "POST", json=contact_body()).status_code == 200


def test_what_was_answered_before_is_not_answered_after(app: Flask, clock: FrozenDateTimeFactory) -> None:
    """Bodies that are kept to be answered again change with the date."""
    seen = []
    for moment in (BEFORE, DEPRECATED, LAST_SECOND, SUNSET, BEFORE):
        clock.move_to(moment)
        policy, index = data(app, "/api/versioning"), data(app, "/api")["versions"]
        state = data(app, "/api/versioning?version=v1")["status"]
        section = data(app, "/api?section=versions")["versions"]
        supported = error(ask(app, "/api/v3"))["details"]["supported"]
        assert index == section
        assert policy["supported"] == index["supported"] == supported
        assert policy["deprecated"] == index["deprecated"]
        seen.append((state, supported, policy["deprecated"]))

    assert seen == [
        ("current", ["v1", "v2"], []),
        ("deprecated", ["v1", "v2"], ["v1"]),
        ("deprecated", ["v1", "v2"], ["v1"]),
        ("sunset", ["v2"], []),
        ("current", ["v1", "v2"], []),
    ]


def test_both_versions_spend_one_quota(app: Flask) -> None:
    paths = ["/api/v1/health", "/api/v2/health"]

    states = [ask(app, paths[number % 2]) for number in range(API_QUOTA.quota)]
    refused = [ask(app, path) for path in paths]

    assert [int(response.headers["X-RateLimit-Remaining"]) for response in states] == [
        *reversed(range(API_QUOTA.quota))
    ]
    assert [(response.status_code, response.headers["API-Version"]) for response in refused] == [
        (429, "v1"),
        (429, "v2"),
    ]


def test_one_version_alone_is_current(make_app: MakeApp) -> None:
    app = make_app(collaborators={"versions": Versions(Version("v1", None))})

    assert data(app, "/api/versioning")["supported"] == ["v1"]
    assert ask(app, "/api/v1").headers["API-Version"] == "v1"
    assert ask(app, "/x").headers["API-Version"] == "v1"
