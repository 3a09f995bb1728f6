"""Standard error. Writing never waits for its reader."""

from __future__ import annotations

import logging
import os
import select
import stat
import threading
import time
from contextlib import suppress

_SAY_AGAIN_SECONDS = 60.0

logger = logging.getLogger(__name__)


class StandardError:
    """A stream of lines. A line that standard error does not take at once is dropped and counted.

    A pipe that nobody reads any more would stop every thread that has something to log.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._may_wait = _without_waiting(descriptor)
        self.dropped = 0
        """Lines that were dropped since the start of the process."""
        self._said = 0
        self._say_from = 0.0
        self._is_cut = False
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLOUT)

    def write(self, line: str) -> None:
        """Write a line or drop it. At most once a minute the log says how many were dropped."""
        with self._lock:
            if not self._pass_on(line.encode(errors="backslashreplace")):
                self.dropped += 1
                return
            now = time.monotonic()
            news = self.dropped != self._said and now >= self._say_from
            if news:
                self._said, self._say_from = self.dropped, now + _SAY_AGAIN_SECONDS
        if news:
            logger.warning("standard error was not read: %d lines have been dropped since the start", self.dropped)

    def _pass_on(self, line: bytes) -> bool:
        if self._is_cut:
            line = b"\n" + line
        try:
            for start in range(0, len(line), select.PIPE_BUF):
                # A pipe takes so many bytes at once or none of them (POSIX, write).
                if self._may_wait and not self._poll.poll(0):
                    return False
                os.write(self._descriptor, line[start : start + select.PIPE_BUF])
                self._is_cut = True
        except OSError:
            return False
        self._is_cut = False
        return True


def _without_waiting(descriptor: int) -> tuple[int, bool]:
    """A descriptor for the same file, and whether a write to it may wait.

    A pipe gets a second descriptor, on which no write waits. The first one is left as it is, because other programs may
    write to it, too.
    """
    with suppress(OSError):  # it is closed, or another user's pipe
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode):
            return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC), False
        if stat.S_ISREG(mode):
            return descriptor, False
    return descriptor, True


standard_error = StandardError(2)
"""The standard error of this process."""
