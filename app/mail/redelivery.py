"""Attempts in the background for all that waits in MAIL_DIR, by the schedule of kept.py."""

import logging
import math
import time
from collections import deque

from app.loop import Loop
from app.mail.failures import About, failure_of
from app.mail.kept import Census, Kept
from app.mail.mailer import Mailer
from app.mail.spool import Spool

INTERVAL = 10.0
"""Seconds from one scan of MAIL_DIR to the next."""
SHARE = 0.005
"""The part of the time that scans may take. A large store is scanned less often."""

logger = logging.getLogger(__name__)


class Redelivery:
    """Hands over again what is waiting in MAIL_DIR, the oldest first, in a thread of its own.

    Every process does so. The lock of a message lets one of them try it, and its new name tells the others.
    """

    def __init__(self, mailer: Mailer, spool: Spool, *, patience: float) -> None:
        self.loop = Loop("mail-redelivery", self.work, patience=patience)
        self.census = Census([])
        """The newest numbers."""
        self._mailer = mailer
        self._spool = spool
        self._pace = mailer.pace
        self._queue: deque[Kept] = deque()
        self._resting: dict[str, float] = {}
        self._has_passed = self._is_back = False
        self._next_scan = 0.0
        self._tried_at = -math.inf

    def server_checked(self, passed: bool) -> None:  # noqa: FBT001 - a callback of the health
        """Take the result of a check of the mail server; once it passes, all that waits is tried early.

        So at the start and after each failure: the server was away, or the operator has corrected the settings.
        """
        if passed and not self._has_passed:
            self._is_back, self._next_scan = True, 0.0
            self.loop.wake()
        self._has_passed, self._pace.check_fails = passed, not passed

    def work(self) -> float:
        """Scan MAIL_DIR if it is time, and make an attempt if it is time; returns the seconds until there is more."""
        now = time.monotonic()
        try:
            if now >= self._next_scan:
                self._scan()
                return 0.0
            if self._queue and now >= self._tried_at + self._pace.pause:
                if self._mailer.bulkhead.waiting:
                    return min(self._pace.pause, 0.5)  # a live form goes first
                self._try_next()
        except Exception as error:  # noqa: BLE001 - the thread must go on
            logger.error("redelivery failed: %s", type(error).__name__)
        next_attempt = self._tried_at + self._pace.pause if self._queue else math.inf
        return max(0.0, min(self._next_scan, next_attempt) - time.monotonic())

    def _scan(self) -> None:
        """Take the census, and the messages whose turn it is; after the return of the server, all that wait."""
        begun = time.monotonic()
        self._next_scan = begun + INTERVAL
        is_back = self._is_back
        kept = self._spool.kept()
        self.census = Census(kept)
        self._resting = {path: until for path, until in self._resting.items() if until > begun}
        if is_back:
            self._pace.served()
            self._queue.clear()
        if self._mailer.sender and not self._queue and self._spool.is_writable():
            self._is_back &= not is_back  # a return during this scan stays noted
            now, awake = time.time(), [message for message in kept if message.path not in self._resting]
            self._queue.extend(message for message in awake if message.is_due(now) or (is_back and message.is_untaken))
            self._pace.restart()
        if removed := self._spool.remove_unfinished():
            logger.warning("%d abandoned temporary files are removed from MAIL_DIR", removed)
        ended = time.monotonic()
        if is_back or not self._is_back:  # else the server has come back meanwhile, and the next scan is due
            self._next_scan = ended + max(INTERVAL, (ended - begun) / SHARE)

    def _try_next(self) -> None:
        """Hand over the first message of the queue that nobody else has handed over."""
        while self._queue and not self.loop.is_stopping:
            kept = self._queue.popleft()
            attempt = kept.local_part, kept.tries + 1
            try:
                with self._spool.claim(kept) as claim:
                    if claim is None:
                        continue
                    self._mailer.redeliver(claim)
                logger.info("message %s delivered in attempt %d", *attempt)
            except Exception as error:  # noqa: BLE001 - the next message must have its turn
                failure = failure_of(error)
                logger.warning("message %s was not delivered in attempt %d: %s", *attempt, failure.logged)
                if failure.about is About.LOCAL:  # it cannot be read or renamed, and must stand in nobody's way
                    self._resting[kept.path] = time.monotonic() + 900
            self._tried_at = time.monotonic()
            return
