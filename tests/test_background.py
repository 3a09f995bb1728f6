"""Work that repeats in a thread of its own."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from app.background import Loop
from tests.conftest import MakeApp

PATIENCE = 30.0
"""Seconds in which a busy machine gets to anything."""


class Working(NamedTuple):
    loop: Loop
    begun: threading.Semaphore
    """Released each time when the work begins."""
    may_end: threading.Event

    def begins(self) -> bool:
        return self.begun.acquire(timeout=PATIENCE)


@contextmanager
def working(*, pause: float = 3600, timeout: float = PATIENCE, hangs: bool = False) -> Iterator[Working]:
    """A loop that has begun its work for the first time; if it hangs in it, then until it may end."""
    begun, may_end = threading.Semaphore(0), threading.Event()

    def work() -> float:
        begun.release()
        may_end.wait(PATIENCE if hangs else 0)
        return pause

    at_work = Working(Loop("test", work, timeout=timeout), begun, may_end)
    at_work.loop.start()
    assert at_work.begins()
    yield at_work
    may_end.set()
    at_work.loop.stop()
    at_work.loop.join()


def test_it_repeats_after_the_pause_that_the_work_asks_for() -> None:
    with working(pause=0.01) as work:
        assert all(work.begins() for _ in range(3))


def test_it_says_when_the_work_has_been_done_once() -> None:
    with working(hangs=True) as work:
        assert not work.loop.first_done.is_set()
        work.may_end.set()
        assert work.loop.first_done.wait(PATIENCE)


@pytest.mark.parametrize("hangs", [False, True], ids=["in the pause", "during the work"])
def test_it_is_woken_once(*, hangs: bool) -> None:
    with working(hangs=hangs) as work:
        work.loop.wake()
        work.may_end.set()

        assert work.begins()
        assert not work.begun.acquire(timeout=0.05)


def test_a_stop_ends_the_pause_and_the_thread() -> None:
    with working() as work:
        work.loop.stop()
        work.loop.join()

        assert "test" not in [thread.name for thread in threading.enumerate()]


def test_work_can_see_a_stop_and_is_not_repeated() -> None:
    with working(pause=0, hangs=True) as work:
        work.loop.stop()
        assert work.loop.is_stopping

    assert not work.begun.acquire(blocking=False)


def test_a_join_waits_for_the_work_no_longer_than_its_timeout() -> None:
    with working(timeout=0.05, hangs=True) as work:
        begun = time.monotonic()
        work.loop.stop()
        work.loop.join()

        assert 0.05 <= time.monotonic() - begun < PATIENCE / 2


def test_a_stop_ends_a_pause_within_the_work_and_a_wake_does_not() -> None:
    over = threading.Event()

    def work() -> float:
        loop.sleep(3600)
        over.set()
        return 0

    loop = Loop("test", work)
    loop.start()
    loop.wake()
    assert not over.wait(0.1)
    loop.stop()

    assert over.wait(PATIENCE)


def test_one_that_was_never_started_can_be_stopped() -> None:
    loop = Loop("test", lambda: 0)
    loop.stop()
    loop.join()


def test_all_loops_of_a_service_are_stopped_before_one_is_joined(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = make_app().extensions["background"]
    loops = background.loops
    waited_for: list[bool] = []

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "join", lambda _: waited_for.append(all(loop.is_stopping for loop in loops)))
        background.stop()

    assert waited_for == [True] * len(loops)
    assert len(loops) > 1
