"""GET /api and GET /api/versioning."""

from __future__ import annotations

from typing import Any

import pytest
from freezegun import freeze_time

from app import API_POLICY, CONTACT_POLICY
from app.ratelimit.window import Policy
from tests.client import ValidatingClient
from tests.conftest import MakeClient

SECTIONS = ["versions", "rate_limit", "versioning", "contact", "docs"]
ENDING = {
    "API_V1_DEPRECATED_ON": "2030-01-01",
    "API_V1_SUNSET_ON": "2030-12-31",
    "API_V1_SUCCESSOR": "/api/v2",
}


def stated(policy: Policy) -> dict[str, Any]:
    return {"limit": policy.quota, "window_seconds": policy.window_seconds, "scope": "ip"}


def test_the_index_holds_the_fields_of_the_specification(client: ValidatingClient) -> None:
    body = client.get("/api").get_json()

    assert body["ok"] is True
    data = body["data"]
    assert data["name"] == "Public API"
    assert data["current_version"] == "v1"
    assert data["openapi"] == "http://localhost/openapi.json"
    assert data["rate_limit"] == stated(API_POLICY)
    assert data.keys() == {"name", "current_version", "openapi", *SECTIONS}


def test_the_name_is_the_operators(make_client: MakeClient) -> None:
    response = make_client(API_NAME="Pagos Ñandú").get("/api")

    assert response.get_json()["data"]["name"] == "Pagos Ñandú"
    assert "Pagos Ñandú".encode() in response.data


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_narrows_data_to_itself(client: ValidatingClient, section: str) -> None:
    whole = client.get("/api").get_json()["data"]

    narrowed = client.get("/api", query_string={"section": section}).get_json()

    assert narrowed == {"ok": True, "data": {section: whole[section]}}


def test_the_index_says_how_to_reach_the_contact_endpoint(client: ValidatingClient) -> None:
    contact = client.get("/api?section=contact").get_json()["data"]["contact"]

    assert contact["url"] == "http://localhost/api/v1/contact"
    assert contact["legacy_url"] == "http://localhost/contact.php"
    assert contact["form_types"] == ["demo", "ventas", "onboarding", "distribuidor"]
    assert contact["content_types"] == ["application/json", "application/x-www-form-urlencoded"]
    assert contact["rate_limit"] == stated(CONTACT_POLICY)


def test_every_address_that_the_index_names_answers(make_client: MakeClient) -> None:
    client = make_client(PUBLIC_BASE_URL="https://pay.example.com")
    data = client.get("/api").get_json()["data"]
    addresses = {data["openapi"], *data["docs"].values(), data["versions"]["index"], data["versioning"]["policy"]}

    for address in addresses:
        assert address.startswith("https://pay.example.com/")
        assert client.get(address.removeprefix("https://pay.example.com")).status_code == 200


def test_the_versioning_policy(client: ValidatingClient) -> None:
    body = client.get("/api/versioning").get_json()

    assert body["ok"] is True
    data = body["data"]
    assert data["strategy"] == "path"
    assert data["current_version"] == "v1"
    assert data["supported"] == ["v1"]
    assert data["deprecated"] == []
    assert data["deprecation_process"]["notice_period_days"] == 180
    assert isinstance(data["deprecation_process"]["after_sunset"], str)
    assert all(sentence.endswith(".") for sentence in data["compatibility"])
    assert data["signalling"].keys() == {"Deprecation", "Sunset", "Link"}


def test_a_version_without_an_end(client: ValidatingClient) -> None:
    data = client.get("/api/versioning?version=v1").get_json()["data"]

    assert data == {
        "version": "v1",
        "status": "current",
        "base_path": "/api/v1",
        "deprecated_on": None,
        "sunset_on": None,
        "successor": None,
    }


@pytest.mark.parametrize(
    ("day", "status", "supported", "deprecated"),
    [
        ("2029-12-31T23:59:59", "current", ["v1"], []),
        ("2030-01-01", "deprecated", ["v1"], ["v1"]),
        ("2030-12-30T23:59:59", "deprecated", ["v1"], ["v1"]),
        ("2030-12-31", "sunset", [], []),
    ],
)
def test_a_version_near_its_end(
    make_client: MakeClient, day: str, status: str, supported: list[str], deprecated: list[str]
) -> None:
    with freeze_time(day):
        client = make_client(**ENDING)
        policy = client.get("/api/versioning").get_json()["data"]
        state = client.get("/api/versioning?version=v1").get_json()["data"]
        versions = client.get("/api").get_json()["data"]["versions"]

    assert state == {
        "version": "v1",
        "status": status,
        "base_path": "/api/v1",
        "deprecated_on": "2030-01-01",
        "sunset_on": "2030-12-31",
        "successor": "/api/v2",
    }
    assert policy["supported"] == versions["supported"] == supported
    assert policy["deprecated"] == versions["deprecated"] == deprecated


def test_the_state_changes_while_the_service_runs(make_client: MakeClient) -> None:
    with freeze_time("2029-12-31") as clock:
        client = make_client(**ENDING)
        before = client.get("/api/versioning?version=v1").get_json()["data"]["status"]
        clock.move_to("2030-01-01")
        after = client.get("/api/versioning?version=v1").get_json()["data"]["status"]

    assert (before, after) == ("current", "deprecated")


@pytest.mark.parametrize("path", ["/api", "/api/versioning"])
def test_spanish_letters_are_readable(make_client: MakeClient, path: str) -> None:
    response = make_client(API_NAME="Ñandú").get(path)

    assert b"\\u" not in response.data
    assert any(letter in response.text for letter in "ñÑáéíóú")
