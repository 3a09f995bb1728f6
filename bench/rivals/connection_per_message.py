"""The service with the most usual mailer: smtplib opens a connection per message."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable

from app.mail.message import Message
from app.mail.smtp import Deadline, Receipt, SmtpSender
from app.settings import Settings
from bench.rivals.mailers import create_app_with


class ConnectionPerMessage(SmtpSender):
    """Sends as the documentation of smtplib does."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._wanted = settings
        self._context = ssl.create_default_context()

    def send(self, message: Message, _deadline: Deadline, *, before_data_ends: Callable[[], None]) -> Receipt:
        """Connect, send, leave."""
        wanted = self._wanted
        with smtplib.SMTP(wanted.smtp_host or "", wanted.smtp_port, timeout=wanted.smtp_timeout) as server:
            if wanted.smtp_security == "starttls":
                server.starttls(context=self._context)
            if wanted.smtp_username and wanted.smtp_password:
                server.login(wanted.smtp_username, wanted.smtp_password)
            before_data_ends()
            recipients = [mailbox.address for mailbox in wanted.sales_email]
            refused = server.sendmail(wanted.mail_from.address, recipients, message.content)
        return Receipt("250", refused)


app = create_app_with(ConnectionPerMessage)
