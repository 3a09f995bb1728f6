"""The checks of the mail server and of MAIL_DIR: made in the background, shared by all who ask."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from app.mail.mailer import Mailer
from app.mail.spool import Spool

CHECK_INTERVAL = 15.0
"""Seconds from the end of one check to the start of the next."""

MAX_AGE = 30.0
"""Seconds after which a result counts no more: the check hangs, and so would a message."""

OK, FAIL = "ok", "fail"
STORAGE_STATES = {errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EROFS: "read_only"}
"""The states of a disk that takes nothing, by the error of the system; any other error is FAIL."""

logger = logging.getLogger(__name__)


class MailCheck(NamedTuple):
    """The findings of the checks; until both have ended once, mail counts as failing."""

    ok: bool
    server: str | None
    """``ok`` or ``fail``; None without a mail server and before the first result."""
    storage: str | None
    """``ok``, ``full``, ``read_only`` or ``fail``; None before the first result."""
    checked_at: datetime | None
    """Of the mail server if there is one, else of the storage; so is the latency."""
    latency_ms: float | None
    undelivered: int


class MailHealth:
    """Checks the mail server and the storage every CHECK_INTERVAL seconds, each in a thread of its own.

    So nobody who asks waits, and the one is known while the other hangs.
    """

    def __init__(self, mailer: Mailer, spool: Spool) -> None:
        self._mailer = mailer
        self._spool = spool
        self._undelivered = 0
        self._storage = _Check("storage", self._check_storage, STORAGE_STATES)
        self._server = _Check("server", mailer.check, {}) if mailer.check else None
        self._checks = [check for check in (self._server, self._storage) if check]
        self._started = False
        self._lock = threading.Lock()

    @property
    def transport(self) -> str:
        """The kind of transport that is checked."""
        return self._mailer.transport

    def start(self, *, wait: float = 0) -> None:
        """Begin to check, once per process; wait for the first results, so many seconds at most."""
        with self._lock:
            if self._started:
                return
            self._started = True
            for check in self._checks:
                check.start()
        end = time.monotonic() + wait
        for check in self._checks:
            check.first_result.wait(max(0.0, end - time.monotonic()))

    def latest(self) -> MailCheck:
        """The newest results; begins to check if the server that runs the app has not asked for it."""
        if not self._started:
            self.start()
        server = self._server.state() if self._server else None
        storage = self._storage.state()
        ok = storage == OK and (self._server is None or server == OK)
        shown = (self._server or self._storage).result
        checked_at, latency_ms = (shown.checked_at, shown.latency_ms) if shown else (None, None)
        return MailCheck(ok, server, storage, checked_at, latency_ms, self._undelivered)

    def stop(self) -> None:
        """End the threads; returns once they have, unless a check is under way."""
        for check in self._checks:
            check.stopped.set()
        for check in self._checks:
            if check.is_alive():
                check.join(1)

    def _check_storage(self) -> None:
        self._undelivered = self._spool.count()
        self._spool.check()


@dataclass(frozen=True, slots=True)
class _Result:
    state: str
    ended: float
    """By the monotonic clock, which nobody sets: what the age is judged by."""
    checked_at: datetime
    """By the wall clock, to be shown."""
    latency_ms: float


class _Check(threading.Thread):
    """One check, again and again, and its newest result; ``states`` names the failures by their error number."""

    def __init__(self, subject: str, check: Callable[[], None], states: Mapping[int, str]) -> None:
        super().__init__(name=f"mail-{subject}-health", daemon=True)
        self._subject = subject
        self._check = check
        self._states = states
        self.result: _Result | None = None
        self.first_result = threading.Event()
        self.stopped = threading.Event()

    def state(self) -> str | None:
        """The newest state; None while there is none."""
        result = self.result
        if result is None:
            return None
        return FAIL if time.monotonic() - result.ended > MAX_AGE else result.state

    def run(self) -> None:
        """Check until it is stopped."""
        while not self.stopped.is_set():
            begun = time.perf_counter()
            state = self._try()
            latency_ms = round((time.perf_counter() - begun) * 1000, 1)
            self.result = _Result(state, time.monotonic(), datetime.now(UTC), latency_ms)
            self.first_result.set()
            self.stopped.wait(CHECK_INTERVAL)

    def _try(self) -> str:
        before = self.result.state if self.result else OK
        try:
            self._check()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the result, and the thread must live on
            state = self._states.get(getattr(error, "errno", None) or 0, FAIL)
            if state != before:
                logger.warning("the mail check fails: %s=%s (%s)", self._subject, state, type(error).__name__)
            return state
        if before != OK:
            logger.info("the mail check passes again: %s=%s", self._subject, OK)
        return OK
