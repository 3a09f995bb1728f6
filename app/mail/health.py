"""Whether mail could be delivered now: checked in the background, shared by all who ask."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from app.mail.mailer import Mailer

CHECK_INTERVAL = 15.0
"""Seconds from the end of one check to the start of the next."""

MAX_AGE = 30.0
"""Seconds after which a result counts no more: the check hangs, and so would a message."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MailCheck:
    """The outcome of one check; until the first one ended, mail counts as failing."""

    ok: bool = False
    checked_at: datetime | None = None
    latency_ms: float | None = None
    undelivered: int = 0


class MailHealth:
    """Checks the mail transport every CHECK_INTERVAL seconds in a thread of its own, so that nobody who asks waits."""

    def __init__(self, mailer: Mailer) -> None:
        self._mailer = mailer
        self._latest = MailCheck()
        self._first_result = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    @property
    def transport(self) -> str:
        """The kind of transport that is checked."""
        return self._mailer.transport

    def start(self, *, wait: float = 0) -> None:
        """Begin to check, once per process; wait for the first result, so many seconds at most."""
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="mail-health", daemon=True)
            self._thread.start()
        self._first_result.wait(wait)

    def latest(self) -> MailCheck:
        """The newest result; begins to check if the server that runs the app has not asked for it."""
        if self._thread is None:
            self.start()
        latest = self._latest
        if latest.checked_at and (datetime.now(UTC) - latest.checked_at).total_seconds() > MAX_AGE:
            return replace(latest, ok=False)
        return latest

    def stop(self) -> None:
        """End the thread; returns once it has, unless a check is under way."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(1)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._latest = self._check()
            self._first_result.set()
            self._stopped.wait(CHECK_INTERVAL)

    def _check(self) -> MailCheck:
        begun = time.perf_counter()
        try:
            self._mailer.check()
            ok = True
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the result, and the thread must live on
            if self._latest.ok or self._latest.checked_at is None:
                logger.warning("the mail check fails: %s", type(error).__name__)
            ok = False
        latency_ms = round((time.perf_counter() - begun) * 1000, 1)
        return MailCheck(ok, datetime.now(UTC), latency_ms, self._count())

    def _count(self) -> int:
        try:
            return self._mailer.undelivered()
        except OSError:
            return self._latest.undelivered
