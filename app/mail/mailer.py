"""The delivery of an accepted message: write it to disk, hand it to the mail server, delete it from the disk."""

from __future__ import annotations

import logging
import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import click

from app.mail.bulkhead import Bulkhead, FullError
from app.mail.explain import timed_out
from app.mail.message import Message
from app.mail.smtp import PERMANENT, ClosingError, Deadline, InDoubtError, Receipt, SmtpSender
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
    def redeliver(self) -> Callable[[Message, Entry], object] | None:
        """Hand over a kept message again, and delete it once the server has taken it. None without a mail server.

        Raises OSError when the server has not taken the message.
        """

    @property
    def check(self) -> Callable[[], None] | None:
        """Raises OSError when the mail server would not take a message now; None without a mail server."""

    @property
    def bulkhead(self) -> Bulkhead | None:
        """The slots before the mail server; None without one."""

    def close(self) -> None:
        """Close the connections that were kept for the next message."""


class SmtpMailer:
    """Delivers to the mail server; keeps the message on disk when that fails."""

    transport = "smtp"

    def __init__(self, sender: SmtpSender, spool: Spool, bulkhead: Bulkhead, timeout: float) -> None:
        self._sender = sender
        self._spool = spool
        self.bulkhead = bulkhead
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
            with self.bulkhead.slot():
                hand_over(self._sender, message, deadline, entry)
        except (OSError, FullError) as error:
            logger.error("message %s was not delivered: %s", message.message_id, describe(error))
            if entry is not None:
                if isinstance(error, FullError):
                    entry.note(answer_of(error), refused=False)
                with _tolerating_the_disk(message):
                    entry.secure()
            raise DeliveryError(kept=entry is not None) from error
        finally:
            if entry is not None:
                entry.release()
        logger.info("message %s delivered", message.message_id)

    def redeliver(self, message: Message, entry: Entry) -> object:
        """Hand over a kept message again. The slots of the bulkhead are left to the visitors, who wait."""
        return hand_over(self._sender, message, Deadline(self._timeout), entry)

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
    redeliver = check = bulkhead = None

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
    """Send a message and note in its entry on disk what has become of it.

    Raises InDoubtError or another OSError, as SmtpSender.send does.
    """
    if entry is None:
        return sender.send(message, deadline, before_data_ends=lambda: None)
    try:
        receipt = sender.send(message, deadline, before_data_ends=entry.mark_in_doubt)
    except InDoubtError:
        raise
    except OSError as error:
        entry.note(answer_of(error), refused=_is_refusal(error))
        raise
    entry.remove()
    return receipt


def is_about_message(error: OSError) -> bool:
    """True when the mail server answered to this message; any other failure is one of the server."""
    return isinstance(error, smtplib.SMTPSenderRefused | smtplib.SMTPRecipientsRefused | smtplib.SMTPDataError)


def is_about_server(error: OSError) -> bool:
    """True for a failure of the mail server or of the way there, which the next message may meet, too."""
    failures = InDoubtError | smtplib.SMTPException | ConnectionError | TimeoutError | ssl.SSLError | socket.gaierror
    return isinstance(error, failures) and not is_about_message(error)


def answer_of(error: Exception) -> str:
    """The failure in one word: the server's reply code if there is one, else the class."""
    code = min(_codes(error), default=-1)
    if code >= 0:  # it is -1 when a reply has none
        return str(code)
    return TimeoutError.__name__ if timed_out(error) else type(error).__name__


def _is_refusal(error: OSError) -> bool:
    """True for a 5xx to the sender, to all recipients or to the content (RFC 5321, section 4.2.1)."""
    return is_about_message(error) and min(_codes(error), default=0) in PERMANENT


def _codes(error: Exception) -> set[int]:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return {code for code, _ in error.recipients.values()}
    if isinstance(error, smtplib.SMTPResponseException | ClosingError) and error.smtp_code > 0:
        return {error.smtp_code}
    return set()


def describe(error: Exception) -> str:
    """The failure for the log: its class and the server's code. Its text can quote an address."""
    return " ".join([type(error).__name__, ", ".join(map(str, sorted(_codes(error))))]).rstrip()


def create_mailer(settings: Settings, spool: Spool) -> Mailer:
    """The mailer that the settings ask for."""
    if settings.smtp_host is None:
        return MaildirMailer(spool)
    return SmtpMailer(SmtpSender(settings), spool, create_bulkhead(settings), settings.smtp_timeout)


def log_transport(settings: Settings) -> None:
    """Log where messages go, unless the app is made for a flask command that does not serve, such as ``mail list``."""
    command = click.get_current_context(silent=True)
    if command and command.info_name != "run":
        return
    if settings.smtp_host is None:
        logger.warning("SMTP_HOST is not set: messages are stored in %s and not sent", settings.mail_dir)
    else:
        logger.info("messages are sent through %s:%d", settings.smtp_host, settings.smtp_port)


def create_bulkhead(settings: Settings) -> Bulkhead:
    """The bulkhead before the mail server.

    Half of the threads may be inside SMTP at once, and a quarter may wait for a slot. So the mail server never holds
    the last quarter.
    """
    return Bulkhead(
        slots=max(1, settings.threads // 2),
        waiting_room=settings.threads // 4,
        patience=settings.smtp_timeout / 4,
    )
