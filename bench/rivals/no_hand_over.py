"""The service with a mailer that hands nothing over: what no way of sending could do better than."""

from __future__ import annotations

from collections.abc import Callable

from app.mail.message import Message
from app.mail.smtp import Deadline, SmtpSender
from bench.rivals.mailers import create_app_with


class NoHandOver(SmtpSender):
    """Takes the message for sent."""

    def send(self, _message: Message, _deadline: Deadline, *, before_data_ends: Callable[[], None]) -> str:
        """Do what is done on disk, and nothing else."""
        before_data_ends()
        return "250"


app = create_app_with(NoHandOver)
