"""The service's redelivery without its thread: its pauses move the clock."""

from __future__ import annotations

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
        now, now_ns, monotonic = time.time(), time.time_ns(), time.monotonic()
        patch.setattr(time, "time", lambda: now + self.passed + self.wall)
        patch.setattr(time, "time_ns", lambda: now_ns + int((self.passed + self.wall) * 1e9))
        patch.setattr(time, "monotonic", lambda: monotonic + self.passed)


class Service:
    """A redelivery whose pauses move the clock."""

    def __init__(self, mailer: Mailer, mail_dir: Path, clock: Clock) -> None:
        self.mailer = mailer
        self.redelivery = Redelivery(mailer, Spool(mail_dir), patience=10)
        self._clock = clock
        self._pause = 0.0

    def run(self, seconds: float, *, meanwhile: Callable[[], None] = lambda: None, every: float = DAY) -> None:
        """Let so many seconds pass; ``meanwhile`` is called ``every`` so many seconds."""
        end = self._clock.passed + seconds
        call_at = self._clock.passed + every
        while self._clock.passed < end:
            if self._pause <= 0:
                self._pause = self.redelivery.work()
            passing = min(self._pause, end - self._clock.passed, call_at - self._clock.passed)
            self._clock.passed += passing
            self._pause -= passing
            if self._clock.passed >= call_at:
                call_at += every
                meanwhile()

    def check(self, *, passes: bool) -> None:
        """Tell the redelivery of a check of the mail server, as the health does."""
        self.redelivery.server_checked(passes)
        self._pause = 0


Serve = Callable[[Mailer], Service]
