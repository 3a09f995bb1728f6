"""Where an accepted message goes: to the mail server, or into the store when there is none."""

from __future__ import annotations

import logging
from typing import Protocol

from app.errors import ApiError, ErrorCode
from app.mail.message import Message
from app.mail.smtp import SmtpSender
from app.mail.spool import Spool
from app.settings import Settings

logger = logging.getLogger(__name__)


class DeliveryError(ApiError):
    """The message could not be handed over in the time allowed."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.MAIL_DELIVERY_FAILED)


class Mailer(Protocol):
    """What the contact service and the health check need of the mail layer."""

    @property
    def transport(self) -> str:
        """A name for the kind of transport, without host or account."""

    def deliver(self, message: Message) -> None:
        """Return once the message is in safe hands; raises DeliveryError when it is not."""

    def check(self) -> None:
        """Raise OSError when a message could not be delivered now."""

    def undelivered(self) -> int:
        """How many messages wait in the store."""


class SmtpMailer:
    """Delivers to the mail server."""

    transport = "smtp"

    def __init__(self, sender: SmtpSender, spool: Spool) -> None:
        self._sender = sender
        self._spool = spool

    def deliver(self, message: Message) -> None:
        """Hand the message to the mail server."""
        try:
            self._sender.send(message)
        except OSError as error:
            # The text of an SMTP error can quote an address: its class says enough.
            logger.error("message %s was not delivered: %s", message.message_id, type(error).__name__)
            raise DeliveryError from error
        logger.info("message %s delivered", message.message_id)

    def check(self) -> None:
        """Talk to the mail server."""
        self._sender.check()

    def undelivered(self) -> int:
        """How many messages wait in the store."""
        return self._spool.count()


class MaildirMailer:
    """Stores every message instead of sending it, for development."""

    transport = "maildir"

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def deliver(self, message: Message) -> None:
        """Write the message into the store."""
        try:
            self._spool.add(message)
        except OSError as error:
            logger.error("message %s was not stored: %s", message.message_id, error.strerror)
            raise DeliveryError from error
        logger.info("message %s stored", message.message_id)

    def check(self) -> None:
        """Look into the store."""
        self._spool.count()

    def undelivered(self) -> int:
        """How many messages wait in the store."""
        return self._spool.count()


def create_mailer(settings: Settings) -> Mailer:
    """The mailer that the settings ask for; the log says which."""
    spool = Spool(settings.mail_dir)
    if settings.smtp_host is None:
        logger.warning("SMTP_HOST is not set: messages are stored in %s and not sent", settings.mail_dir)
        return MaildirMailer(spool)
    logger.info("messages are sent through %s:%d", settings.smtp_host, settings.smtp_port)
    return SmtpMailer(SmtpSender(settings), spool)
