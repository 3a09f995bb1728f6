"""Handing a message to the mail server."""

from __future__ import annotations

import logging
import smtplib
import ssl

from app.mail.message import Message
from app.settings import Settings

logger = logging.getLogger(__name__)


class SmtpSender:
    """Hands messages over by SMTP (RFC 5321), in clear, with STARTTLS (RFC 3207) or inside TLS."""

    def __init__(self, settings: Settings) -> None:
        if settings.smtp_host is None:
            raise ValueError("an SmtpSender needs SMTP_HOST")
        self._host = settings.smtp_host
        self._port = settings.smtp_port
        self._security = settings.smtp_security
        self._credentials = (settings.smtp_username, settings.smtp_password)
        self._timeout = settings.smtp_timeout
        self._sender = settings.mail_from
        self._recipients = settings.sales_email
        self._tls = ssl.create_default_context()

    def send(self, message: Message) -> None:
        """Return once the server has taken the message for at least one recipient.

        Raises OSError (of which smtplib.SMTPException is one) when it has not.
        """
        with self._connect() as connection:
            refused = connection.sendmail(self._sender, self._recipients, message.content)
        for code, _ in refused.values():
            logger.warning("the mail server refused a recipient of %s with %d", message.message_id, code)

    def check(self) -> None:
        """Talk to the server up to the point where a message could be sent.

        Raises OSError when that point is not reached.
        """
        with self._connect() as connection:
            connection.noop()

    def _connect(self) -> smtplib.SMTP:
        if self._security == "tls":
            connection: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, timeout=self._timeout, context=self._tls
            )
        else:
            connection = smtplib.SMTP(self._host, self._port, timeout=self._timeout)
        try:
            if self._security == "starttls":
                connection.starttls(context=self._tls)
            username, password = self._credentials
            if username and password:
                connection.login(username, password)
        except BaseException:
            connection.close()
            raise
        return connection
