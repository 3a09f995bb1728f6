"""The pace at which kept messages are handed over again: the mail server has room for live forms first."""

from app.mail.failures import About

FIRST = 1.0
"""Seconds between the first attempts."""
DOUBLING = 60.0
"""Seconds in which the pace doubles while the mail server takes every message."""
LIMIT, FORGETTING = 4.0, 3600.0
"""The longest pause that stays after repeated 4xx, and the seconds in which it halves again."""
LONGEST = 60.0
"""The most seconds between attempts while the mail server is busy."""
FAILURES = 2
"""Failures of the mail server in a row after which it counts as down. A single failure may be that message's fault."""
OUTAGE = (60.0, 3600.0)
"""Seconds between attempts while the mail server is down: at first, and at most."""


class Pace:
    """The pause between two attempts for kept messages; any thread may report what has become of one.

    A mail server is asked at half of the speed that it has refused. So what waits leaves, and live forms find room.
    """

    check_fails = False
    """True while the check of the mail server fails, too; then it is down after one failure."""

    def __init__(self) -> None:
        self._failures = self._doubts = 0
        self.restart()

    def restart(self) -> None:
        """Begin slowly again: there is more to hand over, or the mail server is another one now."""
        self._pause, self._shortest = FIRST, 0.0
        self._refused_at: float | None = None

    @property
    def pause(self) -> float:
        """The seconds between the attempt before and the next one."""
        first, most = OUTAGE
        in_a_row = max(self._failures, self._doubts)
        return min(most, first * 2.0 ** min(in_a_row - FAILURES, 10)) if self.is_down else self._pause

    @property
    def is_down(self) -> bool:
        """True after FAILURES failures in a row."""
        return max(self._failures, self._doubts) >= FAILURES

    def taken(self) -> None:
        """The mail server has taken a kept message."""
        self._failures = self._doubts = 0
        self._refused_at = None
        self._shortest *= 0.5 ** (self._pause / FORGETTING)
        self._pause = max(self._shortest, self._pause * 0.5 ** (self._pause / DOUBLING))

    def served(self) -> None:
        """The mail server has taken a live form, or is back. What falls silent at kept messages may do so still."""
        self._failures, self._doubts = 0, min(self._doubts, FAILURES)

    def failed(self, about: About) -> None:
        """An attempt has failed; a single refusal, or message in doubt, may be that message's fault."""
        if about is About.IN_DOUBT:
            self._doubts += 1
        elif about is About.SERVER:
            self._failures = max(self._failures + 1, FAILURES if self.check_fails else 0)
        elif about is not About.LOCAL:
            self._failures = self._doubts = 0
        if about is About.BUSY:
            if self._refused_at is None:
                self._refused_at = self._pause
            else:
                self._shortest = min(LIMIT, 2 * self._refused_at)
            self._pause = min(LONGEST, max(FIRST, 2 * self._pause))
