"""The age of a form. Over HTTP the wait is never shorter than that for the quota (tests/api/exchanges.py)."""

from __future__ import annotations

import pytest

from app.contact.antispam import check_age
from app.errors import ApiError, ErrorCode

NOW = 1_800_000_000_000
HOUR = 3_600_000


@pytest.mark.parametrize("age", [2000, 2001, HOUR - 1, HOUR])
def test_a_form_between_two_seconds_and_one_hour_old_passes(age: int) -> None:
    check_age(NOW - age, now=NOW)


def test_a_form_without_a_time_passes() -> None:
    check_age(None, now=NOW)


@pytest.mark.parametrize(
    ("rendered_at", "reason", "wait"),
    [
        pytest.param(NOW - 1999, "too_early", 1, id="1 ms missing"),
        pytest.param(NOW - 1000, "too_early", 1, id="1 s missing"),
        pytest.param(NOW - 999, "too_early", 2, id="a little over 1 s missing"),
        pytest.param(NOW, "too_early", 2, id="just rendered"),
        pytest.param(NOW + 500, "too_early", 3, id="half a second ahead"),
        pytest.param(NOW + 60_000, "too_early", 62, id="a minute ahead"),
        pytest.param(NOW - HOUR - 1, "expired", 2, id="1 ms too old"),
        pytest.param(0, "expired", 2, id="1970"),
        pytest.param(-1, "expired", 2, id="before 1970"),
        pytest.param(-(1 << 63), "expired", 2, id="as early as 64 bits go"),
    ],
)
def test_any_other_age_is_refused_with_its_reason_and_the_wait(rendered_at: int, reason: str, wait: int) -> None:
    with pytest.raises(ApiError) as refusal:
        check_age(rendered_at, now=NOW)

    assert refusal.value.code is ErrorCode.TOO_FAST
    assert refusal.value.details == {"reason": reason}
    assert refusal.value.retry_after == wait


def test_a_negative_time_is_expired_also_while_the_clock_stands_near_1970() -> None:
    with pytest.raises(ApiError) as refusal:
        check_age(-1, now=2500)

    assert refusal.value.details == {"reason": "expired"}


@pytest.mark.parametrize("rendered_at", [NOW - 1999, NOW - 1500, NOW, NOW + 1, NOW + 999, NOW + 12_345])
def test_whoever_waits_as_told_passes(rendered_at: int) -> None:
    with pytest.raises(ApiError) as refusal:
        check_age(rendered_at, now=NOW)
    wait = refusal.value.retry_after
    assert wait is not None

    check_age(rendered_at, now=NOW + wait * 1000)
