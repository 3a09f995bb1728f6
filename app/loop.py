"""Work that repeats: a thread with pauses that can be woken and stopped."""

import threading
from collections.abc import Callable


class Loop:
    """Does some work again and again in a thread of its own."""

    def __init__(self, name: str, work: Callable[[], float], *, patience: float = 1.0) -> None:
        """``work`` returns the seconds until the next time and raises nothing; a stop waits ``patience`` seconds."""
        self.first_done = threading.Event()
        """Set once the work has been done."""
        self._work = work
        self._patience = patience
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_stopping(self) -> bool:
        """True when work should begin nothing more."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start the thread, once."""
        self._thread.start()

    def pause(self, seconds: float) -> None:
        """Wait in the middle of the work; only a stop ends the wait before its time."""
        self._stopping.wait(seconds)

    def wake(self) -> None:
        """Do the work again now, or once more when it is being done."""
        self._wake.set()

    def wind_down(self) -> None:
        """Do the work no more; what is being done ends."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """Wind down, and wait for the end of the thread; no longer than its patience, because the work may hang."""
        self.wind_down()
        if self._thread.is_alive():
            self._thread.join(self._patience)

    def _run(self) -> None:
        while not self.is_stopping:
            pause = self._work()
            self.first_done.set()
            self._wake.wait(pause)
            self._wake.clear()
