"""The delivery of an accepted message: write it to disk, hand it to the mail server, delete it from the disk."""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from app.mail.bulkhead import Bulkhead, FullError
from app.mail.message import Message
from app.mail.smtp import Deadline, InDoubtError, Receipt, SmtpSender
from app.mail.spool import Entry, Spool
from app.settings import Settings

logger = logging.getLogger(__name__)


class DeliveryError(Exception):
    """The mail server did not take the message in time or, without a mail server, the disk did not take it.

    ``kept`` is true when the message lies in MAIL_DIR.
    """

    def __init__(self, *, kept: bool) -> None:
        super().__init__()
        self.kept = kept


class Mailer(Protocol):
    """The way out for messages, as the contact service and the health check use it."""

    @property
    def transport(self) -> str:
        """The kind of transport, without host or account: ``smtp`` or ``maildir``."""

    def deliver(self, message: Message) -> None:
        """Return once the mail server or, without one, the disk has taken the message; raises DeliveryError."""

    @property
    def check(self) -> Callable[[], None] | None:
        """Raises OSError when the mail server would not take a message now; None without a mail server."""

    def close(self) -> None:
        """Close the connections that were kept for the next message."""


class SmtpMailer:
    """Delivers to the mail server; keeps the message on disk when that fails."""

    transport = "smtp"

    def __init__(self, sender: SmtpSender, spool: Spool, bulkhead: Bulkhead, timeout: float) -> None:
        self._sender = sender
        self._spool = spool
        self._bulkhead = bulkhead
        self._timeout = timeout

    def deliver(self, message: Message) -> None:
        """Write the message to disk, hand it over, then delete it. A full disk does not stop the delivery.

        Raises DeliveryError.
        """
        deadline = Deadline(self._timeout)
        entry = None
        with _tolerating_the_disk(message):
            entry = self._spool.store(message)
        try:
            with self._bulkhead.place():
                hand_over(self._sender, message, deadline, entry)
        except (OSError, FullError) as error:
            logger.error("message %s was not delivered: %s", message.message_id, describe(error))
            if entry is not None:
                with _tolerating_the_disk(message):
                    entry.secure()
            raise DeliveryError(kept=entry is not None) from error
        finally:
            if entry is not None:
                entry.release()
        logger.info("message %s delivered", message.message_id)

    def check(self) -> None:
        """Raise OSError when the mail server would not take a message now."""
        self._sender.check()

    def close(self) -> None:
        """Close the kept connections to the mail server."""
        self._sender.close()


@contextmanager
def _tolerating_the_disk(message: Message) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        logger.error("message %s cannot be written to MAIL_DIR: %s", message.message_id, error.strerror)


class MaildirMailer:
    """Stores every message and sends none: for development."""

    transport = "maildir"
    check = None

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def deliver(self, message: Message) -> None:
        """Write the message to disk; raises DeliveryError."""
        try:
            entry = self._spool.store(message)
            try:
                entry.secure()
            finally:
                entry.release()
        except OSError as error:
            logger.error("message %s was not stored: %s", message.message_id, error.strerror)
            raise DeliveryError(kept=False) from error
        logger.info("message %s stored", message.message_id)

    def close(self) -> None:
        """Do nothing: there are no connections."""


def hand_over(sender: SmtpSender, message: Message, deadline: Deadline, entry: Entry | None) -> Receipt:
    """Send a message and note in its entry on disk what is known of it.

    Raises InDoubtError or another OSError, as SmtpSender.send does.
    """
    if entry is None:
        return sender.send(message, deadline, before_data_ends=lambda: None)
    was_in_doubt = entry.in_doubt
    try:
        receipt = sender.send(message, deadline, before_data_ends=entry.mark_in_doubt)
    except InDoubtError:
        raise
    except OSError:
        if not was_in_doubt:
            entry.clear_doubt()
        raise
    entry.remove()
    return receipt


def describe(error: Exception) -> str:
    """The failure for the log: its class and the server's code. Its text can quote an address."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{type(error).__name__} {error.smtp_code}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        codes = sorted({str(code) for code, _ in error.recipients.values()})
        return f"{type(error).__name__} {', '.join(codes)}"
    return type(error).__name__


def create_mailer(settings: Settings, spool: Spool) -> Mailer:
    """The mailer that the settings ask for."""
    if settings.smtp_host is None:
        return MaildirMailer(spool)
    return SmtpMailer(SmtpSender(settings), spool, create_bulkhead(settings), settings.smtp_timeout)


def create_bulkhead(settings: Settings) -> Bulkhead:
    """The bulkhead before the mail server.

    Half of the threads may be inside SMTP at once, and a quarter may wait for a place. So the mail server never holds
    the last quarter.
    """
    return Bulkhead(
        places=max(1, settings.threads // 2),
        waiting_room=settings.threads // 4,
        patience=settings.smtp_timeout / 4,
    )
