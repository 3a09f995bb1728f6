"""Threads and connections beside the requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.mail.health import MailHealth
from app.mail.mailer import Mailer
from app.mail.redelivery import Redelivery
from app.ratelimit.storage import Storage

if TYPE_CHECKING:
    from app.metrics.exporter import Exporter


@dataclass(frozen=True, slots=True)
class Background:
    """The parts of a process that have to be started and stopped."""

    storage: Storage
    mail_health: MailHealth
    mailer: Mailer
    redelivery: Redelivery
    exporter: Exporter | None
    """The server of the metrics; None without METRICS_BIND."""

    def start(self, *, wait: float) -> None:
        """Start the storage of the limits, the mail checks and the redelivery; wait at most ``wait`` s for each."""
        self.storage.start(wait=wait)
        self.mail_health.start(wait=wait)

    def wind_down(self) -> None:
        """Begin nothing that would delay the stop."""
        self.redelivery.wind_down()

    def stop(self) -> None:
        """End the threads and close the connections."""
        self.redelivery.stop()
        self.mail_health.stop()
        self.mailer.close()
        self.storage.stop()
        if self.exporter is not None:
            self.exporter.stop()
