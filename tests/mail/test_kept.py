"""The names of kept messages: what they say, and when the next attempt is due."""

from __future__ import annotations

import pytest

from app.mail.kept import Kept, State, read_path

STORED_AT = 1_700_000_000
UNIQUE = f"{STORED_AT}000000000.4242.0123456789abcdef"
MINUTE, HOUR, DAY = 60, 3600, 86_400
DAY_ONE, LATE = STORED_AT + HOUR, STORED_AT + 365 * DAY
TRIED = ",tries=3,last=1700000060.000"
"""The time is that of the first attempt, a minute after the message was stored."""

NEW = f"{UNIQUE},tries=0,last={STORED_AT}.000,waiting=.demo"


def read(name: str, *, has_server: bool = True) -> Kept:
    kept = read_path(f"new/{name}", has_server=has_server)
    assert kept is not None
    return kept


READ: dict[str, tuple[State, int, str, str]] = {
    f",tries=0,last={STORED_AT}.000,waiting=.demo": (State.WAITING, 0, "", "demo"),
    f"{TRIED},waiting=451.ventas": (State.WAITING, 3, "451", "ventas"),
    f"{TRIED},waiting=ConnectionRefusedError.": (State.WAITING, 3, "ConnectionRefusedError", ""),
    f"{TRIED},refused=550.demo": (State.REFUSED, 3, "550", "demo"),
    f"{TRIED},waiting=.demo.doubt": (State.IN_DOUBT, 3, "", "demo"),
    f"{TRIED},waiting=.demo.sending": (State.IN_DOUBT, 3, "", "demo"),
    f"{TRIED},refused=550.demo.doubt": (State.IN_DOUBT, 3, "550", "demo"),
    # The steps and the turn of earlier versions say nothing:
    f"{TRIED},waiting=451.demo.1": (State.WAITING, 3, "451", "demo"),
    f"{TRIED},waiting=.demo.2.1700000900.doubt": (State.IN_DOUBT, 3, "", "demo"),
}


@pytest.mark.parametrize(("suffix", "said"), READ.items())
def test_a_name_says_what_may_be_shown_of_a_message_and_whether_it_is_ever_due(
    suffix: str, said: tuple[State, int, str, str]
) -> None:
    kept, is_waiting = read(UNIQUE + suffix), said[0] is State.WAITING

    assert (kept.state, kept.tries, kept.last_code, kept.form_type) == said
    assert (kept.stored_at, kept.unique, kept.local_part) == (STORED_AT, UNIQUE, "0123456789abcdef")
    assert kept.last_at == STORED_AT + (MINUTE if kept.tries else 0)
    assert {kept.is_untaken, kept.next_try is not None, kept.is_due(LATE), kept.is_due(LATE, LATE)} == {is_waiting}
    stored = read(UNIQUE + suffix, has_server=False)
    assert (stored.state, stored.next_try) == (State.STORED, None)


OTHER_NAMES = {
    "of no message": "new/3.eml",
    "in another folder": f"old/{NEW}",
    "of a backup": f"new/{NEW}~",
    "with a line break": f"new/{NEW}\n",
    "without an attempt": f"new/{UNIQUE}",
    "with another verdict": f"new/{UNIQUE},tries=1,last=2.000,lost=451.demo",
    "with another mark": f"new/{UNIQUE},tries=1,last=2.000,waiting=451.demo.lost",
    "with a number that is too large": f"new/{'9' * 5000}{NEW}",
}


@pytest.mark.parametrize("path", OTHER_NAMES.values(), ids=OTHER_NAMES)
def test_another_name_is_none_of_a_message(path: str) -> None:
    assert read_path(path, has_server=True) is None


LONGEST = 4 * HOUR
PAUSES = {0: MINUTE, 59: MINUTE, 61: 61, 2 * HOUR: 2 * HOUR, LONGEST + 1: LONGEST, -DAY: MINUTE}


@pytest.mark.parametrize(("waited", "pause"), PAUSES.items())
def test_a_pause_is_as_long_as_the_message_has_waited(waited: int, pause: int) -> None:
    kept = read(read(NEW).after(STORED_AT + waited, "451").removeprefix("new/"))
    next_try = STORED_AT + waited + pause

    assert kept.next_try == next_try
    assert [kept.is_due(moment) for moment in (next_try - 1, next_try)] == [False, True]


@pytest.mark.parametrize(
    ("age", "tries", "state"),
    [(5 * DAY, 10, State.GIVEN_UP), (5 * DAY - 1, 10, State.WAITING), (365 * DAY, 9, State.WAITING)],
)
def test_a_failure_after_five_days_and_ten_attempts_is_the_last(age: float, tries: int, state: State) -> None:
    kept = read(f"{UNIQUE},tries={tries},last={STORED_AT + age}.000,waiting=451.demo")

    assert kept.state is state
    assert {kept.next_try is None, not kept.is_due(2 * LATE, 2 * LATE)} == {state is State.GIVEN_UP}


DUE = {
    "in its pause": (-1, 0, False),
    "the server has come back since": (-1, DAY_ONE, True),
    "tried since the server came back": (-1, DAY_ONE - 1, False),
    "tried by a clock that was a little ahead": (59, 0, False),
    "the clock was set back": (61, 0, True),
}
"""When it was tried, from now on, when the server came back, and whether it is due."""


@pytest.mark.parametrize(("tried", "back_at", "is_due"), DUE.values(), ids=DUE)
def test_a_return_of_the_server_and_a_clock_that_was_set_back_end_the_pause(
    tried: int, back_at: float, *, is_due: bool
) -> None:
    kept = read(f"{UNIQUE},tries=1,last={DAY_ONE + tried:.3f},waiting=451.demo")

    assert kept.is_due(DAY_ONE, back_at) is is_due
