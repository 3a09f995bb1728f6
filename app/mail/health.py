"""The checks of the mail server and of MAIL_DIR. They run in the background, and all requests share the results."""

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
from app.mail.redelivery import Redelivery
from app.mail.smtp import CHECK_SECONDS
from app.mail.spool import Spool

CHECK_INTERVAL = 15.0
"""Seconds from the end of one check to the start of the next while it passes."""

GROWTH = 1.25
"""The factor by which this pause grows with each failed check of the mail server."""

MAX_AGE = 30.0
"""Seconds after which a result is too old. Then the next check hangs, and a message would hang, too."""

LONGEST_PAUSE = MAX_AGE - CHECK_SECONDS
"""The longest pause in seconds. So a result is never older than MAX_AGE when the next one comes."""

OK, FAIL = "ok", "fail"
STORAGE_STATES = {errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EROFS: "read_only"}
"""The state of a disk that takes no message, by the error number; any other error is FAIL."""

PATIENCE = 1.0
"""Seconds from the start of the checks in which whoever asks waits for the disk's first result and the first census."""

logger = logging.getLogger(__name__)


class MailCheck(NamedTuple):
    """The newest results of the checks; mail counts as failing until each check has ended once."""

    ok: bool
    server: str | None
    """``ok`` or ``fail``; None without a mail server and before the first result."""
    storage: str | None
    """``ok``, ``full``, ``read_only`` or ``fail``; None before the first result."""
    checked_at: datetime | None
    """The time of the last check: of the mail server if there is one, else of the storage."""
    latency_ms: float | None
    """The duration of the same check."""
    undelivered: int


class MailHealth:
    """Checks the mail server and the storage every CHECK_INTERVAL seconds, each in a thread of its own.

    So a check that hangs delays neither the other nor, once the service has started, a request. The pauses before the
    checks of a mail server that fails grow to LONGEST_PAUSE. When it passes for the first time, or again, the
    redelivery is told so.
    """

    def __init__(self, mailer: Mailer, spool: Spool, redelivery: Redelivery) -> None:
        self._mailer = mailer
        self._redelivery = redelivery
        self._storage = _Check("storage", spool.check, STORAGE_STATES, longest_pause=CHECK_INTERVAL)
        self._server = None
        if mailer.check:
            self._server = _Check(
                "server", mailer.check, {}, longest_pause=LONGEST_PAUSE, on_return=redelivery.server_is_there
            )
        self._checks = [check for check in (self._server, self._storage) if check]
        self._started = False
        self._patience_ends = 0.0
        self._lock = threading.Lock()

    @property
    def transport(self) -> str:
        """The kind of transport that is checked."""
        return self._mailer.transport

    def start(self, *, wait: float = 0) -> None:
        """Start the checks and the redelivery, once per process; wait at most ``wait`` seconds for the checks."""
        with self._lock:
            if self._started:
                return
            self._patience_ends = time.monotonic() + PATIENCE
            self._started = True
            self._redelivery.start()
            for check in self._checks:
                check.start()
        end = time.monotonic() + wait
        for check in self._checks:
            check.first_result.wait(max(0.0, end - time.monotonic()))

    def latest(self) -> MailCheck:
        """The newest results; starts the checks if the server has not done so."""
        if not self._started:
            self.start()
        for first in (self._storage.first_result, self._redelivery.first_census):
            if not first.is_set():
                first.wait(max(0.0, self._patience_ends - time.monotonic()))
        server = self._server.state() if self._server else None
        storage = self._storage.state()
        ok = storage == OK and (self._server is None or server == OK)
        shown = (self._server or self._storage).result
        checked_at, latency_ms = (shown.checked_at, shown.latency_ms) if shown else (None, None)
        return MailCheck(ok, server, storage, checked_at, latency_ms, self._redelivery.census.total)

    def stop(self) -> None:
        """End the threads. Waits at most one second for each thread, because a check may hang."""
        for check in self._checks:
            check.stopped.set()
        for check in self._checks:
            if check.is_alive():
                check.join(1)


@dataclass(frozen=True, slots=True)
class _Result:
    state: str
    ended: float
    """By the monotonic clock, which nobody can set; the age of the result is measured from here."""
    checked_at: datetime
    """By the wall clock; the health endpoint shows it."""
    latency_ms: float


class _Check(threading.Thread):
    """Repeats one check and keeps its newest result; ``states`` maps error numbers to the names of states.

    ``on_return`` is called at the first check that passes and at each that passes after one that has failed; it is told
    whether one has failed before.
    """

    def __init__(
        self,
        subject: str,
        check: Callable[[], None],
        states: Mapping[int, str],
        *,
        longest_pause: float,
        on_return: Callable[[bool], None] = lambda _: None,
    ) -> None:
        super().__init__(name=f"mail-{subject}-health", daemon=True)
        self._subject = subject
        self._check = check
        self._states = states
        self._longest_pause = longest_pause
        self._on_return = on_return
        self.result: _Result | None = None
        self.first_result = threading.Event()
        self.stopped = threading.Event()

    def state(self) -> str | None:
        """The newest state; None before the first result."""
        result = self.result
        if result is None:
            return None
        return FAIL if time.monotonic() - result.ended > MAX_AGE else result.state

    def run(self) -> None:
        """Check until ``stopped`` is set."""
        pause = CHECK_INTERVAL
        while not self.stopped.is_set():
            before = self.result.state if self.result else None
            begun = time.perf_counter()
            state = self._try(before or OK)
            latency_ms = round((time.perf_counter() - begun) * 1000, 1)
            self.result = _Result(state, time.monotonic(), datetime.now(UTC), latency_ms)
            self.first_result.set()
            if state == OK:
                pause = CHECK_INTERVAL
                if before != OK:
                    self._on_return(before is not None)
            elif before not in (OK, None):
                pause = min(pause * GROWTH, self._longest_pause)
            self.stopped.wait(pause)

    def _try(self, before: str) -> str:
        try:
            self._check()
        except Exception as error:  # noqa: BLE001 - any failure is a result, and the thread must go on
            state = self._states.get(getattr(error, "errno", None) or 0, FAIL)
            if state != before:
                logger.warning("the mail check fails: %s=%s (%s)", self._subject, state, type(error).__name__)
            return state
        if before != OK:
            logger.info("the mail check passes again: %s=%s", self._subject, OK)
        return OK
