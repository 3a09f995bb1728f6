"""Background threads: loops that repeat some work, and the one place that starts and stops them."""

import threading
import time
from collections.abc import Callable, Sequence


class Loop:
    """A thread that repeats some work and can be woken and stopped."""

    def __init__(self, name: str, work: Callable[[], float], *, timeout: float = 1.0) -> None:
        """``work`` returns the seconds until it is repeated and raises nothing; ``join`` waits ``timeout`` seconds."""
        self.first_done = threading.Event()  # set once the work has been done
        self._work = work
        self._timeout = timeout
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_stopping(self) -> bool:
        """True when the work should start nothing new."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start the thread, once."""
        self._thread.start()

    def sleep(self, seconds: float) -> None:
        """Sleep during the work; only a stop cuts it short."""
        self._stopping.wait(seconds)

    def wake(self) -> None:
        """Repeat the work now, or once more if it is running."""
        self._wake.set()

    def stop(self) -> None:
        """Do not repeat the work; what is running finishes."""
        self._stopping.set()
        self._wake.set()

    def join(self) -> None:
        """Wait until a stopped thread ends, but no longer than the time-out, because the work may hang."""
        if self._thread.is_alive():
            self._thread.join(self._timeout)

    def _run(self) -> None:
        while not self.is_stopping:
            pause = self._work()
            self.first_done.set()
            self._wake.wait(pause)
            self._wake.clear()


class Background:
    """Starts and stops a process's loops; calls ``announce`` before and ``close`` after them."""

    def __init__(
        self, loops: Sequence[Loop], *, announce: Callable[[], None], close: Sequence[Callable[[], None]]
    ) -> None:
        self.loops = loops
        self._announce = announce
        self._close = close
        self._is_started = False
        self._lock = threading.Lock()

    def start(self, wait: float = 1) -> None:
        """Start the loops, once per process, and wait at most ``wait`` seconds until each has done its work once.

        Concurrent callers wait too.
        """
        with self._lock:
            if not self._is_started:
                self._is_started = True
                self._announce()
                end = time.monotonic() + wait
                for loop in self.loops:
                    loop.start()
                for loop in self.loops:
                    loop.first_done.wait(max(0.0, end - time.monotonic()))

    def stop(self) -> None:
        """Stop the loops, then close what they and the requests have used."""
        for loop in self.loops:
            loop.stop()  # first all of them, so that none starts new work while another is joined
        for loop in self.loops:
            loop.join()
        for close in self._close:
            close()
