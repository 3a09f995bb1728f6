"""The service with a mailer that hands nothing over: what no way of sending could do better than."""

from __future__ import annotations

import os
from collections.abc import Callable

from app import create_app
from app.mail.bulkhead import Bulkhead
from app.mail.mailer import SmtpMailer
from app.mail.message import Message
from app.mail.smtp import Deadline, SmtpSender
from app.mail.spool import Spool
from app.settings import Settings


class NoHandOver(SmtpSender):
    """Takes the message for sent."""

    def send(self, _message: Message, _deadline: Deadline, *, before_data_ends: Callable[[], None]) -> str:
        """Do what is done on disk, and nothing else."""
        before_data_ends()
        return "250"


settings = Settings.from_env(os.environ)
bulkhead = Bulkhead(settings.threads // 2, settings.threads // 4, settings.smtp_timeout / 4)
app = create_app(
    settings, mailer=SmtpMailer(NoHandOver(settings), Spool(settings.mail_dir), bulkhead, settings.smtp_timeout)
)
