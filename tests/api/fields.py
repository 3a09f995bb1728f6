"""What every response has, whoever made it, and what a row of the table of exchanges says of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from werkzeug.test import TestResponse

from tests.api.exchanges import BASE, CONTACT, SERVICE_DESC, Row, member
from tests.factories import API_QUOTA, CONTACT_QUOTA, REQUEST_ID
from tests.fuzz.inspection import State, read_state

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


EXTRAS = {
    "too_fast": {"details", "retry_after_seconds"},
    "rate_limit": {"retry_after_seconds"},
    "rate_limit_exceeded": {"retry_after_seconds"},
    "invalid_body": {"details"},
    "invalid_parameter": {"details", "allowed_values"},
    "invalid_form_type": {"allowed_values"},
    "unsupported_api_version": {"details"},
    "mail_delivery_failed": {"details"},
}
"""What an error says beside code, message, status and hint."""
READ = {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
"""What every response has while all origins may read."""
EXPOSED = (
    "API-Version, Deprecation, Link, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-RateLimit-Limit,"
    " X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-ID"
)


def agrees(found: Any, expected: Any) -> bool:
    if expected is ...:
        return found is not None
    return set(found) == expected if isinstance(expected, set) else bool(found == expected)


def hold(row: Row, status: int, headers: Sequence[tuple[str, str]], body: bytes, *, base: str = BASE) -> State:
    """Hold an answer to its row and to what is said of every response; returns what it states of the quota."""
    state = read_state(status, headers)
    on_contact = row.path in CONTACT and row.code != "rate_limit_exceeded"
    answer = json.loads(body.replace(base.encode(), BASE.encode())) if body else {}
    fields: dict[str, str] = {}
    for name, value in headers:
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    assert (status, answer.get("error", {}).get("code", "")) == (row.status, row.code if body else "")
    found = {path: (member(answer, path), expected) for path, expected in row.answer.items()}
    found |= {name: (fields.get(name), expected) for name, expected in row.fields.items()}
    assert {name: pair for name, pair in found.items() if not agrees(*pair)} == {}
    assert state.policy == (CONTACT_QUOTA if on_contact else API_QUOTA)
    assert {name: fields[name] for name in ("API-Version", "Vary", "X-Content-Type-Options")} == {
        "API-Version": "v1",
        "Vary": CONSTANT["Vary"],
        "X-Content-Type-Options": "nosniff",
    }
    assert (fields["X-Request-ID"] == REQUEST_ID) == (row.fields.get("X-Request-ID") == REQUEST_ID)
    assert (fields["Cache-Control"] != "no-store") == (row.path == "/openapi.json" and status in {200, 304})
    assert fields.get("Content-Type") == (None if status in {204, 304} else "application/json")
    assert (state.sunset is not None) == ("API_V1_SUNSET_ON" in row.settings and row.is_under_v1)
    granted = {name for name in row.fields if name.startswith("Access-Control-")}
    everybody = READ if granted or "CORS_ORIGINS" not in row.settings else set()
    assert {name for name in fields if name.startswith("Access-Control-")} == granted | everybody
    assert fields.get("Access-Control-Expose-Headers") in (EXPOSED, None)
    if row.code and body:
        hold_error(row, answer, state)
    assert b"\\u" not in body or row.path == "/openapi.json"
    return state


def hold_error(row: Row, answer: Any, state: State) -> None:
    always = {"code", "message", "status", "hint"} | EXTRAS.get(row.code, set())
    optional = {"details"} if row.code == "invalid_form_type" else set()
    assert answer.keys() == {"ok", "error", "docs"}
    assert answer["error"].keys() - optional == always - optional
    assert answer["error"].get("retry_after_seconds") == state.retry_after
