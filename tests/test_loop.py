"""Work that repeats in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from app.loop import Loop
from tests.conftest import MakeApp

PATIENCE = 30.0
"""Seconds in which a busy machine gets to anything."""


class Work:
    """Counts how often it was done, and hangs while a test holds it."""

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self.done = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self) -> float:
        self.done.release()
        self.may_end.wait(PATIENCE)
        return self.pause

    def was_done(self) -> bool:
        return self.done.acquire(timeout=PATIENCE)


@pytest.fixture
def make_loop() -> Iterator[Callable[..., tuple[Loop, Work]]]:
    """Starts a loop."""
    started = []

    def make(pause: float, *, patience: float = PATIENCE, hangs: bool = False) -> tuple[Loop, Work]:
        work = Work(pause)
        if hangs:
            work.may_end.clear()
        loop = Loop("test", work, patience=patience)
        started.append((loop, work))
        loop.start()
        assert work.was_done()
        return loop, work

    yield make
    for loop, work in started:
        work.may_end.set()
        loop.stop()


MakeLoop = Callable[..., tuple[Loop, Work]]


def test_it_repeats_after_the_pause_that_the_work_asks_for(make_loop: MakeLoop) -> None:
    _, work = make_loop(0.01)

    assert all(work.was_done() for _ in range(3))


def test_it_says_when_the_work_has_been_done_once(make_loop: MakeLoop) -> None:
    loop, work = make_loop(3600, hangs=True)
    before = loop.first_done.is_set()
    work.may_end.set()

    assert (before, loop.first_done.wait(PATIENCE)) == (False, True)


@pytest.mark.parametrize("hangs", [False, True], ids=["in the pause", "during the work"])
def test_it_can_be_woken(make_loop: MakeLoop, *, hangs: bool) -> None:
    loop, work = make_loop(3600, hangs=hangs)
    loop.wake()
    work.may_end.set()

    assert work.was_done()
    assert not work.done.acquire(timeout=0.05), "once"


def test_a_stop_ends_the_pause(make_loop: MakeLoop) -> None:
    others = set(threading.enumerate())
    loop, _ = make_loop(3600)
    (thread,) = set(threading.enumerate()) - others
    loop.stop()

    assert not thread.is_alive()


def test_it_winds_down_and_the_work_can_see_it(make_loop: MakeLoop) -> None:
    loop, work = make_loop(0, hangs=True)
    loop.wind_down()
    stopping = loop.is_stopping
    work.may_end.set()
    loop.stop()

    assert stopping
    assert not work.done.acquire(blocking=False)


def test_a_stop_waits_for_the_work_no_longer_than_its_patience(make_loop: MakeLoop) -> None:
    loop, _ = make_loop(0, patience=0.05, hangs=True)
    begun = time.monotonic()
    loop.stop()

    assert 0.05 <= time.monotonic() - begun < PATIENCE / 2


def test_a_pause_within_the_work_passes_unless_a_stop_ends_it() -> None:
    over = threading.Event()

    def work() -> float:
        loop.pause(3600)
        over.set()
        return 0

    loop = Loop("test", work)
    loop.start()
    was_over_before = over.wait(0.1)
    loop.wake()  # the work has time: it ends pauses between two times alone
    was_over_after_the_wake = over.wait(0.1)
    loop.wind_down()

    assert over.wait(PATIENCE)
    assert (was_over_before, was_over_after_the_wake) == (False, False)
    loop.stop()


def test_one_that_was_never_started_can_be_stopped() -> None:
    Loop("test", Work(0)).stop()


def test_all_loops_of_a_service_wind_down_before_one_is_waited_for(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = make_app().extensions["background"]
    loops = background._loops  # nothing else shows them all
    waited_for: list[bool] = []

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "stop", lambda _: waited_for.append(all(loop.is_stopping for loop in loops)))
        background.stop()

    assert waited_for == [True] * len(loops)
    assert len(loops) > 1
