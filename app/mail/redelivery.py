"""Redelivery: background rounds that resend due messages.

Messages with the fewest attempts go first, the oldest of them first, one second apart. A failure of the mail server
makes this gap ten seconds, one less per half minute since then; after a message in doubt it is eight minutes, once.
"""

import logging
import math
import time
from operator import attrgetter

from app.background import Loop
from app.mail.failures import Scope, failure_of
from app.mail.mailer import Mailer
from app.mail.queued import QueueCounts, QueuedMessage
from app.mail.spool import Spool

INTERVAL = 10.0  # seconds from one round to the next
READING_SHARE = 0.005  # at most this share of the time is spent reading MAIL_DIR, so a large store has longer rounds
GAP, LONGEST_GAP = 1.0, 10.0  # seconds from one attempt to the next
IN_DOUBT_PAUSE = 480.0  # seconds without an attempt after one that left its message in doubt
LOCAL_PAUSE = 900.0  # seconds without an attempt for a message that this machine cannot read or rename

logger = logging.getLogger(__name__)


class Redelivery:
    """Runs the rounds in its own thread. Each process has one, but only one process at a time sends."""

    def __init__(self, mailer: Mailer, spool: Spool, *, timeout: float) -> None:
        self.loop = Loop("mail-redelivery", self.work, timeout=timeout)
        self.counts = QueueCounts([])  # the latest numbers
        self._mailer = mailer
        self._spool = spool
        self._passes: bool | None = None  # the latest check of the mail server
        self._server_back_at = -math.inf  # by the monotonic clock
        self._failed_at = self._next_at = -math.inf  # by the same clock
        self._paused_until: dict[str, float] = {}

    def server_checked(self, passed: bool) -> None:  # noqa: FBT001 - a callback of the health
        """Take the result of a check of the mail server. When it passes again or for the first time, all are due."""
        is_back, self._passes = passed and not self._passes, passed
        if is_back:
            self._server_back_at = time.monotonic()
            self.loop.wake()

    def work(self) -> float:
        """Run one round; returns the seconds until the next one."""
        started = time.monotonic()
        end = started + INTERVAL
        try:
            messages = self._spool.messages()
            self.counts = QueueCounts(messages)
            end = max(end, started + (time.monotonic() - started) / READING_SHARE)
            willing = self._passes is not False and self._spool.is_writable()
            if self._mailer.sender and self._spool.leads(willing=willing):
                self._send_due(messages, end)
            if removed := self._spool.remove_unfinished():
                logger.warning("removed %d abandoned temporary files from MAIL_DIR", removed)
        except Exception as error:  # noqa: BLE001 - the thread must go on
            logger.error("redelivery failed: %s", type(error).__name__)
        return max(0.0, end - time.monotonic())

    def _send_due(self, messages: list[QueuedMessage], end: float) -> None:
        """Send the due messages until the next round begins or the mail server's check fails."""
        now = time.time()
        back_at = now - (time.monotonic() - self._server_back_at)  # a clock that was set back moves it, too
        for message in sorted(messages, key=attrgetter("attempts")):  # with equal attempts, the oldest first
            is_due = message.is_due(now, back_at) and self._paused_until.get(message.path, 0.0) < time.monotonic()
            if is_due and self._wait_for_turn(end):
                self._try_message(message)

    def _wait_for_turn(self, end: float) -> bool:
        """Wait for the gap and for the live forms, which go first; returns False if the round ends first."""
        while self._passes is not False and not self.loop.is_stopping and time.monotonic() < end:
            left = max(0.0, self._next_at - time.monotonic())
            if not left and not self._mailer.bulkhead.waiting:
                return True
            self.loop.sleep(min(left or 0.1, end - time.monotonic()))
        return False

    def _try_message(self, message: QueuedMessage) -> None:
        """Try one message, unless another process does; set the gap by the result."""
        attempt = message.local_part, message.attempts + 1
        try:
            with self._spool.claim(message) as claim:
                if claim:
                    half_minutes = (time.monotonic() - self._failed_at) / 30
                    self._next_at = time.monotonic() + max(GAP, LONGEST_GAP - half_minutes)
                    self._mailer.redeliver(claim)
                    logger.info("message %s delivered on attempt %d", *attempt)
        except Exception as error:  # noqa: BLE001 - the next message must have its turn
            failure = failure_of(error)
            logger.warning("message %s was not delivered on attempt %d: %s", *attempt, failure.logged)
            if failure.scope is Scope.LOCAL:
                self._paused_until[message.path] = time.monotonic() + LOCAL_PAUSE
            elif failure.scope is Scope.IN_DOUBT:
                self._next_at = time.monotonic() + IN_DOUBT_PAUSE
            elif failure.scope in (Scope.SERVER, Scope.DEFERRED):
                self._failed_at, self._next_at = time.monotonic(), time.monotonic() + LONGEST_GAP
