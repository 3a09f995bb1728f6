"""The operator's commands that send or delete: resend, drop and test."""

from __future__ import annotations

import logging
import smtplib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime, make_msgid

import click

from app.mail.explain import cut, explain, quote
from app.mail.kept import Name
from app.mail.listing import Listing, duration, fault_of
from app.mail.lookup import find
from app.mail.mailer import hand_over, is_about_server
from app.mail.message import Message
from app.mail.smtp import Deadline, InDoubtError, Reply, SmtpSender
from app.mail.spool import NotAMessageError, Spool, Stored
from app.mailbox import address_list
from app.settings import Settings

_ENOUGH = 2
"""Failures of the mail server in a row after which no further message is tried.

Each can take SMTP_TIMEOUT, and a message that is sent and not answered is in doubt.
"""

_SHOWN = 10
"""The most messages that are named before the question whether to delete them."""

logger = logging.getLogger(__name__)


def require_mail_dir(settings: Settings) -> None:
    """Raise ClickException when MAIL_DIR does not exist."""
    if not settings.mail_dir.is_dir():
        raise click.ClickException(f"MAIL_DIR={str(settings.mail_dir)!r} does not exist")


def whole(files: Iterable[tuple[str, Stored | None]], foreign: list[str]) -> Iterator[Stored]:
    """The messages among the files; the places of the others are added to ``foreign``."""
    for place, stored in files:
        if stored is None:
            foreign.append(place)
        else:
            yield stored


def name_foreign(places: Iterable[str]) -> None:
    """Tell which files are left alone."""
    for place in places:
        # Anybody may have chosen the name. repr escapes the characters that a terminal takes for commands.
        click.echo(f"{place!r} {fault_of(place)}: left alone", err=True)


def find_all(spool: Spool, identifiers: Sequence[str]) -> list[tuple[Stored, bytes]]:
    """The messages of the identifiers with their contents; raises ClickException when one has none."""
    found = find(spool, identifiers)
    name_foreign(found.foreign)
    if found.missing:
        raise click.ClickException("\n".join(f"{identifier} is not in MAIL_DIR" for identifier in found.missing))
    return found.messages


def resend(settings: Settings, spool: Spool, identifiers: Sequence[str], wanted: Callable[[Name], bool] | None) -> bool:
    """Hand over the named messages, else all that are wanted; returns True when each was there and is delivered."""
    sender = _sender(settings)
    require_mail_dir(settings)
    foreign: list[str] = []
    missing: list[str] = []
    if identifiers:
        found = find(spool, identifiers)
        chosen = [stored for stored, _ in found.messages]
        foreign, missing = found.foreign, found.missing
    else:
        chosen = list(whole(spool.stored(wanted), foreign))
        foreign += spool.leftovers()
    if chosen and not spool.is_writable():
        raise click.ClickException("MAIL_DIR cannot be written, so a delivered message could not be removed")
    for identifier in missing:
        click.echo(f"{identifier} is not in MAIL_DIR", err=True)
    failures, in_a_row, number = len(missing), 0, 0
    for number, stored in enumerate(chosen, 1):
        outcome, error = _resend(spool, sender, stored, settings.smtp_timeout)
        click.echo(f"{number}/{len(chosen)} {stored.message_id} {outcome}")
        failures += error is not None
        in_a_row = in_a_row + 1 if error and is_about_server(error) else 0
        if in_a_row == _ENOUGH:
            break
    sender.close()
    if number < len(chosen):
        click.echo(f"the mail server has failed {_ENOUGH} times in a row: the others were not tried", err=True)
    name_foreign(foreign)
    left = {place for place, name in spool.names() if name}.difference(foreign)
    click.echo(f"{number} handled, {len(left)} undelivered", err=True)
    return not failures


def _resend(spool: Spool, sender: SmtpSender, stored: Stored, timeout: float) -> tuple[str, OSError | None]:
    """Send one message; returns the outcome as text, and the failure if the message stays undelivered."""
    try:
        with spool.claim(stored.place) as entry:
            if entry is None:
                return "skipped: the service is sending it or has just tried", None
            receipt = hand_over(sender, entry.message(), Deadline(timeout), entry)
    except InDoubtError as error:
        return f"in doubt: {explain(error)}", error
    except OSError as error:
        return f"not delivered: {explain(error)}", error
    return f"delivered: {cut(receipt.answer)}", None


def drop(
    settings: Settings, spool: Spool, identifiers: Sequence[str], wanted: Callable[[Name], bool], shown: Listing | None
) -> bool:
    """Delete the named messages, else all that are wanted; returns True when all of them are deleted.

    ``shown`` shows them to the operator, who is asked first; None does not ask.
    """
    require_mail_dir(settings)
    foreign: list[str] = []
    if identifiers:
        chosen = [stored for stored, _ in find_all(spool, identifiers)]
    else:
        chosen = list(whole(spool.stored(wanted), foreign))
    if chosen:
        if not spool.is_writable():
            raise click.ClickException("MAIL_DIR cannot be written, so no message could be deleted")
        if shown is not None:
            _ask(chosen, shown)
    dropped = 0
    for stored in chosen:
        problem = _drop(spool, stored)
        if problem:
            click.echo(f"{stored.message_id} {problem}", err=True)
        else:
            dropped += 1
    name_foreign(foreign)
    click.echo(f"{dropped} dropped", err=True)
    return dropped == len(chosen)


def _ask(chosen: Sequence[Stored], shown: Listing) -> None:
    """Return once the operator has agreed; raises click.Abort or ClickException."""
    for stored in chosen[:_SHOWN]:
        click.echo(f"{stored.message_id}  {shown.state(stored.name)}, {duration(shown.age(stored.name))} old")
    if len(chosen) > _SHOWN:
        click.echo(f"and {len(chosen) - _SHOWN} more")
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException("nothing is dropped: there is no terminal to ask, and --yes is not given")
    click.confirm(
        "Delete this message for ever?" if len(chosen) == 1 else f"Delete these {len(chosen)} messages for ever?",
        abort=True,
    )


def _drop(spool: Spool, stored: Stored) -> str | None:
    """Delete one message; returns the reason when it stays."""
    try:
        with spool.claim(stored.place) as entry:
            if entry is None:
                return "is skipped: the service is sending it or has just tried"
            message_id = entry.message().message_id
            entry.discard()
    except NotAMessageError as error:
        return f"stays: it is {error}"
    except OSError as error:
        return f"stays: {error.strerror}"
    logger.info("message %s dropped", message_id)
    return None


def send_test(settings: Settings) -> bool:
    """Send the test message; returns True if no recipient was refused."""
    sender = _sender(settings)
    try:
        receipt = sender.send(_test_message(settings), Deadline(settings.smtp_timeout), before_data_ends=lambda: None)
    except OSError as error:
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            _name_recipients(settings, error.recipients)
        raise click.ClickException(explain(error)) from error
    finally:
        sender.close()
    _name_recipients(settings, receipt.refused)
    click.echo(f"the mail server took the message: {cut(receipt.answer)}")
    return not receipt.refused


def _name_recipients(settings: Settings, refused: Mapping[str, Reply]) -> None:
    for address in (mailbox.address for mailbox in settings.sales_email):
        outcome = f"refused: {quote(refused[address])}" if address in refused else "accepted"
        click.echo(f"{address}: {outcome}")


def _sender(settings: Settings) -> SmtpSender:
    if settings.smtp_host is None:
        raise click.ClickException("SMTP_HOST is not set: there is no mail server to hand messages to")
    return SmtpSender(settings)


def _test_message(settings: Settings) -> Message:
    message_id = make_msgid(domain=settings.mail_from.domain)
    # By hand: the email package would fold and quote the names anew.
    lines = [
        f"From: {settings.mail_from.header}",
        f"To: {address_list(settings.sales_email)}",
        "Subject: Mensaje de prueba del formulario de contacto",
        f"Date: {format_datetime(datetime.now(UTC))}",
        f"Message-ID: {message_id}",
        "",
        "Este mensaje comprueba la entrega de los formularios de contacto.",
        "No es necesario que responda.",
        "",
    ]
    return Message(message_id, "\r\n".join(lines).encode("ascii"))
