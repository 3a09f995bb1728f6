"""A bulkhead: some of the worker's threads are never inside SMTP, however slow the mail server is."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class FullError(Exception):
    """All slots are taken, and so is the waiting room, or no slot became free in time."""


@dataclass
class Room:
    """The number of callers that may be in it, and of those that are."""

    size: int
    taken: int = 0


class Bulkhead:
    """Lets ``slots`` callers in at once. ``waiting_room`` more may wait, each for ``patience`` seconds at most.

    The wait must be bounded in both ways: when all may wait, one dead server holds every thread.
    """

    def __init__(self, slots: int, waiting_room: int, patience: float) -> None:
        self.slots, self.waiting_room = Room(slots), Room(waiting_room)
        self._patience = patience
        self._freed = threading.Condition()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot; raises FullError when none becomes free in time."""
        with self._freed:
            if self.slots.taken == self.slots.size:
                if self.waiting_room.taken == self.waiting_room.size:
                    raise FullError
                self.waiting_room.taken += 1
                try:
                    if not self._freed.wait_for(lambda: self.slots.taken < self.slots.size, self._patience):
                        raise FullError
                finally:
                    self.waiting_room.taken -= 1
            self.slots.taken += 1
        try:
            yield
        finally:
            with self._freed:
                self.slots.taken -= 1
                self._freed.notify()
