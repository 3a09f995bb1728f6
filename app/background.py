"""Threads and connections beside the requests."""

from __future__ import annotations

from dataclasses import dataclass

from app.mail.health import MailHealth
from app.mail.mailer import Mailer
from app.ratelimit.storage import Storage


@dataclass(frozen=True, slots=True)
class Background:
    """The parts of a process that have to be started and stopped."""

    storage: Storage
    mail_health: MailHealth
    mailer: Mailer

    def start(self, *, wait: float) -> None:
        """Start the storage of the limits and the mail checks; wait at most ``wait`` seconds for each."""
        self.storage.start(wait=wait)
        self.mail_health.start(wait=wait)

    def stop(self) -> None:
        """End the threads and close the connections."""
        self.mail_health.stop()
        self.mailer.close()
        self.storage.stop()
