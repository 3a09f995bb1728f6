"""The work that goes on beside the requests."""

from __future__ import annotations

from dataclasses import dataclass

from app.mail.health import MailHealth
from app.mail.mailer import Mailer
from app.ratelimit.storage import Storage


@dataclass(frozen=True, slots=True)
class Background:
    """The threads and connections that a process of the service keeps, with one start and one stop."""

    storage: Storage
    mail_health: MailHealth
    mailer: Mailer

    def start(self, *, wait: float) -> None:
        """Connect to the storage of the limits and check the mail; wait so many seconds at most for each of the two."""
        self.storage.start(wait=wait)
        self.mail_health.start(wait=wait)

    def stop(self) -> None:
        """End the threads and close the connections."""
        self.mail_health.stop()
        self.mailer.close()
        self.storage.stop()
