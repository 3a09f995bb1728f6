"""The rate-limit fields: their form, their rounding and that they agree."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from app.ratelimit.headers import rate_limit_headers
from app.ratelimit.window import SECOND, Decision, Policy

API = Policy(quota=60, window_seconds=60)
CONTACT = Policy(quota=1, window_seconds=30)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_EPOCH = 1_767_268_800

FIELDS = {
    "api, nothing counted": (
        Decision(API, True, 60, 60 * SECOND),
        ('"default";q=60;w=60', "60", '"default";r=60;t=60', "60", str(NOON_EPOCH + 60)),
    ),
    "api, some counted": (
        Decision(API, True, 7, 12 * SECOND),
        ('"default";q=60;w=60', "60", '"default";r=7;t=12', "7", str(NOON_EPOCH + 12)),
    ),
    "api, refused": (
        Decision(API, False, 0, 1),  # nanosecond: whoever waits for a second passes
        ('"default";q=60;w=60', "60", '"default";r=0;t=1', "0", str(NOON_EPOCH + 1)),
    ),
    "contact, nothing counted": (
        Decision(CONTACT, True, 1, 30 * SECOND),
        ('"default";q=1;w=30', "1", '"default";r=1;t=30', "1", str(NOON_EPOCH + 30)),
    ),
    "contact, refused": (
        Decision(CONTACT, False, 0, 29 * SECOND),
        ('"default";q=1;w=30', "1", '"default";r=0;t=29', "0", str(NOON_EPOCH + 29)),
    ),
}
NAMES = ("RateLimit-Policy", "X-RateLimit-Limit", "RateLimit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


@freeze_time(NOON)
@pytest.mark.parametrize(("decision", "values"), FIELDS.values(), ids=FIELDS)
def test_the_five_fields_state_policy_and_state(decision: Decision, values: tuple[str, ...]) -> None:
    fields = rate_limit_headers(decision)

    assert sorted(fields) == sorted(zip(NAMES, values, strict=True))


@given(microseconds=st.integers(0, 999_999), reset_after=st.integers(1, 60 * SECOND))
def test_the_wait_and_the_moment_agree_to_the_second(microseconds: int, reset_after: int) -> None:
    now = NOON_EPOCH * SECOND + microseconds * 1_000
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr("time.time_ns", lambda: now)
        fields = dict(rate_limit_headers(Decision(API, True, 7, reset_after)))

    reset_at = int(fields["X-RateLimit-Reset"]) * SECOND
    wait = int(fields["RateLimit"].rpartition("=")[2]) * SECOND
    assert 0 <= reset_at - (now + reset_after) < SECOND
    assert 0 <= wait - reset_after < SECOND
    assert abs(now + wait - reset_at) < SECOND
