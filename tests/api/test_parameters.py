"""The rule of the query parameters."""

from __future__ import annotations

import pytest

from tests.client import ValidatingClient

PARAMETERS = {
    "/api": ("section", ["versions", "rate_limit", "versioning", "contact", "docs"]),
    "/api/versioning": ("version", ["v1"]),
    "/api/v1": ("method", ["GET", "POST"]),
    "/api/v1/health": ("verbose", ["true", "false"]),
}
"""The documented parameter of each path and its allowed values."""

ALLOWED = [(path, f"{parameter}={value}") for path, (parameter, values) in PARAMETERS.items() for value in values] + [
    ("/api", ""),
    ("/api", "section=docs&section=docs"),
    ("/api", "s%65ction=d%6Fcs"),
    ("/api", "undocumented=1"),
    ("/api", "section=docs&undocumented=%FF"),
    ("/api", "Section=x"),
    ("/api", "version=v9"),
    ("/api", "&&=&"),
    ("/api/v1", "section=x"),
    ("/api/v1/health", "method=x"),
    ("/openapi.json", "section=x"),
]
"""Documented parameters with their allowed values, and undocumented ones with any."""

REFUSED = [
    (path, f"{parameter}={value}")
    for path, (parameter, values) in PARAMETERS.items()
    for value in (
        "",
        "x",
        "null",
        "%FF",
        "%00",
        values[0].swapcase(),
        f"{values[0]}%20",
        f"+{values[0]}",
        f"{values[0]},x",
    )
] + [
    ("/api", "section"),
    ("/api", "section=docs&section=x"),
    ("/api", "section=x&section=docs"),
    ("/api", "section=docs&section="),
    ("/api", "section=docs&undocumented=1&section=DOCS"),
    ("/api", "section=name"),
    ("/api", "section=docs;section=x"),
    ("/api/versioning", "version=v9"),
    ("/api/versioning", "version=1"),
    ("/api/versioning", "version=v01"),
    ("/api/v1", "method=HEAD"),
    ("/api/v1", "method=OPTIONS"),
    ("/api/v1/health", "verbose=1"),
    ("/api/v1/health", "verbose=True"),
    ("/api/v1/health", "verbose=yes"),
]


@pytest.mark.parametrize(("path", "query"), ALLOWED)
def test_allowed_values_and_undocumented_parameters_pass(client: ValidatingClient, path: str, query: str) -> None:
    assert client.get(path, query_string=query).status_code == 200


@pytest.mark.parametrize(("path", "query"), REFUSED)
def test_any_other_value_is_refused_with_the_allowed_ones(client: ValidatingClient, path: str, query: str) -> None:
    response = client.get(path, query_string=query)

    assert response.status_code == 400
    error = response.get_json()["error"]
    assert error["code"] == "invalid_parameter"
    assert error["allowed_values"] == PARAMETERS[path][1]


def test_head_follows_the_same_rule(client: ValidatingClient) -> None:
    assert client.head("/api?section=docs").status_code == 200
    assert client.head("/api?section=x").status_code == 400


def test_the_method_is_checked_before_the_query(client: ValidatingClient) -> None:
    response = client.post("/api?section=x")

    assert response.get_json()["error"]["code"] == "method_not_allowed"


def test_options_is_answered_whatever_the_query_says(client: ValidatingClient) -> None:
    assert client.options("/api?section=x").status_code == 204
