"""The header fields that every response carries, whoever made it."""

from __future__ import annotations

import re

from werkzeug.test import TestResponse

CURRENT = "v1"
"""The version that answers outside of all versions."""

CONSTANT = {
    "Vary": "Accept, Accept-Encoding, Origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Access-Control-Allow-Origin": "*",
}
"""Those whose value is known before; the document alone has another Cache-Control."""

VARYING = (
    "Access-Control-Expose-Headers",
    "X-Request-ID",
    "RateLimit",
    "RateLimit-Policy",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)


SERVICE_DESC = '</openapi.json>; rel="service-desc"'
"""The Link of every response under /api and of the document."""


def signals(response: TestResponse) -> dict[str, str]:
    """What a response signals of the end of its version; a link to something else is none of it."""
    links = [link for link in response.headers.getlist("Link") if link != SERVICE_DESC]
    fields = {name: response.headers.getlist(name) for name in ("Deprecation", "Sunset")} | {"Link": links}
    return {name: value for name, values in fields.items() for value in values}


def assert_contract(response: TestResponse, **changes: str) -> None:
    """Each field is there once; ``changes`` holds other values, with an underscore for each hyphen."""
    of_v1 = f"{response.request.path}/".startswith(("/api/v1/", "/contact.php/"))
    version = {"API-Version": "v1" if of_v1 else CURRENT}
    expected = CONSTANT | version | {name.replace("_", "-"): value for name, value in changes.items()}
    assert {name: response.headers.getlist(name) for name in expected} == {
        name: [value] for name, value in expected.items()
    }
    for name in VARYING:
        (value,) = response.headers.getlist(name)
        assert "broken" not in value
    assert re.fullmatch("[0-9a-f]{32}", response.headers["X-Request-ID"])
