"""The names of queued messages: what they say, and whether there is a next attempt."""

import pytest

from app.mail.queued import QueuedMessage, State, parse_path

STORED_AT = 1_700_000_000
UNIQUE = f"{STORED_AT}000000000.4242.0123456789abcdef"
MINUTE, DAY = 60, 86_400
LATE = STORED_AT + 365 * DAY
TRIED = ",tries=3,last=1700000060.000"
"""The time is that of the first attempt, a minute after the message was stored."""

NEW = f"{UNIQUE},tries=0,last={STORED_AT}.000,waiting=.demo"


def read(name: str, now: float = STORED_AT, *, has_server: bool = True) -> QueuedMessage:
    queued = parse_path(f"new/{name}", now, has_server=has_server)
    assert queued is not None
    return queued


READ: dict[str, tuple[State, int, str, str]] = {
    f",tries=0,last={STORED_AT}.000,waiting=.demo": (State.WAITING, 0, "", "demo"),
    f"{TRIED},waiting=451.ventas": (State.WAITING, 3, "451", "ventas"),
    f"{TRIED},waiting=connection.": (State.WAITING, 3, "connection", ""),
    f"{TRIED},refused=550.demo": (State.REFUSED, 3, "550", "demo"),
    f"{TRIED},waiting=.demo.doubt": (State.IN_DOUBT, 3, "", "demo"),
    f"{TRIED},waiting=.demo.sending": (State.IN_DOUBT, 3, "", "demo"),
    f"{TRIED},refused=550.demo.doubt": (State.IN_DOUBT, 3, "550", "demo"),
}


@pytest.mark.parametrize(("suffix", "said"), READ.items())
def test_a_name_says_what_may_be_shown_of_a_message_and_whether_it_is_ever_due(
    suffix: str, said: tuple[State, int, str, str]
) -> None:
    queued, is_waiting = read(UNIQUE + suffix), said[0] is State.WAITING

    assert (queued.state, queued.attempts, queued.last_code, queued.form_type) == said
    assert (queued.stored_at, queued.unique, queued.local_part) == (STORED_AT, UNIQUE, "0123456789abcdef")
    assert queued.last_at == STORED_AT + (MINUTE if queued.attempts else 0)
    assert {queued.is_retryable, queued.next_attempt is not None, queued.is_due(LATE), queued.is_due(LATE, LATE)} == {
        is_waiting
    }
    stored = read(UNIQUE + suffix, has_server=False)
    assert (stored.state, stored.next_attempt) == (State.STORED, None)


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
    assert parse_path(path, STORED_AT, has_server=True) is None


@pytest.mark.parametrize(
    ("age", "tries", "last", "state"),
    [
        (5 * DAY, 10, 5 * DAY, State.GIVEN_UP),
        (5 * DAY, 10, MINUTE, State.GIVEN_UP),
        (5 * DAY - 1, 10, MINUTE, State.WAITING),
        (365 * DAY, 9, MINUTE, State.WAITING),
        # The clock was six days ahead for a moment.
        (5 * DAY - 1, 10, 6 * DAY, State.WAITING),
    ],
)
def test_a_message_is_given_up_by_its_age_now_and_its_attempts(
    age: float, tries: int, last: float, state: State
) -> None:
    queued = read(f"{UNIQUE},tries={tries},last={STORED_AT + last}.000,waiting=451.demo", STORED_AT + age)

    assert queued.state is state
    assert {queued.next_attempt is None, not queued.is_due(2 * LATE, 2 * LATE)} == {state is State.GIVEN_UP}
