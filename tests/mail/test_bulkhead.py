"""Who gets a slot in front of the mail server, who waits and who is turned away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.mail.bulkhead import Bulkhead, FullError

LONG = 30.0


class Occupant:
    """Holds a slot until it is told to leave."""

    def __init__(self, bulkhead: Bulkhead, pool: ThreadPoolExecutor) -> None:
        self.inside = threading.Event()
        self.leave = threading.Event()
        self.done = pool.submit(self._stay, bulkhead)

    def _stay(self, bulkhead: Bulkhead) -> None:
        with bulkhead.slot():
            self.inside.set()
            self.leave.wait(LONG)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def wait_until_waiting(bulkhead: Bulkhead) -> None:
    while bulkhead.waiting < bulkhead.waiting_room:
        threading.Event().wait(0.001)


def test_as_many_as_there_are_slots_are_inside_at_once(pool: ThreadPoolExecutor) -> None:
    bulkhead = Bulkhead(slots=2, waiting_room=0, patience=LONG)

    occupants = [Occupant(bulkhead, pool) for _ in range(2)]

    assert all(occupant.inside.wait(LONG) for occupant in occupants)
    with pytest.raises(FullError), bulkhead.slot():
        pass
    for occupant in occupants:
        occupant.leave.set()


def test_who_waits_gets_the_slot_that_becomes_free(pool: ThreadPoolExecutor) -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=1, patience=LONG)
    first = Occupant(bulkhead, pool)
    first.inside.wait(LONG)
    second = Occupant(bulkhead, pool)
    wait_until_waiting(bulkhead)
    assert not second.inside.is_set()

    first.leave.set()

    assert second.inside.wait(LONG)
    second.leave.set()


def test_a_full_waiting_room_turns_away_at_once(pool: ThreadPoolExecutor) -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=1, patience=LONG)
    first = Occupant(bulkhead, pool)
    first.inside.wait(LONG)
    second = Occupant(bulkhead, pool)
    wait_until_waiting(bulkhead)

    with pytest.raises(FullError), bulkhead.slot():
        pass

    for occupant in (first, second):
        occupant.leave.set()


def test_patience_ends_and_leaves_the_waiting_room_to_others(pool: ThreadPoolExecutor) -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=1, patience=0.01)
    first = Occupant(bulkhead, pool)
    first.inside.wait(LONG)

    for _ in range(3):
        with pytest.raises(FullError), bulkhead.slot():
            pass

    assert bulkhead.waiting == 0
    first.leave.set()
    first.done.result()
    with bulkhead.slot():
        pass


def test_a_failure_inside_gives_the_slot_back() -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=0, patience=LONG)

    with pytest.raises(ConnectionRefusedError), bulkhead.slot():
        raise ConnectionRefusedError

    with bulkhead.slot():
        pass
