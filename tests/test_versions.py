"""The life cycle of v1, as clients see it: current, deprecated, sunset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from werkzeug.test import TestResponse

from tests.api.fields import SERVICE_DESC, signals
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import contact_body
from tests.fakes import RecordingMailer

SUCCESSOR = "https://www.example.com/api/v2"
ANNOUNCED = {
    "API_V1_DEPRECATED_ON": "2026-01-01",
    "API_V1_SUNSET_ON": "2026-06-30",
    "API_V1_SUCCESSOR": SUCCESSOR,
}

BEFORE_ALL = "2025-06-01 12:00:00"
LAST_CURRENT = "2025-12-31 23:59:59.999999"
FIRST_DEPRECATED = "2026-01-01 00:00:00"
LAST_DEPRECATED = "2026-06-29 23:59:59.999999"
FIRST_SUNSET = "2026-06-30 00:00:00"
LONG_SUNSET = "2036-01-01 00:00:00"

SIGNALS = {
    "Deprecation": "true",
    "Sunset": "Tue, 30 Jun 2026 00:00:00 GMT",
    "Link": f'<{SUCCESSOR}>; rel="successor-version"',
}


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[FrozenDateTimeFactory]:
    """The clock of this module. It is stopped once, because that takes as long as ten requests."""
    with freeze_time(BEFORE_ALL) as frozen:
        assert isinstance(frozen, FrozenDateTimeFactory)
        yield frozen


@pytest.fixture(autouse=True)
def clock(frozen: FrozenDateTimeFactory) -> FrozenDateTimeFactory:
    """The clock of a test, which stands before all announcements when the test begins."""
    frozen.move_to(BEFORE_ALL)
    return frozen


@pytest.fixture
def announced(make_client: MakeClient) -> ValidatingClient:
    """A client of a service that started before the deprecation it announces, on a clock that tests move."""
    return make_client(**ANNOUNCED)


def error_code(response: TestResponse) -> str:
    assert response.json is not None
    return str(response.json["error"]["code"])


def data(client: ValidatingClient, url: str) -> dict[str, Any]:
    response = client.get(url)
    assert response.status_code == 200
    assert response.json is not None
    result: dict[str, Any] = response.json["data"]
    return result


UNDER_V1: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "index": ("GET", "/api/v1", {}, 200),
    "health": ("GET", "/api/v1/health", {}, 200),
    "HEAD": ("HEAD", "/api/v1/health", {}, 200),
    "accepted submission": ("POST", "/api/v1/contact", {"json": "valid"}, 200),
    "invalid body": ("POST", "/api/v1/contact", {"data": b"{", "content_type": "application/json"}, 400),
    "invalid parameter": ("GET", "/api/v1?method=PUT", {}, 400),
    "unknown path": ("GET", "/api/v1/nothing", {}, 404),
    "trailing slash": ("GET", "/api/v1/", {}, 404),
    "wrong method": ("DELETE", "/api/v1/health", {}, 405),
    "wrong method on contact": ("GET", "/api/v1/contact", {}, 405),
}
PREFLIGHT = {"Origin": "https://www.example.com", "Access-Control-Request-Method": "POST"}
OUTSIDE_V1 = {
    "API index": ("GET", "/api"),
    "versioning": ("GET", "/api/versioning"),
    "document": ("GET", "/openapi.json"),
    "legacy path": ("OPTIONS", "/contact.php"),
    "a version that only begins like v1": ("GET", "/api/v10"),
    "a path that only begins like v1": ("GET", "/api/v1x"),
    "unknown API path": ("GET", "/api/nothing"),
    "unknown path": ("GET", "/v1"),
}
under_v1 = pytest.mark.parametrize(("method", "url", "request_", "status"), UNDER_V1.values(), ids=UNDER_V1)
outside_v1 = pytest.mark.parametrize(("method", "url"), OUTSIDE_V1.values(), ids=OUTSIDE_V1)
preflighted = pytest.mark.parametrize("url", ["/api/v1", "/api/v1/health", "/api/v1/contact"])


def send(client: ValidatingClient, method: str, url: str, request: dict[str, Any]) -> TestResponse:
    if request.get("json") == "valid":
        request = {"json": contact_body()}
    return client.open(url, method=method, **request)


class TestWithoutAnnouncement:
    @pytest.fixture(autouse=True)
    def _long_after_any_announcement(self, clock: FrozenDateTimeFactory) -> None:
        clock.move_to(LONG_SUNSET)

    @under_v1
    def test_no_response_signals_anything(
        self, method: str, url: str, request_: dict[str, Any], status: int, client: ValidatingClient
    ) -> None:
        response = send(client, method, url, request_)

        assert response.status_code == status
        assert signals(response) == {}

    def test_v1_is_current_without_dates(self, client: ValidatingClient) -> None:
        assert data(client, "/api/versioning?version=v1") == {
            "version": "v1",
            "status": "current",
            "base_path": "/api/v1",
            "deprecated_on": None,
            "sunset_on": None,
            "successor": None,
        }


class TestBeforeTheDeprecation:
    @pytest.mark.parametrize("moment", [BEFORE_ALL, LAST_CURRENT])
    @under_v1
    def test_responses_are_as_ever(
        self,
        method: str,
        url: str,
        request_: dict[str, Any],
        status: int,
        moment: str,
        announced: ValidatingClient,
        clock: FrozenDateTimeFactory,
    ) -> None:
        clock.move_to(moment)

        response = send(announced, method, url, request_)

        assert response.status_code == status
        assert signals(response) == {}


@pytest.mark.parametrize("moment", [FIRST_DEPRECATED, LAST_DEPRECATED])
class TestDeprecated:
    @under_v1
    def test_every_response_under_v1_signals_it_and_is_otherwise_as_ever(
        self,
        method: str,
        url: str,
        request_: dict[str, Any],
        status: int,
        moment: str,
        announced: ValidatingClient,
        clock: FrozenDateTimeFactory,
    ) -> None:
        clock.move_to(moment)

        response = send(announced, method, url, request_)

        assert response.status_code == status
        assert signals(response) == SIGNALS

    def test_a_spent_contact_quota_signals_it(
        self, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)
        announced.post("/api/v1/contact", json=contact_body())

        response = announced.post("/api/v1/contact", json=contact_body())

        assert error_code(response) == "rate_limit"
        assert signals(response) == SIGNALS

    def test_a_spent_api_quota_signals_it(
        self, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)
        for _ in range(60):
            announced.get("/api")

        response = announced.get("/api/v1")

        assert error_code(response) == "rate_limit_exceeded"
        assert signals(response) == SIGNALS

    def test_a_failed_delivery_signals_it(
        self, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory, mailer: RecordingMailer
    ) -> None:
        clock.move_to(moment)
        mailer.broken = True

        response = announced.post("/api/v1/contact", json=contact_body())

        assert error_code(response) == "mail_delivery_failed"
        assert signals(response) == SIGNALS

    @preflighted
    def test_a_preflight_signals_it(
        self, url: str, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)

        response = announced.options(url, headers=PREFLIGHT)

        assert response.status_code == 204
        assert signals(response) == SIGNALS

    @outside_v1
    def test_nothing_outside_v1_signals_it(
        self, method: str, url: str, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)

        response = announced.open(url, method=method)

        assert signals(response) == {}


@pytest.mark.parametrize("moment", [FIRST_SUNSET, LONG_SUNSET])
class TestSunset:
    @under_v1
    def test_all_of_v1_answers_410_and_names_the_successor(
        self,
        method: str,
        url: str,
        request_: dict[str, Any],
        status: int,
        moment: str,
        announced: ValidatingClient,
        clock: FrozenDateTimeFactory,
        mailer: RecordingMailer,
    ) -> None:
        clock.move_to(moment)

        response = send(announced, method, url, request_)

        assert response.status_code == 410 != status
        assert method == "HEAD" or error_code(response) == "api_version_sunset"
        assert "Allow" not in response.headers
        assert signals(response) == SIGNALS
        assert mailer.messages == []

    @preflighted
    def test_options_still_answers_204(
        self, url: str, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)

        response = announced.options(url, headers=PREFLIGHT)

        assert response.status_code == 204
        assert response.data == b""
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert "OPTIONS" in response.headers["Allow"]
        assert signals(response) == SIGNALS

    def test_options_on_a_path_that_never_existed_answers_410(
        self, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)

        response = announced.options("/api/v1/nothing")

        assert (response.status_code, error_code(response)) == (410, "api_version_sunset")

    def test_the_legacy_path_keeps_working(
        self, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory, mailer: RecordingMailer
    ) -> None:
        clock.move_to(moment)

        response = announced.post("/contact.php", json=contact_body())

        assert response.status_code == 200
        assert len(mailer.messages) == 1
        assert signals(response) == {}

    def test_a_refused_submission_leaves_the_contact_quota_alone(
        self, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)

        refused = announced.post("/api/v1/contact", json=contact_body())
        accepted = announced.post("/contact.php", json=contact_body())

        assert (refused.status_code, accepted.status_code) == (410, 200)
        assert refused.headers["RateLimit"] == '"default";r=1;t=30'

    def test_the_quota_comes_before_the_sunset(
        self, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        clock.move_to(moment)
        refused = [announced.get("/api/v1").status_code for _ in range(60)]

        response = announced.get("/api/v1")

        assert set(refused) == {410}
        assert error_code(response) == "rate_limit_exceeded"
        assert signals(response) == SIGNALS

    @outside_v1
    def test_everything_outside_v1_is_as_ever(
        self, method: str, url: str, moment: str, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        before = announced.open(url, method=method)
        clock.move_to(moment)

        response = announced.open(url, method=method)

        assert response.status_code == before.status_code != 410
        assert signals(response) == {}


STATES = {
    "long before": (BEFORE_ALL, "current", ["v1"], []),
    "the last moment before the deprecation": (LAST_CURRENT, "current", ["v1"], []),
    "the moment of the deprecation": (FIRST_DEPRECATED, "deprecated", ["v1"], ["v1"]),
    "the last moment before the sunset": (LAST_DEPRECATED, "deprecated", ["v1"], ["v1"]),
    "the moment of the sunset": (FIRST_SUNSET, "sunset", [], []),
    "long after": (LONG_SUNSET, "sunset", [], []),
}


class TestPolicy:
    @pytest.mark.parametrize(("moment", "status", "supported", "deprecated"), STATES.values(), ids=STATES)
    def test_it_states_where_v1_stands(
        self,
        moment: str,
        status: str,
        supported: list[str],
        deprecated: list[str],
        announced: ValidatingClient,
        clock: FrozenDateTimeFactory,
    ) -> None:
        clock.move_to(moment)

        versioning = data(announced, "/api/versioning")

        assert data(announced, "/api/versioning?version=v1") == {
            "version": "v1",
            "status": status,
            "base_path": "/api/v1",
            "deprecated_on": "2026-01-01",
            "sunset_on": "2026-06-30",
            "successor": SUCCESSOR,
        }
        assert (versioning["supported"], versioning["deprecated"]) == (supported, deprecated)
        assert (versioning["strategy"], versioning["current_version"]) == ("path", "v1")
        assert versioning["deprecation_process"]["notice_period_days"] == 180
        assert versioning["signalling"].keys() == SIGNALS.keys()

    def test_one_process_goes_through_all_states(
        self, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        for moment, status, supported, deprecated in STATES.values():
            clock.move_to(moment)

            section = data(announced, "/api?section=versions")

            assert section.keys() == {"versions"}
            assert section["versions"]["supported"] == supported
            assert section["versions"]["deprecated"] == deprecated
            assert data(announced, "/api")["versions"] == section["versions"]
            assert data(announced, "/api/versioning?version=v1")["status"] == status
            assert (announced.get("/api/v1").status_code == 410) == (status == "sunset")

    def test_the_notice_is_the_same_in_the_other_sections(
        self, announced: ValidatingClient, clock: FrozenDateTimeFactory
    ) -> None:
        before = {name: data(announced, f"/api?section={name}") for name in ("rate_limit", "versioning", "contact")}

        clock.move_to(FIRST_SUNSET)

        assert {name: data(announced, f"/api?section={name}") for name in before} == before


class TestMidnight:
    @pytest.mark.parametrize("hours_from_utc", [-11, 0, 13])
    @pytest.mark.parametrize(
        ("moment", "status"),
        [
            (LAST_CURRENT, "current"),
            (FIRST_DEPRECATED, "deprecated"),
            (LAST_DEPRECATED, "deprecated"),
            (FIRST_SUNSET, "sunset"),
        ],
    )
    def test_both_dates_begin_at_midnight_utc_wherever_the_server_stands(
        self, moment: str, status: str, hours_from_utc: int, make_client: MakeClient
    ) -> None:
        with freeze_time(moment, tz_offset=hours_from_utc):
            client = make_client(**ANNOUNCED)

            assert data(client, "/api/versioning?version=v1")["status"] == status


SUCCESSORS = {
    "URL": ("https://www.example.com/api/v2", '<https://www.example.com/api/v2>; rel="successor-version"'),
    "path": ("/api/v2", '</api/v2>; rel="successor-version"'),
}


@pytest.mark.parametrize(("successor", "link"), SUCCESSORS.values(), ids=SUCCESSORS)
def test_the_successor_is_linked_as_it_was_set(successor: str, link: str, make_client: MakeClient) -> None:
    with freeze_time(FIRST_DEPRECATED):
        client = make_client(**(ANNOUNCED | {"API_V1_SUCCESSOR": successor}))

        response = client.get("/api/v1")

        assert response.headers.getlist("Link") == [link, SERVICE_DESC]
        assert data(client, "/api/versioning?version=v1")["successor"] == successor
