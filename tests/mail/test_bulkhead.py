"""Who gets a slot in front of the mail server, who waits and who is turned away."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.mail.bulkhead import Bulkhead, FullError
from tests.waiting import wait_until

LONG = 30.0


def is_full(bulkhead: Bulkhead) -> bool:
    try:
        with bulkhead.slot():
            return False
    except FullError:
        return True


def test_who_waits_gets_the_slot_that_becomes_free_and_a_full_waiting_room_turns_away_at_once() -> None:
    bulkhead, inside = Bulkhead(slots=2, waiting_room=1, timeout=LONG), threading.Event()

    def come_in() -> None:
        with bulkhead.slot():
            inside.set()

    with ThreadPoolExecutor(2) as pool:
        with bulkhead.slot(), bulkhead.slot():
            pool.submit(come_in)
            wait_until(lambda: bulkhead.waiting == 1)
            assert pool.submit(is_full, bulkhead).result(LONG / 3), "and not only when its time is over"
            assert not inside.is_set()
        assert inside.wait(LONG / 3), "and not only when its time is over"


def test_a_wait_ends_and_leaves_the_waiting_room_to_others() -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=1, timeout=0.01)

    with bulkhead.slot():
        assert [is_full(bulkhead) for _ in range(3)] == [True] * 3
        assert bulkhead.waiting == 0
    assert not is_full(bulkhead)


def test_a_failure_inside_gives_the_slot_back() -> None:
    bulkhead = Bulkhead(slots=1, waiting_room=0, timeout=LONG)

    with pytest.raises(ConnectionRefusedError), bulkhead.slot():
        raise ConnectionRefusedError

    assert not is_full(bulkhead)
