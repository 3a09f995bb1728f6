"""The checks of the mail server and of MAIL_DIR, in the background; all requests share the results."""

import errno
import logging
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from app.background import Loop
from app.mail.failures import failure_of
from app.mail.mailer import Mailer
from app.mail.redelivery import Redelivery
from app.mail.spool import Spool

CHECK_INTERVAL = 15.0  # seconds from the end of one check to the start of the next
MAX_AGE = 30.0  # seconds after which a result is stale: the next check must be hanging, and so would a message
OK, FAIL = "ok", "fail"
DISK_STATES = {errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EROFS: "read_only"}
"""The state of a disk that takes no message, by the error number; any other error is FAIL."""

logger = logging.getLogger(__name__)


class MailState(NamedTuple):
    """The latest results of the checks; mail counts as failing until each check has ended once."""

    ok: bool
    server: str | None  # OK or FAIL; None without a mail server and before the first result
    disk: str | None  # OK, FAIL or one of DISK_STATES; None before the first result
    checked_at: datetime | None  # of the mail server if there is one, else of the disk
    latency_ms: float | None  # the duration of the same check
    undelivered: int


class MailHealth:
    """Checks the mail server and the disk every CHECK_INTERVAL seconds, and tells redelivery about the server.

    Each has a thread of its own, so that a check that hangs delays neither the other nor a request.
    """

    def __init__(self, mailer: Mailer, spool: Spool, redelivery: Redelivery) -> None:
        self.transport = mailer.transport
        self.checks = [Check("storage", spool.check)]
        if mailer.sender:
            self.checks.insert(0, Check("server", mailer.sender.check, on_result=redelivery.server_checked))
        self._redelivery = redelivery

    def latest(self) -> MailState:
        """The latest results."""
        *server, disk = (check.state() for check in self.checks)
        is_ok, shown = {*server, disk} == {OK}, self.checks[0].result
        undelivered = self._redelivery.counts.by_state.total()
        return MailState(is_ok, server[0] if server else None, disk, shown.checked_at, shown.latency_ms, undelivered)


class _Result(NamedTuple):
    state: str | None = None
    ended: float = math.inf  # by the monotonic clock, which nobody can set; the age is measured from here
    checked_at: datetime | None = None  # by the wall clock, as the health endpoint shows it
    latency_ms: float | None = None


class Check:
    """Repeats one check, keeps its latest result and logs each change."""

    def __init__(
        self, subject: str, check: Callable[[], None], *, on_result: Callable[[bool], None] = lambda _: None
    ) -> None:
        self.loop = Loop(f"mail-{subject}-health", self.run)
        self.subject = subject
        self.result = _Result()
        self._check = check
        self._on_result = on_result

    def state(self) -> str | None:
        """The latest state; None before the first result."""
        result = self.result
        return FAIL if time.monotonic() - result.ended > MAX_AGE else result.state

    def passes(self) -> bool:
        """True when the latest result is a success and not stale."""
        return self.state() == OK

    def run(self) -> float:
        """Check once; returns the seconds until the next check."""
        before, state, failure, started = self.result.state or OK, OK, "", time.perf_counter()
        try:
            self._check()
        except Exception as error:  # noqa: BLE001 - any failure is a result, and the thread must go on
            state, failure = DISK_STATES.get(getattr(error, "errno", None) or 0, FAIL), failure_of(error).logged
        latency_ms = round((time.perf_counter() - started) * 1000, 1)
        if failure and state != before:
            logger.warning("the mail check fails: %s=%s (%s)", self.subject, state, failure)
        elif state != before:
            logger.info("the mail check passes again: %s=%s", self.subject, OK)
        self.result = _Result(state, time.monotonic(), datetime.now(UTC), latency_ms)
        self._on_result(state == OK)
        return CHECK_INTERVAL
