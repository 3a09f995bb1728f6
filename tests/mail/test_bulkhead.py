"""Who gets a slot in front of the mail server, who waits and who is turned away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.mail.bulkhead import Bulkhead, FullError
from tests.waiting import wait_until

LONG = 30.0


class Occupant:
    """Holds a slot until it is told to leave."""

    def __init__(self, bulkhead: Bulkhead, pool: ThreadPoolExecutor) -> None:
        self.inside, self.leave = threading.Event(), threading.Event()
        self.done = pool.submit(self._stay, bulkhead)

    def _stay(self, bulkhead: Bulkhead) -> None:
        with bulkhead.slot():
            self.inside.set()
            self.leave.wait(LONG)


Enter = Callable[[Bulkhead], Occupant]


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Lets somebody in, who leaves at the end of the test at the latest."""
    occupants: list[Occupant] = []

    def enter(bulkhead: Bulkhead) -> Occupant:
        occupants.append(Occupant(bulkhead, pool))
        return occupants[-1]

    with ThreadPoolExecutor(8) as pool:
        yield enter
        for occupant in occupants:
            occupant.leave.set()


def is_full(bulkhead: Bulkhead) -> bool:
    try:
        with bulkhead.slot():
            return False
    except FullError:
        return True


def test_as_many_as_there_are_slots_are_inside_at_once(enter: Enter) -> None:
    bulkhead = Bulkhead(slots=2, waiting_room=0, patience=LONG)

    assert all(enter(bulkhead).inside.wait(LONG) for _ in range(2))
    assert is_full(bulkhead)


def test_who_waits_gets_the_slot_that_becomes_free_and_a_full_waiting_room_turns_away_at_once(enter: Enter) -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=1, patience=LONG)
    first = enter(bulkhead)
    assert first.inside.wait(LONG)
    second = enter(bulkhead)
    wait_until(lambda: bulkhead.waiting == 1)

    assert is_full(bulkhead)
    assert not second.inside.is_set()
    first.leave.set()
    assert second.inside.wait(LONG / 3), "and not only when its patience ends"


def test_patience_ends_and_leaves_the_waiting_room_to_others(enter: Enter) -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=1, patience=0.01)
    first = enter(bulkhead)
    assert first.inside.wait(LONG)

    assert [is_full(bulkhead) for _ in range(3)] == [True] * 3
    assert bulkhead.waiting == 0
    first.leave.set()
    first.done.result()
    assert not is_full(bulkhead)


def test_a_failure_inside_gives_the_slot_back() -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=0, patience=LONG)

    with pytest.raises(ConnectionRefusedError), bulkhead.slot():
        raise ConnectionRefusedError

    assert not is_full(bulkhead)
