"""Standard error, written to without waiting for its reader."""

from __future__ import annotations

import logging
import os
import select
import threading

logger = logging.getLogger(__name__)


class StandardError:
    """A stream of lines; a line that standard error does not take at once is dropped and counted.

    A pipe that nobody reads any more would stop every thread that has something to log.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.dropped = 0
        """Lines since the start of the process."""
        self._said = 0
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, line: str) -> None:
        """Write a line, or count it; the next one that passes is followed by the count."""
        with self._lock:
            if not self._pass_on(line.encode(errors="backslashreplace")):
                self.dropped += 1
                return
            news = self.dropped != self._said
            self._said = self.dropped
        if news:
            logger.warning("standard error was not read: %d lines have been dropped since the start", self.dropped)

    def _pass_on(self, line: bytes) -> bool:
        try:
            for start in range(0, len(line), select.PIPE_BUF):
                if not self._poll.poll(0):
                    return False
                # What poll finds room for in a pipe is this much (POSIX, write): more would wait.
                os.write(self._descriptor, line[start : start + select.PIPE_BUF])
        except OSError:
            return False
        return True


standard_error = StandardError(2)
"""The one of this process."""
