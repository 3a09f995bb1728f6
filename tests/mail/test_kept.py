"""The names of kept messages: what they say, and when the next attempt is due."""

from __future__ import annotations

from typing import Any

import pytest

from app.mail.kept import Kept, State, first_name, read_path

STORED_AT = 1_700_000_000
UNIQUE = f"{STORED_AT}000000000.4242.0123456789abcdef"
MINUTE, HOUR, DAY = 60, 3600, 86_400
DAY_ONE = STORED_AT + HOUR
TRIED = ",tries=3,last=1700000060.000"
"""The time is that of the first attempt, a minute after the message was stored."""

NEW = f"{UNIQUE},tries=0,last={STORED_AT}.000,waiting=.demo"
DOUBT = f"{UNIQUE}{TRIED},waiting=.demo.doubt"


def read(name: str, *, has_server: bool = True) -> Kept:
    kept = read_path(f"new/{name}", has_server=has_server)
    assert kept is not None
    return kept


def tried(kept: Kept, now: float, word: str = "451", **verdict: Any) -> Kept:
    """The message after an attempt."""
    return read(kept.after(now, word, **verdict).removeprefix("new/"))


@pytest.mark.parametrize(
    ("suffix", "state", "tries", "code", "form_type"),
    [
        (f",tries=0,last={STORED_AT}.000,waiting=.demo", State.WAITING, 0, "", "demo"),
        (f"{TRIED},waiting=451.ventas", State.WAITING, 3, "451", "ventas"),
        (f"{TRIED},waiting=ConnectionRefusedError.", State.WAITING, 3, "ConnectionRefusedError", ""),
        (f"{TRIED},refused=550.demo", State.REFUSED, 3, "550", "demo"),
        (f"{TRIED},waiting=.demo.doubt", State.IN_DOUBT, 3, "", "demo"),
        (f"{TRIED},waiting=451.demo.doubt", State.IN_DOUBT, 3, "451", "demo"),
        (f"{TRIED},refused=550.demo.doubt", State.IN_DOUBT, 3, "550", "demo"),
        # A mail reader's flags say nothing:
        (f"{TRIED},waiting=451.demo:2,FS", State.WAITING, 3, "451", "demo"),
        (f"{TRIED},refused=550.demo:2,", State.REFUSED, 3, "550", "demo"),
        (f"{TRIED},waiting=.demo.doubt:2,S", State.IN_DOUBT, 3, "", "demo"),
        # Nor do the steps and the turn of earlier versions:
        (f"{TRIED},waiting=451.demo.1", State.WAITING, 3, "451", "demo"),
        (f"{TRIED},waiting=451..12.1700000900", State.WAITING, 3, "451", ""),
        (f"{TRIED},waiting=.demo.2.1700000900.doubt", State.IN_DOUBT, 3, "", "demo"),
    ],
)
def test_a_name_says_what_may_be_shown_of_a_message(
    suffix: str, state: State, tries: int, code: str, form_type: str
) -> None:
    kept = read(UNIQUE + suffix)

    assert (kept.state, kept.tries, kept.last_code, kept.form_type) == (state, tries, code, form_type)
    assert (kept.stored_at, kept.unique, kept.local_part) == (STORED_AT, UNIQUE, "0123456789abcdef")
    assert kept.last_at == STORED_AT + (MINUTE if tries else 0)
    assert kept.is_untaken == (state is State.WAITING)
    stored = read(UNIQUE + suffix, has_server=False)
    assert (stored.state, stored.next_try, stored.is_untaken) == (State.STORED, None, False)


@pytest.mark.parametrize(
    "path",
    [
        "new/",
        "new/3.eml",
        f"old/{NEW}",
        NEW,
        f"new/{UNIQUE}",
        f"new/{NEW}:2,F~",
        f"new/{NEW}:1,F",
        f"new/{NEW}\n",
        f"new/{UNIQUE},tries=1",
        f"new/{UNIQUE},tries=1,last=2",
        f"new/{UNIQUE},tries=1,last=2.000,lost=451",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=4 5",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451.demo.",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451.demo.lost",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451.DEMO",
        f"new/{UNIQUE},tries=1234567890,last=2.000,waiting=451.demo",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451",
        "new/" + "9" * 5000 + NEW,
        f"new/a/{NEW}",
    ],
)
def test_another_name_is_none_of_a_message(path: str) -> None:
    assert read_path(path, has_server=True) is None


def test_the_first_name_is_that_of_a_message_nobody_has_tried_yet() -> None:
    name = first_name(STORED_AT * 10**9, 4242, "0123456789abcdef", "demo")

    assert name == NEW
    assert read(name).next_try == STORED_AT + MINUTE


@pytest.mark.parametrize("before", [NEW, f"{UNIQUE}{TRIED},waiting=421.ventas", DOUBT])
@pytest.mark.parametrize(
    ("word", "verdict", "state"),
    [
        ("451", {}, State.WAITING),
        ("550", {"refused": True}, State.REFUSED),
        ("", {"mark": ".sending"}, State.IN_DOUBT),
        ("", {"mark": ".doubt"}, State.IN_DOUBT),
    ],
)
def test_an_attempt_is_read_as_it_was_noted(before: str, word: str, verdict: dict[str, Any], state: State) -> None:
    kept = read(before)
    after = tried(kept, DAY_ONE + 0.9, word, **verdict)

    assert (after.tries, after.last_at, after.last_code) == (kept.tries + 1, DAY_ONE + 0.9, word)
    assert after.state is (State.IN_DOUBT if kept.is_doubtful else state)
    assert (after.unique, after.form_type) == (kept.unique, kept.form_type)


@pytest.mark.parametrize(
    ("waited", "pause"),
    [
        (0, MINUTE),
        (MINUTE - 1, MINUTE),
        (MINUTE + 1, MINUTE + 1),
        (2 * HOUR, 2 * HOUR),
        (4 * HOUR + 1, 4 * HOUR),
        (DAY, 4 * HOUR),
        (-DAY, MINUTE),
    ],
)
def test_a_pause_is_as_long_as_the_message_has_waited(waited: float, pause: float) -> None:
    kept = tried(read(NEW), STORED_AT + waited)
    next_try = STORED_AT + waited + pause

    assert kept.next_try == next_try
    assert [kept.is_due(moment) for moment in (next_try - 1, next_try)] == [False, True]


@pytest.mark.parametrize(
    ("age", "tries", "state"),
    [
        (5 * DAY, 10, State.GIVEN_UP),
        (5 * DAY - 1, 10, State.WAITING),
        (5 * DAY, 9, State.WAITING),
        (365 * DAY, 9, State.WAITING),
    ],
)
def test_a_message_is_given_up_by_a_failure_after_five_days_and_ten_attempts(
    age: float, tries: int, state: State
) -> None:
    kept = read(f"{UNIQUE},tries={tries},last={STORED_AT + age}.000,waiting=451.demo")

    assert (kept.state, kept.next_try is None) == (state, state is State.GIVEN_UP)


@pytest.mark.parametrize(
    "suffix",
    [
        f"{TRIED},refused=550.demo",
        f"{TRIED},waiting=.demo.doubt",
        f"{TRIED},waiting=.demo.sending",
        f",tries=35,last={STORED_AT + 5 * DAY}.000,waiting=451.demo",
    ],
)
def test_what_needs_a_hand_is_never_due(suffix: str) -> None:
    now = STORED_AT + 365 * DAY
    kept = read(UNIQUE + suffix)

    assert (kept.next_try, kept.is_due(now), kept.is_due(now, now)) == (None, False, False)


@pytest.mark.parametrize(
    ("last_at", "back_at", "is_due"),
    [
        pytest.param(DAY_ONE - 1, 0, False, id="in its pause"),
        pytest.param(DAY_ONE - 1, DAY_ONE, True, id="the server has come back since"),
        pytest.param(DAY_ONE - 1, DAY_ONE - 1, False, id="tried since the server came back"),
        pytest.param(DAY_ONE + 59, 0, False, id="tried by a clock that was a little ahead"),
        pytest.param(DAY_ONE + 61, 0, True, id="the clock was set back"),
    ],
)
def test_a_return_of_the_server_and_a_clock_that_was_set_back_end_the_pause(
    last_at: float, back_at: float, *, is_due: bool
) -> None:
    kept = read(f"{UNIQUE},tries=1,last={last_at:.3f},waiting=451.demo")

    assert kept.is_due(DAY_ONE, back_at) is is_due
