"""The service with a hand-over that costs nothing: no way of sending can be faster."""

from __future__ import annotations

from collections.abc import Callable

from app.mail.message import Message
from app.mail.smtp import Deadline, Receipt, SmtpSender
from bench.rivals.mailers import create_app_with


class NoHandOver(SmtpSender):
    """Counts every message as sent and never talks to a mail server."""

    def send(self, _message: Message, _deadline: Deadline, *, before_data_ends: Callable[[], None]) -> Receipt:
        """Do the work on the disk alone."""
        before_data_ends()
        return Receipt("250", {})


app = create_app_with(NoHandOver)
