"""A bulkhead: keeps some of the worker's threads out of SMTP, however slow the mail server is."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class FullError(Exception):
    """All slots are taken, and so is the waiting room, or no slot became free in time."""


class Bulkhead:
    """Lets ``slots`` callers in at once. ``waiting_room`` more may wait, each for ``timeout`` seconds at most.

    The wait must be bounded in both ways: when all may wait, one dead server holds every thread.
    """

    def __init__(self, slots: int, waiting_room: int, timeout: float) -> None:
        self.slots, self.waiting_room = slots, waiting_room
        self.slots_taken = self.waiting = 0  # the callers that are inside, and those that wait
        self._timeout = timeout
        self._freed = threading.Condition()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot; raises FullError when none becomes free in time."""
        with self._freed:
            if self.slots_taken == self.slots:
                if self.waiting == self.waiting_room:
                    raise FullError
                self.waiting += 1
                try:
                    if not self._freed.wait_for(lambda: self.slots_taken < self.slots, self._timeout):
                        raise FullError
                finally:
                    self.waiting -= 1
            self.slots_taken += 1
        try:
            yield
        finally:
            with self._freed:
                self.slots_taken -= 1
                self._freed.notify()
