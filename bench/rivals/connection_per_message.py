"""The service with the mailer that most have: smtplib opens a connection for each message."""

from __future__ import annotations

import os
import smtplib
import ssl
from collections.abc import Callable

from app import create_app
from app.mail.bulkhead import Bulkhead
from app.mail.mailer import SmtpMailer
from app.mail.message import Message
from app.mail.smtp import Deadline, SmtpSender
from app.mail.spool import Spool
from app.settings import Settings


class ConnectionPerMessage(SmtpSender):
    """Sends as the documentation of smtplib does."""

    def send(self, message: Message, _deadline: Deadline, *, before_data_ends: Callable[[], None]) -> str:
        """Connect, send, leave."""
        with smtplib.SMTP(settings.smtp_host or "", settings.smtp_port, timeout=settings.smtp_timeout) as server:
            if settings.smtp_security == "starttls":
                server.starttls(context=tls)
            if settings.smtp_username and settings.smtp_password:
                server.login(settings.smtp_username, settings.smtp_password)
            before_data_ends()
            server.sendmail(settings.mail_from, settings.sales_email, message.content)
        return "250"


settings = Settings.from_env(os.environ)
tls = ssl.create_default_context()
bulkhead = Bulkhead(settings.threads // 2, settings.threads // 4, settings.smtp_timeout / 4)
app = create_app(
    settings,
    mailer=SmtpMailer(ConnectionPerMessage(settings), Spool(settings.mail_dir), bulkhead, settings.smtp_timeout),
)
