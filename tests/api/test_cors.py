"""What browsers of other origins may do and read."""

from __future__ import annotations

import pytest

from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import contact_body

LISTED = "https://www.example.com"
OTHER_LISTED = "https://shop.example.com:8443"
IPV6_LISTED = "http://[::1]:3000"
CLEAR_LISTED = "http://localhost"
CORS_ORIGINS = f"{LISTED}:443, {OTHER_LISTED}, {IPV6_LISTED}, {CLEAR_LISTED}:80"
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


def preflight(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "content-type",
    }


def items(field: str) -> set[str]:
    return {item.strip() for item in field.split(",")}


@pytest.mark.parametrize("path", ALLOWED_METHODS)
def test_options_answers_204_with_allow_and_no_body(client: ValidatingClient, path: str) -> None:
    response = client.options(path)

    assert response.status_code == 204
    assert response.data == b""
    assert "Content-Type" not in response.headers
    assert items(response.headers["Allow"]) == ALLOWED_METHODS[path]


@pytest.mark.parametrize("path", ALLOWED_METHODS)
@pytest.mark.parametrize("origin", [LISTED, "http://localhost:3000", "null"])
def test_a_preflight_of_any_origin_is_granted_by_default(client: ValidatingClient, path: str, origin: str) -> None:
    (method,) = ALLOWED_METHODS[path] & {"GET", "POST"}
    response = client.options(path, headers=preflight(origin, method))

    assert response.status_code == 204
    assert items(response.headers["Allow"]) == ALLOWED_METHODS[path]
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert items(response.headers["Access-Control-Allow-Methods"]) == ALLOWED_METHODS[path]
    assert response.headers["Access-Control-Allow-Headers"] == "content-type"
    assert int(response.headers["Access-Control-Max-Age"]) > 0


@pytest.mark.parametrize("origin", [LISTED, OTHER_LISTED, IPV6_LISTED, CLEAR_LISTED])
def test_a_preflight_of_a_listed_origin_is_granted_to_it_alone(make_client: MakeClient, origin: str) -> None:
    response = make_client(CORS_ORIGINS=CORS_ORIGINS).options("/api/v1/contact", headers=preflight(origin))

    assert response.headers["Access-Control-Allow-Origin"] == origin
    assert items(response.headers["Access-Control-Allow-Methods"]) == {"POST", "OPTIONS"}
    assert response.headers["Access-Control-Allow-Headers"] == "content-type"
    assert int(response.headers["Access-Control-Max-Age"]) > 0


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_preflight_of_a_foreign_origin_is_granted_nothing(make_client: MakeClient, origin: str) -> None:
    response = make_client(CORS_ORIGINS=CORS_ORIGINS).options("/api/v1/contact", headers=preflight(origin))

    assert response.status_code == 204
    assert not [name for name in response.headers.keys() if name.startswith("Access-Control-")]  # noqa: SIM118 - Headers yields pairs


@pytest.mark.parametrize("fields", ["content-type,sentry-trace,baggage", "traceparent, tracestate", "x-requested-with"])
@pytest.mark.parametrize("environ", [{}, {"CORS_ORIGINS": CORS_ORIGINS}], ids=["any origin", "listed origins"])
def test_a_preflight_is_granted_the_fields_that_it_names(
    make_client: MakeClient, environ: dict[str, str], fields: str
) -> None:
    headers = preflight(LISTED) | {"Access-Control-Request-Headers": fields}

    response = make_client(**environ).options("/api/v1/contact", headers=headers)

    assert items(response.headers["Access-Control-Allow-Headers"]) == items(fields)


@pytest.mark.parametrize(("path", "method"), [("/contact.php", "PUT"), ("/api", "POST"), ("/x", "GET")])
def test_a_preflight_for_a_method_that_the_path_does_not_serve_is_granted_no_more(
    client: ValidatingClient, path: str, method: str
) -> None:
    response = client.options(path, headers=preflight(LISTED, method))

    granted = {name for name in response.headers.keys() if name.startswith("Access-Control-")}  # noqa: SIM118
    assert granted == {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}


@pytest.mark.parametrize("origin", [None, LISTED, "null", "https://evil.example"])
def test_any_origin_may_read_a_response_by_default(client: ValidatingClient, origin: str | None) -> None:
    response = client.get("/api", headers={"Origin": origin} if origin else {})

    assert response.headers["Access-Control-Allow-Origin"] == "*"
    assert items(response.headers["Access-Control-Expose-Headers"]) == EXPOSED


@pytest.mark.parametrize("origin", [LISTED, OTHER_LISTED, IPV6_LISTED, CLEAR_LISTED])
def test_a_listed_origin_may_read_a_response(make_client: MakeClient, origin: str) -> None:
    response = make_client(CORS_ORIGINS=CORS_ORIGINS).get("/api", headers={"Origin": origin})

    assert response.headers["Access-Control-Allow-Origin"] == origin
    assert items(response.headers["Access-Control-Expose-Headers"]) == EXPOSED


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_foreign_origin_may_read_nothing(make_client: MakeClient, origin: str) -> None:
    response = make_client(CORS_ORIGINS=CORS_ORIGINS).get("/api", headers={"Origin": origin})

    assert response.status_code == 200
    assert "Access-Control-Allow-Origin" not in response.headers
    assert "Access-Control-Expose-Headers" not in response.headers


def test_what_an_origin_was_granted_is_not_granted_to_the_next(make_client: MakeClient) -> None:
    client = make_client(CORS_ORIGINS=CORS_ORIGINS)

    origins = [
        client.get("/api", headers={"Origin": origin}).headers.get("Access-Control-Allow-Origin")
        for origin in (LISTED, "null", OTHER_LISTED, LISTED)
    ]

    assert origins == [LISTED, None, OTHER_LISTED, LISTED]


@pytest.mark.parametrize("environ", [{}, {"CORS_ORIGINS": CORS_ORIGINS}], ids=["any origin", "listed origins"])
@pytest.mark.parametrize("origin", [None, LISTED, "https://evil.example"])
@pytest.mark.parametrize("path", ["/api", "/contact.php", "/openapi.json", "/x"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_vary_is_the_same_single_line_for_every_origin(
    make_client: MakeClient, environ: dict[str, str], origin: str | None, path: str, method: str
) -> None:
    headers = preflight(origin) if origin else {}

    response = make_client(**environ).open(path, method=method, headers=headers)

    assert response.headers.getlist("Vary") == ["Accept, Accept-Encoding, Origin"]


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
        assert response.headers["Access-Control-Allow-Origin"] in ("*", LISTED)
        assert items(response.headers["Access-Control-Expose-Headers"]) == EXPOSED


def test_credentials_are_never_allowed(client: ValidatingClient) -> None:
    response = client.options("/api/v1/contact", headers=preflight(LISTED))

    assert "Access-Control-Allow-Credentials" not in response.headers
