"""A bulkhead: some of the worker's threads are never inside SMTP, however slow the mail server is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class FullError(Exception):
    """All places are taken, and so is the waiting room, or no place became free in time."""


class Bulkhead:
    """Lets ``places`` callers in at once. ``waiting_room`` more may wait, each for ``patience`` seconds at most.

    The wait must be bounded in both ways: when all may wait, one dead server holds every thread.
    """

    def __init__(self, places: int, waiting_room: int, patience: float) -> None:
        self._places = threading.Semaphore(places)
        self._waiting_room = threading.Semaphore(waiting_room)
        self._patience = patience

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place; raises FullError when none becomes free in time."""
        if not self._places.acquire(blocking=False):
            self._wait()
        try:
            yield
        finally:
            self._places.release()

    def _wait(self) -> None:
        if not self._waiting_room.acquire(blocking=False):
            raise FullError
        try:
            if not self._places.acquire(timeout=self._patience):
                raise FullError
        finally:
            self._waiting_room.release()
