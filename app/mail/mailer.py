"""The delivery of a message: write it to disk, send it to the mail server, delete it from the disk."""

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from app.mail.bulkhead import Bulkhead, FullError
from app.mail.failures import Scope, failure_of
from app.mail.message import Message
from app.mail.queued import DOUBT, SENDING, State
from app.mail.smtp import Deadline, Receipt, SmtpSender
from app.mail.spool import Claim, Spool
from app.settings import Settings

logger = logging.getLogger(__name__)


class DeliveryError(Exception):
    """The mail server did not take the message in time or, without a mail server, the disk did not take it."""

    def __init__(self, *, kept: bool) -> None:
        self.kept = kept  # True when the message lies in MAIL_DIR


class Observer:
    """Notified of deliveries; this base class ignores them."""

    def attempted(self, seconds: float, *, delivered: bool) -> None:
        """A first or later attempt has ended after ``seconds``."""

    def recipients_refused(self, number: int) -> None:
        """The server took a message, but refused ``number`` of its recipients."""

    def retried(self, state: State | None) -> None:
        """A retry has ended and left the message in this state; None when it is delivered."""

    def lost(self) -> None:
        """A message is neither delivered nor kept."""


class Mailer:
    """Delivers messages and keeps undelivered ones on disk; without a ``sender``, it stores all of them."""

    def __init__(
        self, settings: Settings, spool: Spool, sender: SmtpSender | None, observer: Observer | None = None
    ) -> None:
        self.sender = sender
        # Half of the threads may be inside SMTP at once, and a quarter may wait, so one quarter is always free.
        slots, waiting_room = max(1, settings.threads // 2), settings.threads // 4
        self.bulkhead = Bulkhead(slots=slots, waiting_room=waiting_room, timeout=settings.smtp_timeout / 4)
        self._spool = spool
        self._settings = settings
        self._observer = observer or Observer()

    @property
    def transport(self) -> str:
        """The kind of transport, without host or account: ``smtp`` or ``maildir``."""
        return "smtp" if self.sender else "maildir"

    def deliver(self, message: Message) -> None:
        """Deliver a message or, without a mail server, store it on disk; raises DeliveryError.

        The message goes to the disk first. If the disk fails, delivery is attempted anyway.
        """
        deadline, claim = Deadline(self._settings.smtp_timeout), None
        with _log_disk_errors(f"message {message.message_id} cannot be written to MAIL_DIR"):
            claim = self._spool.store(message)
        try:
            if self.sender:
                self._attempt(message, claim, deadline, self.bulkhead.slot())
            elif claim:
                claim.sync()
            else:
                raise DeliveryError(kept=False)
        except (OSError, FullError) as error:
            logger.error("message %s was not delivered: %s", message.message_id, failure_of(error).logged)
            if claim:
                with _log_disk_errors("the state of a message cannot be written to MAIL_DIR"):
                    claim.sync()
            else:
                self._observer.lost()
            raise DeliveryError(kept=claim is not None) from error
        finally:
            if claim:
                claim.release()
        logger.info("message %s %s", message.message_id, "delivered" if self.sender else "stored")

    def redeliver(self, claim: Claim) -> Receipt:
        """Send a queued message again; raises OSError when the server has not taken it."""
        try:
            receipt = self._attempt(claim.read(), claim, Deadline(self._settings.smtp_timeout), nullcontext())
        except Exception:
            self._observer.retried(claim.state)
            raise
        self._observer.retried(None)
        return receipt

    def log_transport(self) -> None:
        """Log where messages go."""
        if self.sender:
            logger.info("messages are sent through %s:%d", self._settings.smtp_host, self._settings.smtp_port)
        else:
            logger.warning("SMTP_HOST is not set: messages are stored in %s and not sent", self._settings.mail_dir)

    def close(self) -> None:
        """Close the connections that were kept for the next message."""
        if self.sender:
            self.sender.close()

    def _attempt(
        self, message: Message, claim: Claim | None, deadline: Deadline, slot: AbstractContextManager[None]
    ) -> Receipt:
        """Send a message and record the result on disk; raises FullError, or as SmtpSender.send does."""
        if self.sender is None:
            raise OSError("there is no mail server")
        started = time.perf_counter()
        mark = partial(claim.record, mark=SENDING) if claim else lambda: None
        try:
            with slot:
                receipt = self.sender.send(message, deadline, before_content=mark)
        except (OSError, FullError) as error:
            self._observer.attempted(time.perf_counter() - started, delivered=False)
            failure = failure_of(error)
            with _log_disk_errors("the state of a message cannot be recorded in MAIL_DIR"):
                if claim and failure.scope is Scope.IN_DOUBT:
                    claim.record(mark=DOUBT)
                elif claim:
                    claim.record(failure.code, refused=failure.scope is Scope.MESSAGE)
            raise
        self._observer.attempted(time.perf_counter() - started, delivered=True)
        self._observer.recipients_refused(len(receipt.refused))
        if claim:
            with _log_disk_errors("a delivered message cannot be removed from MAIL_DIR"):
                claim.discard()
        return receipt


@contextmanager
def _log_disk_errors(failure: str) -> Iterator[None]:
    """Log a disk error instead of raising it."""
    try:
        yield
    except OSError as error:
        logger.error("%s: %s", failure, error.strerror)


def create_mailer(settings: Settings, spool: Spool, observer: Observer | None = None) -> Mailer:
    """The mailer for these settings."""
    return Mailer(settings, spool, SmtpSender(settings) if settings.has_mail_server else None, observer)
