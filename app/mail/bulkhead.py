"""A bulkhead: some of the worker's threads are never inside SMTP, however slow the mail server is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class FullError(Exception):
    """All places are taken, and so is the waiting room, or no place became free in time."""


class Room:
    """A number of places, counted as they are taken and left."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken = 0
        self._left = threading.Condition()

    def enter(self, patience: float = 0) -> bool:
        """Take a place, waiting for ``patience`` seconds at most; returns False when none becomes free."""
        with self._left:
            if not self._left.wait_for(lambda: self.taken < self.size, patience):
                return False
            self.taken += 1
            return True

    def leave(self) -> None:
        """Give the place back."""
        with self._left:
            self.taken -= 1
            self._left.notify()


class Bulkhead:
    """Lets ``places`` callers in at once. ``waiting_room`` more may wait, each for ``patience`` seconds at most.

    The wait must be bounded in both ways: when all may wait, one dead server holds every thread.
    """

    def __init__(self, places: int, waiting_room: int, patience: float) -> None:
        self.places = Room(places)
        self.waiting_room = Room(waiting_room)
        self._patience = patience

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place; raises FullError when none becomes free in time."""
        if not self.places.enter():
            self._wait()
        try:
            yield
        finally:
            self.places.leave()

    def _wait(self) -> None:
        if not self.waiting_room.enter():
            raise FullError
        try:
            if not self.places.enter(self._patience):
                raise FullError
        finally:
            self.waiting_room.leave()
