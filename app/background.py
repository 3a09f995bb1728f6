"""Threads and connections beside the requests."""

import threading
import time
from dataclasses import dataclass, field

from app.loop import Loop
from app.mail.health import MailHealth
from app.mail.mailer import Mailer
from app.mail.redelivery import Redelivery
from app.ratelimit.window import Storage


@dataclass(slots=True)
class Background:
    """The parts of a process that have to be started and stopped. Nothing else does so."""

    storage: Storage
    mail_health: MailHealth
    mailer: Mailer
    redelivery: Redelivery
    _is_started: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, wait: float = 1) -> None:
        """Start the storage of the limits, the mail checks and the redelivery, once per process.

        Waits at most ``wait`` seconds for their first results. Concurrent callers wait too.
        """
        with self._lock:
            if not self._is_started:
                self._is_started = True
                self.mailer.log_transport()
                end = time.monotonic() + wait
                for loop in self._loops:
                    loop.start()
                for loop in self._loops:
                    loop.first_done.wait(max(0.0, end - time.monotonic()))

    def stop(self) -> None:
        """End the threads and close the connections."""
        for loop in self._loops:
            loop.wind_down()  # first all of them, so that none begins anything while another is waited for
        for loop in self._loops:
            loop.stop()
        self.mailer.close()
        self.storage.close()

    @property
    def _loops(self) -> list[Loop]:
        return [*self.storage.loops, *(check.loop for check in self.mail_health.checks), self.redelivery.loop]
