"""The service's redelivery without its thread: its pauses move the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.mail.mailer import Mailer
from app.mail.redelivery import Redelivery
from app.mail.spool import Spool

DAY = 86_400


class Clock:
    """The clocks, which a test alone puts forward; ``wall`` is the part by which the wall clock alone was set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.passed = self.wall = 0.0
        self.start, monotonic = float(round(time.time())), round(time.monotonic())  # sums of whole seconds are exact
        patch.setattr(time, "time", lambda: self.start + self.passed + self.wall)
        patch.setattr(time, "time_ns", lambda: round(time.time() * 1_000) * 1_000_000)
        patch.setattr(time, "monotonic", lambda: monotonic + self.passed)


class Service:
    """A redelivery whose pauses, between two rounds and within one, move the clock.

    Its thread and the one of the test take turns: one of them alone runs at any moment.
    """

    def __init__(self, mailer: Mailer, mail_dir: Path, clock: Clock) -> None:
        self.mailer = mailer
        self.redelivery = Redelivery(mailer, Spool(mail_dir), patience=10)
        self._clock = clock
        self._goes_on_at = 0.0
        self._turn, self._test_s_turn = threading.Semaphore(0), threading.Semaphore(0)
        loop = self.redelivery.loop
        loop.pause = self._pause  # type: ignore[method-assign]
        loop.wake = self._wake  # type: ignore[method-assign]
        self._is_in_a_round = self._is_woken = False
        threading.Thread(target=self._work, daemon=True).start()

    def run(self, seconds: float, *, meanwhile: Callable[[], None] = lambda: None, every: float = DAY) -> None:
        """Let so many seconds pass; ``meanwhile`` is called ``every`` so many seconds."""
        end = self._clock.passed + seconds
        call_at = self._clock.passed + every
        while True:
            self._clock.passed = max(self._clock.passed, min(self._goes_on_at, call_at, end))
            if self._clock.passed >= end:
                return
            if self._clock.passed >= call_at:
                call_at += every
                meanwhile()
            else:
                self._turn.release()
                assert self._test_s_turn.acquire(timeout=60)

    def check(self, *, passes: bool) -> None:
        """Tell the redelivery of a check of the mail server, as the health does."""
        self._clock.passed += 0.125
        self.redelivery.server_checked(passes)

    def _work(self) -> None:
        self._turn.acquire()
        while True:
            self._is_in_a_round, self._is_woken = True, False
            pause = self.redelivery.work()
            self._is_in_a_round = False
            self._pause(0.0 if self._is_woken else pause)

    def _pause(self, seconds: float) -> None:
        self._goes_on_at = self._clock.passed + seconds
        self._test_s_turn.release()
        self._turn.acquire()

    def _wake(self) -> None:
        self._is_woken = True
        if not self._is_in_a_round:
            self._goes_on_at = 0.0


Serve = Callable[[Mailer], Service]
