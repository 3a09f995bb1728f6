"""The names of kept messages: what they say, and when the next attempt is due."""

from __future__ import annotations

from typing import Any

import pytest

from app.mail.kept import Census, Kept, State, first_name, read_path

STORED_AT = 1_700_000_000
UNIQUE = f"{STORED_AT}000000000.4242.0123456789abcdef"
MINUTE, HOUR, DAY = 60, 3600, 86_400
DAY_ONE = STORED_AT + HOUR
TRIED = ",tries=3,last=1700000060.000"
"""The time is that of the first attempt, a minute after the message was stored."""

NEW = f"{UNIQUE},tries=0,last={STORED_AT}.000,waiting=.demo.0"
DOUBT = f"{UNIQUE}{TRIED},waiting=.demo.2.doubt"


def read(name: str, now: float = DAY_ONE, *, has_server: bool = True) -> Kept:
    kept = read_path(f"new/{name}", now, has_server=has_server)
    assert kept is not None
    return kept


def tried(kept: Kept, now: float, word: str = "451", **verdict: Any) -> Kept:
    """The message after an attempt."""
    return read(kept.after(now, word, **verdict).removeprefix("new/"), now)


@pytest.mark.parametrize(
    ("suffix", "state", "tries", "steps", "word", "form_type"),
    [
        (f",tries=0,last={STORED_AT}.000,waiting=.demo.0", State.WAITING, 0, 0, "", "demo"),
        (f"{TRIED},waiting=451.ventas.1", State.WAITING, 3, 1, "451", "ventas"),
        (f"{TRIED},waiting=ConnectionRefusedError..2", State.WAITING, 3, 2, "ConnectionRefusedError", ""),
        (f"{TRIED},refused=550.demo.2", State.REFUSED, 3, 2, "550", "demo"),
        (f"{TRIED},waiting=.demo.2.doubt", State.IN_DOUBT, 3, 2, "", "demo"),
        (f"{TRIED},waiting=451.demo.2.doubt", State.IN_DOUBT, 3, 2, "451", "demo"),
        (f"{TRIED},refused=550.demo.2.doubt", State.IN_DOUBT, 3, 2, "550", "demo"),
        # A mail reader's flags say nothing:
        (f"{TRIED},waiting=451.demo.1:2,FS", State.WAITING, 3, 1, "451", "demo"),
        (f"{TRIED},refused=550.demo.2:2,", State.REFUSED, 3, 2, "550", "demo"),
        (f"{TRIED},waiting=.demo.2.doubt:2,S", State.IN_DOUBT, 3, 2, "", "demo"),
    ],
)
def test_a_name_says_what_may_be_shown_of_a_message(
    suffix: str, state: State, tries: int, steps: int, word: str, form_type: str
) -> None:
    kept = read(UNIQUE + suffix)

    assert (kept.state, kept.tries, kept.steps, kept.last_code, kept.form_type) == (
        state,
        tries,
        steps,
        word,
        form_type,
    )
    assert (kept.stored_at, kept.unique, kept.local_part) == (STORED_AT, UNIQUE, "0123456789abcdef")
    assert kept.tried_at == (STORED_AT + MINUTE if tries else None)
    assert kept.is_untaken == (state is State.WAITING)
    assert read(UNIQUE + suffix, has_server=False).state is State.STORED


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
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451.demo",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451.demo.0.lost",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451.DEMO.0",
        f"new/{UNIQUE},tries=1234567890,last=2.000,waiting=451.demo.0",
        f"new/{UNIQUE},tries=1,last=2.000,waiting=451",
        "new/" + "9" * 5000 + NEW,
        f"new/a/{NEW}",
    ],
)
def test_another_name_is_none_of_a_message(path: str) -> None:
    assert read_path(path, DAY_ONE, has_server=True) is None


def test_the_first_name_is_that_of_a_message_nobody_has_tried_yet() -> None:
    name = first_name(STORED_AT * 10**9, 4242, "0123456789abcdef", "demo")

    assert name == NEW
    assert read(name).next_try == STORED_AT + MINUTE


@pytest.mark.parametrize(
    ("local_part", "request_id", "reference"),
    [
        ("3f0c9a1b5566778899aabbccddeeff00.0123456789abcdef", "3f0c9a1b5566778899aabbccddeeff00", "3F0C-9A1B"),
        ("3f0c9a1b5566778899aabbccddeeff00", None, None),
        ("test", None, None),
    ],
)
def test_the_request_stands_in_the_message_id(local_part: str, request_id: str | None, reference: str | None) -> None:
    kept = read(NEW.replace("0123456789abcdef", local_part))

    assert (kept.local_part, kept.request_id, kept.reference) == (local_part, request_id, reference)


WAITING = f"{UNIQUE}{TRIED},waiting=421.ventas.2"


@pytest.mark.parametrize("before", [NEW, WAITING], ids=["new", "waiting"])
@pytest.mark.parametrize(
    ("word", "verdict", "is_refused", "is_doubtful"),
    [
        ("451", {}, False, False),
        ("550", {"refused": True}, True, False),
        ("", {"mark": ".sending"}, False, True),
        ("", {"mark": ".doubt"}, False, True),
    ],
    ids=["waiting", "refused", "being sent", "in doubt"],
)
def test_an_attempt_is_read_as_it_was_noted(
    before: str, word: str, verdict: dict[str, Any], *, is_refused: bool, is_doubtful: bool
) -> None:
    kept = read(before)
    after = tried(kept, DAY_ONE + 0.9, word, **verdict)

    assert (after.tries, after.tried_at, after.last_code) == (kept.tries + 1, DAY_ONE + 0.9, word)
    assert (after.state is State.REFUSED, after.is_doubtful) == (is_refused, is_doubtful)
    assert (after.unique, after.form_type) == (kept.unique, kept.form_type)


@pytest.mark.parametrize("word", ["451", "550"])
def test_what_is_in_doubt_stays_so(word: str) -> None:
    after = tried(read(DOUBT), DAY_ONE, word, refused=word == "550")

    assert (after.tries, after.last_code, after.is_doubtful, after.state) == (4, word, True, State.IN_DOUBT)


@pytest.mark.parametrize(("seconds", "steps"), [(MINUTE - 1, 0), (MINUTE, 1)], ids=["early", "in its turn"])
def test_only_an_attempt_in_turn_uses_a_step(seconds: int, steps: int) -> None:
    after = tried(read(NEW), STORED_AT + seconds)

    assert (after.tries, after.steps) == (1, steps)


def test_an_attempt_out_of_turn_moves_no_turn() -> None:
    before = read(f"{UNIQUE},tries=6,last={STORED_AT}.000,waiting=451.demo.5")
    after = tried(tried(before, STORED_AT + MINUTE), STORED_AT + 2 * MINUTE)

    assert (after.tries, after.steps, after.next_try) == (8, 5, before.next_try)
    assert after.tried_at == STORED_AT + 2 * MINUTE


def test_the_steps_follow_each_other_after_1_5_15_30_and_60_minutes_and_then_every_4_hours_for_5_days() -> None:
    now: float = STORED_AT
    kept, pauses = read(NEW, now), []
    while (turn := kept.next_try) is not None:
        pauses.append(turn - now)
        assert [kept.is_due(moment) for moment in (turn - 1, turn)] == [False, True]
        kept, now = tried(kept, turn), turn
    name = kept.path.removeprefix("new/")

    assert [pause / MINUTE for pause in pauses[:7]] == [1, 5, 15, 30, 60, 240, 240]
    assert set(pauses[5:]) == {4 * HOUR}
    assert kept.steps == kept.tries == len(pauses)
    assert 0 < STORED_AT + 5 * DAY - now <= 4 * HOUR
    assert read(name, STORED_AT + 5 * DAY - 1).state is State.WAITING
    assert read(name, STORED_AT + 5 * DAY).state is State.GIVEN_UP


@pytest.mark.parametrize(
    ("hours", "tried_at", "steps", "state", "is_due"),
    [
        pytest.param(120, 116.1, 10, State.GIVEN_UP, False, id="the next turn would come after the end"),
        pytest.param(119.9, 116.1, 10, State.WAITING, False, id="not the end yet"),
        pytest.param(130, 24, 10, State.WAITING, True, id="a turn was missed"),
        pytest.param(130, 130, 10, State.GIVEN_UP, False, id="the missed turn was made up for"),
        pytest.param(130, 129, 9, State.WAITING, False, id="too few steps"),
        pytest.param(133, 129, 9, State.WAITING, True, id="the turn after too few steps"),
    ],
)
def test_a_message_is_given_up_after_five_days_ten_steps_and_its_last_turn(
    hours: float, tried_at: float, steps: int, state: State, *, is_due: bool
) -> None:
    name = f"{UNIQUE},tries=40,last={STORED_AT + tried_at * HOUR:.3f},waiting=451.demo.{steps}"
    now = STORED_AT + hours * HOUR
    kept = read(name, now)

    assert (kept.state, kept.is_due(now)) == (state, is_due)


@pytest.mark.parametrize(
    "suffix",
    [
        f"{TRIED},refused=550.demo.2",
        f"{TRIED},waiting=.demo.2.doubt",
        f",tries=35,last={STORED_AT + 5 * DAY}.000,waiting=451.demo.34",
    ],
)
def test_what_needs_a_hand_is_never_due(suffix: str) -> None:
    now = STORED_AT + 365 * DAY
    kept = read(UNIQUE + suffix, now)

    assert (kept.next_try, kept.is_due(now)) == (None, False)


def test_without_a_mail_server_nothing_is_due() -> None:
    kept = read(NEW, has_server=False)

    assert (kept.next_try, kept.is_untaken) == (None, False)


@pytest.mark.parametrize(("ahead", "is_due"), [(59, False), (61, True)])
def test_a_clock_that_was_set_back_holds_up_nothing(ahead: float, *, is_due: bool) -> None:
    name = f"{UNIQUE},tries=1,last={DAY_ONE + ahead:.3f},waiting=451.demo.0"

    assert read(name, DAY_ONE).is_due(DAY_ONE) is is_due


def test_the_census_counts_each_state_and_knows_the_oldest() -> None:
    later = f"{STORED_AT + 5}000000000.1.b,tries=0,last={STORED_AT + 5}.000,waiting=.demo.0"

    census = Census([read(later), read(NEW), read(DOUBT)])

    assert census.counts == {State.WAITING: 2, State.IN_DOUBT: 1}
    assert census.oldest == {State.WAITING: STORED_AT, State.IN_DOUBT: STORED_AT}
