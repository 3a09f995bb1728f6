"""The names of kept messages: what state they say, and when the next attempt is due."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from freezegun import freeze_time

from app.mail.kept import Name, State, parse_name

STORED_AT = 1_700_000_000
UNIQUE = f"{STORED_AT}000000000.4242.0123456789abcdef"
MINUTE, HOUR, DAY = 60, 3600, 86_400


def name(suffix: str = "") -> Name:
    parsed = parse_name(UNIQUE + suffix)
    assert parsed is not None
    return parsed


@pytest.mark.parametrize(
    ("suffix", "state"),
    [
        ("", State.WAITING),
        (":2,", State.WAITING),
        (":2,S", State.WAITING),
        (":2,FS", State.IN_DOUBT),
        (",tries=1,last=1700000060.000,waiting=451", State.WAITING),
        (",tries=1,last=1700000060.000,waiting=ConnectionRefusedError:2,S", State.WAITING),
        (",tries=1,last=1700000060.000,refused=550", State.REFUSED),
        (",tries=1,last=1700000060.000:2,F", State.IN_DOUBT),
        (",tries=9,last=1700000060.000,waiting=451:2,F", State.IN_DOUBT),
        (",tries=35,last=1700000060.000,refused=550", State.REFUSED),
    ],
)
@pytest.mark.usefixtures("_day_one")
def test_a_name_says_the_state(suffix: str, state: State) -> None:
    assert name(suffix).state is state


@pytest.fixture
def _day_one() -> Iterator[None]:
    with freeze_time(datetime.fromtimestamp(STORED_AT + HOUR, UTC)):
        yield


@pytest.mark.parametrize(
    ("hours", "tried_at", "state"),
    [
        pytest.param(120, 116.1, State.GIVEN_UP, id="the next turn would come after the end"),
        pytest.param(119.9, 116.1, State.WAITING, id="not the end yet"),
        pytest.param(130, 24, State.WAITING, id="a turn was missed"),
        pytest.param(130, 130, State.GIVEN_UP, id="the missed turn was made up for"),
    ],
)
def test_a_message_is_given_up_after_five_days_and_its_last_turn(hours: float, tried_at: float, state: State) -> None:
    kept = name(f",tries=9,last={STORED_AT + tried_at * HOUR:.3f},waiting=451")

    with freeze_time(datetime.fromtimestamp(STORED_AT + hours * HOUR, UTC)):
        assert kept.state is state
        assert kept.is_due(time.time(), 0) == (hours == 130 and state is State.WAITING)


@pytest.mark.parametrize(
    "file_name",
    [
        "",
        "3.eml",
        f"{UNIQUE}:2,F~",
        f"{UNIQUE}:1,F",
        f"{UNIQUE},tries=1",
        f"{UNIQUE},tries=1,last=2",
        f"{UNIQUE},tries=1,last=2.000,lost=451",
        f"{UNIQUE},tries=1,last=2.000,waiting=",
        f"{UNIQUE},tries=1,last=2.000,waiting=4 5",
        f"{UNIQUE},tries=1234567890,last=2.000",
        f"{UNIQUE},tries=1,last=2.000\n",
        "9" * 5000 + ".1.x",
        "1.1.a/b",
    ],
)
def test_another_name_is_none_of_a_message(file_name: str) -> None:
    assert parse_name(file_name) is None


@pytest.mark.parametrize(
    "tried",
    [
        name(),
        name().tried(STORED_AT + 7.9),
        name().tried(STORED_AT + 7.9, answer="451"),
        name().tried(STORED_AT + 7.9, answer="550", refused=True),
        name(":2,F").tried(STORED_AT + 7.9, answer="TimeoutError"),
    ],
)
def test_a_place_is_read_as_it_was_written(tried: Name) -> None:
    folder, _, file_name = tried.place.partition("/")

    assert parse_name(file_name) == tried
    assert folder == ("cur" if tried.in_doubt else "new")


def test_an_attempt_counts_and_keeps_the_message_in_doubt() -> None:
    tried = name(",tries=2,last=1700000060.000,waiting=451:2,F").tried(STORED_AT + 500, answer="450")

    assert (tried.attempts, tried.tried_at, tried.answer, tried.in_doubt) == (3, STORED_AT + 500, "450", True)


def test_the_attempts_follow_each_other_after_1_5_15_30_and_60_minutes_and_then_every_4_hours_for_5_days() -> None:
    with freeze_time(datetime.fromtimestamp(STORED_AT, UTC)) as clock:
        kept, pauses = name().tried(STORED_AT, answer="451"), []
        while (turn := kept.next_try) is not None:
            assert kept.tried_at is not None
            pauses.append(turn - kept.tried_at)
            assert [kept.is_due(now, 0) for now in (turn - 1, turn)] == [False, True]
            clock.move_to(datetime.fromtimestamp(turn, UTC))
            kept = kept.tried(turn, answer="451")
        clock.move_to(datetime.fromtimestamp(STORED_AT + 5 * DAY - 1, UTC))
        before = kept.state
        clock.tick(1)
        after = kept.state

    assert [pause / MINUTE for pause in pauses[:7]] == [1, 5, 15, 30, 60, 240, 240]
    assert set(pauses[5:]) == {4 * HOUR}
    assert kept.tried_at is not None
    assert 0 < STORED_AT + 5 * DAY - kept.tried_at <= 4 * HOUR
    assert (before, after) == (State.WAITING, State.GIVEN_UP)


@pytest.mark.parametrize("suffix", ["", ":2,S"])
def test_what_the_release_before_has_kept_is_tried_once_at_least_however_old_it_is(suffix: str) -> None:
    kept = name(suffix)

    assert kept.is_due(time.time(), 0)
    assert kept.tried(time.time(), answer="451").state is State.GIVEN_UP


@pytest.mark.parametrize(
    "suffix",
    [":2,F", ",tries=1,last=1700000060.000,refused=550", f",tries=35,last={STORED_AT + 5 * DAY}.000,waiting=451"],
)
def test_what_needs_a_hand_is_never_due(suffix: str) -> None:
    kept = name(suffix)

    assert kept.next_try is None
    assert not kept.is_due(time.time(), server_back_at=time.time())


@pytest.mark.usefixtures("_day_one")
def test_after_an_outage_all_is_due_that_was_tried_before_the_end_and_only_once() -> None:
    back_at = STORED_AT + HOUR
    before = name().tried(back_at - 1, answer="451")

    assert before.is_due(back_at, back_at)
    assert not before.tried(back_at, answer="451").is_due(back_at, back_at)


@pytest.mark.usefixtures("_day_one")
def test_a_clock_that_was_set_back_holds_up_nothing() -> None:
    kept = name().tried(STORED_AT + DAY, answer="451")

    assert kept.is_due(STORED_AT, 0)
    assert not name().tried(STORED_AT + 1, answer="451").is_due(STORED_AT, 0)


def test_the_time_of_an_attempt_is_never_noted_as_later_than_it_is() -> None:
    assert name().tried(STORED_AT + 0.9996).tried_at == STORED_AT + 0.999
