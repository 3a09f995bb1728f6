"""The rate-limit fields: their form, their rounding and that they agree."""

import time

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from app.api.quotas import rate_limit_fields
from app.ratelimit.window import SECOND, Decision
from tests.ratelimit.properties import API, CONTACT

NOON, NOON_EPOCH = "2026-01-01T12:00Z", 1_767_268_800

STATES = {
    "api, nothing counted": (Decision(API, True, 60, 60 * SECOND), "q=60;w=60", 60),
    "api, refused for a nanosecond": (Decision(API, False, 0, 1), "q=60;w=60", 1),  # who waits for a second passes
    "contact, refused": (Decision(CONTACT, False, 0, 29 * SECOND), "q=1;w=30", 29),
}
"""Decisions, the policy, and the seconds until the reset."""


@freeze_time(NOON)
@pytest.mark.parametrize(("decision", "policy", "wait"), STATES.values(), ids=STATES)
def test_the_five_fields_state_policy_and_state(decision: Decision, policy: str, wait: int) -> None:
    assert dict(rate_limit_fields(decision)) == {
        "RateLimit": f'"default";r={decision.remaining};t={wait}',
        "RateLimit-Policy": f'"default";{policy}',
        "X-RateLimit-Limit": str(decision.policy.quota),
        "X-RateLimit-Remaining": str(decision.remaining),
        "X-RateLimit-Reset": str(NOON_EPOCH + wait),
    }


@given(microseconds=st.integers(0, 999_999), reset_after=st.integers(1, 60 * SECOND))
def test_the_wait_and_the_moment_agree_to_the_second(microseconds: int, reset_after: int) -> None:
    now = NOON_EPOCH * SECOND + microseconds * 1_000
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(time, "time_ns", lambda: now)
        fields = dict(rate_limit_fields(Decision(API, True, 7, reset_after)))

    reset_at = int(fields["X-RateLimit-Reset"]) * SECOND
    wait = int(fields["RateLimit"].rpartition("=")[2]) * SECOND
    assert 0 <= reset_at - (now + reset_after) < SECOND
    assert 0 <= wait - reset_after < SECOND
