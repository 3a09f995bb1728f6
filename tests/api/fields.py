"""What every response has, whoever made it, and what a row of the table of exchanges says of its own."""

import json
from collections.abc import Sequence
from typing import Any

from app.ratelimit.window import Policy
from tests.api.exchanges import BASE, Row, member
from tests.factories import API_QUOTA, CONTACT_QUOTA, REQUEST_ID
from tests.fuzz.inspection import State, read_state
from tests.timeline import assert_went
from tests.versions import CONTACT_PATHS, CURRENT, FIRST, LEGACY

READ = {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
"""What every response has while all origins may read."""
EXPOSED = (
    "API-Version, Deprecation, Link, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-RateLimit-Limit,"
    " X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-ID"
)
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


def as_expected(found: Any, expected: Any) -> Any:
    """What is expected if that was found, else what was found."""
    if expected is ...:
        agrees = found is not None
    else:
        agrees = (set(found) if isinstance(expected, set) and found else found) == expected
    return expected if agrees else found


def hold(
    row: Row,
    status: int,
    headers: Sequence[tuple[str, str]],
    body: bytes,
    *,
    base: str = BASE,
    quotas: tuple[Policy, Policy] = (API_QUOTA, CONTACT_QUOTA),
) -> State:
    """Hold an answer to its row and to what is said of every response; returns what it states of the quota.

    The quotas are those of /api and of the contact paths.
    """
    state = read_state(status, headers)
    answer = json.loads(body.replace(base.encode(), BASE.encode())) if body else {}
    fields = dict(headers)
    expected: dict[str, Any] = {"status": row.status, "error.code": row.code if body else ""} | row.answer | row.fields
    found = {"status": status, "error.code": answer.get("error", {}).get("code", "")}
    found |= {path: member(answer, path) for path in row.answer}
    found |= {name: fields.get(name) for name in row.fields}
    assert_went(
        (f"{name}: {it!r}" for name, it in expected.items()),
        (f"{name}: {as_expected(found[name], it)!r}" for name, it in expected.items()),
    )
    on_contact = row.path in CONTACT_PATHS and row.code != "rate_limit_exceeded"
    assert state.policy == quotas[on_contact]
    assert fields["API-Version"] == (FIRST if row.path == LEGACY else row.version or CURRENT).name
    assert (fields["X-Request-ID"] == REQUEST_ID) == (row.fields.get("X-Request-ID") == REQUEST_ID)
    assert (fields["Cache-Control"] != "no-store") == (row.path == "/openapi.json" and status in {200, 304})
    assert fields.get("Content-Type") == (None if status in {204, 304} else "application/json")
    assert (state.sunset is not None) == ("API_V1_SUNSET_ON" in row.settings and row.version is FIRST)
    granted = {name for name in row.fields if name.startswith("Access-Control-")}
    everybody = READ if granted or "CORS_ORIGINS" not in row.settings else set()
    assert {name for name in fields if name.startswith("Access-Control-")} == granted | everybody
    assert fields.get("Access-Control-Expose-Headers") in (EXPOSED, None)
    assert b"\\u" not in body
    if row.code and body:
        said = answer["error"].keys() - ({"details"} if row.code == "invalid_form_type" else set())
        assert answer.keys() == {"ok", "error", "docs"}
        assert said == {"code", "message", "status", "hint"} | EXTRAS.get(row.code, set())
        assert answer["error"].get("retry_after_seconds") == state.retry_after
    return state
