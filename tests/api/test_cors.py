"""What browsers of other origins may do and read."""

from __future__ import annotations

import pytest
from werkzeug.test import TestResponse

from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import contact_body

LISTED = "https://www.example.com"
OTHER_LISTED = "https://shop.example.com:8443"
IPV6_LISTED = "http://[::1]:3000"
CLEAR_LISTED = "http://localhost"
CORS_ORIGINS = f"https://WWW.Example.com:443, {OTHER_LISTED}, {IPV6_LISTED}, {CLEAR_LISTED}:80"
FOREIGN = [
    "https://evil.example",
    "http://www.example.com",
    "https://www.example.com:444",
    "https://www.example.com:443",
    "https://www.example.com.evil.example",
    "https://evil-www.example.com",
    "https://wwwXexample.com",
    "https://shop.example.com",
    "https://www.example.com/",
    "https://WWW.Example.com",
    "null",
    "*",
    "",
]

EXPOSED = {
    "RateLimit",
    "RateLimit-Policy",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Request-ID",
    "Retry-After",
    "API-Version",
    "Deprecation",
    "Sunset",
    "Link",
}

ALLOWED_METHODS = {
    "/api": {"GET", "HEAD", "OPTIONS"},
    "/api/versioning": {"GET", "HEAD", "OPTIONS"},
    "/api/v1": {"GET", "HEAD", "OPTIONS"},
    "/api/v1/health": {"GET", "HEAD", "OPTIONS"},
    "/openapi.json": {"GET", "HEAD", "OPTIONS"},
    "/api/v1/contact": {"POST", "OPTIONS"},
    "/contact.php": {"POST", "OPTIONS"},
}
"""Every path that exists, with its methods."""


READ = {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
"""What every response to an origin that is allowed has."""

ALL = READ | {"Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age"}
"""What a preflight has that is granted."""


def preflight(origin: str, method: str = "POST", fields: str = "content-type") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": fields,
    }


def items(field: str) -> set[str]:
    return {item.strip() for item in field.split(",")}


def granted(response: TestResponse) -> dict[str, str]:
    """The CORS header fields of a response; none of them lets credentials in."""
    found = {name: value for name, value in response.headers if name.startswith("Access-Control-")}
    assert "Access-Control-Allow-Credentials" not in found
    assert response.headers.getlist("Vary") == ["Accept, Accept-Encoding, Origin"]
    if "Access-Control-Expose-Headers" in found:
        assert items(found["Access-Control-Expose-Headers"]) == EXPOSED
    return found


@pytest.mark.parametrize("path", ALLOWED_METHODS)
def test_options_answers_204_with_allow_and_no_body(client: ValidatingClient, path: str) -> None:
    response = client.options(path)

    assert response.status_code == 204
    assert response.data == b""
    assert "Content-Type" not in response.headers
    assert items(response.headers["Allow"]) == ALLOWED_METHODS[path]
    assert granted(response).keys() == READ


ENVIRONS: dict[str, tuple[dict[str, str], dict[str, str | None]]] = {
    "any origin": ({}, dict.fromkeys([LISTED, "http://localhost:3000", "null", "https://evil.example"], "*")),
    "listed origins": (
        {"CORS_ORIGINS": CORS_ORIGINS},
        {origin: origin for origin in (LISTED, OTHER_LISTED, IPV6_LISTED, CLEAR_LISTED)} | dict.fromkeys(FOREIGN),
    ),
}
"""Settings, and what each origin is answered: an origin, or nothing."""


@pytest.mark.parametrize(("environ", "origins"), ENVIRONS.values(), ids=ENVIRONS)
@pytest.mark.parametrize("path", ALLOWED_METHODS)
def test_a_preflight_of_an_allowed_origin_is_granted_the_methods_of_the_path_and_no_other_is(
    make_client: MakeClient, environ: dict[str, str], origins: dict[str, str | None], path: str
) -> None:
    client = make_client(**environ)
    (method,) = ALLOWED_METHODS[path] & {"GET", "POST"}

    for origin, answered in origins.items():
        response = client.options(path, headers=preflight(origin, method))

        found = granted(response)
        assert response.status_code == 204
        assert found.keys() == (ALL if answered else set())
        assert found.get("Access-Control-Allow-Origin") == answered
        if answered:
            assert items(found["Access-Control-Allow-Methods"]) == ALLOWED_METHODS[path]
            assert found["Access-Control-Allow-Headers"] == "content-type"
            assert found["Access-Control-Max-Age"] == "86400"


@pytest.mark.parametrize(("environ", "origins"), ENVIRONS.values(), ids=ENVIRONS)
def test_an_allowed_origin_may_read_a_response_and_no_other_may(
    make_client: MakeClient, environ: dict[str, str], origins: dict[str, str | None]
) -> None:
    client = make_client(**environ)

    for origin, answered in origins.items():
        found = granted(client.get("/api", headers={"Origin": origin}))

        assert found.keys() == (READ if answered else set())
        assert found.get("Access-Control-Allow-Origin") == answered
    assert granted(client.get("/api")).keys() == (set() if environ else READ)


@pytest.mark.parametrize("fields", ["content-type,sentry-trace,baggage", "traceparent, tracestate", "x-requested-with"])
@pytest.mark.parametrize("environ", [{}, {"CORS_ORIGINS": CORS_ORIGINS}], ids=["any origin", "listed origins"])
def test_a_preflight_is_granted_the_fields_that_it_names(
    make_client: MakeClient, environ: dict[str, str], fields: str
) -> None:
    response = make_client(**environ).options("/api/v1/contact", headers=preflight(LISTED, fields=fields))

    assert items(response.headers["Access-Control-Allow-Headers"]) == items(fields)


@pytest.mark.parametrize(("path", "method"), [("/contact.php", "PUT"), ("/api", "POST"), ("/x", "POST")])
def test_a_preflight_for_a_method_that_the_path_does_not_serve_is_granted_no_more(
    client: ValidatingClient, path: str, method: str
) -> None:
    assert granted(client.options(path, headers=preflight(LISTED, method))).keys() == READ


@pytest.mark.parametrize("environ", [{}, {"CORS_ORIGINS": LISTED}], ids=["any origin", "listed origin"])
def test_errors_can_be_read_as_well(make_client: MakeClient, environ: dict[str, str]) -> None:
    client = make_client(**environ)
    headers = {"Origin": LISTED}

    responses = [
        client.get("/x", headers=headers),
        client.get("/contact.php", headers=headers),
        client.post("/contact.php", json=contact_body(form_type="x"), headers=headers),
        client.post("/contact.php", json=contact_body(), headers=headers),
        client.options("/x", headers=preflight(LISTED)),
    ]

    assert [response.status_code for response in responses] == [404, 405, 400, 429, 404]
    for response in responses:
        assert granted(response).keys() == READ
