"""The operator's commands: list the undelivered messages, hand them over, test the mail server."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, make_msgid
from pathlib import Path

import click
from flask.cli import AppGroup

from app.mail.explain import explain, on_one_line, quote
from app.mail.mailer import describe, hand_over
from app.mail.message import Message
from app.mail.smtp import Deadline, InDoubtError, Reply, SmtpSender
from app.mail.spool import Spool, Stored
from app.mailbox import address_list
from app.settings import Settings

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def create_mail_commands(settings: Settings, spool: Spool) -> AppGroup:
    """The group ``flask --app wsgi mail``."""
    group = AppGroup("mail", help="Look after the messages in MAIL_DIR.")

    @group.command("list")
    def list_messages() -> None:
        """List the messages in MAIL_DIR: those that no mail server is known to have taken.

        A message "in doubt" was sent completely, but the mail server did not confirm it. If you resend it, the sales
        team may get a second copy with the same Message-ID. A file that is not a complete message is named and never
        sent. It may be part of a visitor's message, so read it before you delete it.
        """
        _require(settings.mail_dir)
        messages = spool.stored()
        for row in _table(messages):
            click.echo(row)
        _name_foreign(spool)
        click.echo(f"{len(messages)} undelivered", err=True)

    @group.command("resend")
    @click.argument("message_ids", metavar="[MESSAGE-ID]...", nargs=-1)
    def resend(message_ids: tuple[str, ...]) -> None:
        """Send all messages in MAIL_DIR, or only the named ones.

        Each message keeps its Message-ID. A message that the service is sending at this moment is skipped. The exit
        status is 1 if any message stays undelivered.
        """
        sender = _sender(settings)
        _require(settings.mail_dir)
        messages = spool.stored()
        if messages and not spool.is_writable():
            raise click.ClickException("MAIL_DIR cannot be written, so a delivered message could not be removed")
        named = {f"<{message_id.strip('<>')}>" for message_id in message_ids}  # a shell wants <> quoted
        unknown = named - {stored.message_id for stored in messages}
        for message_id in sorted(unknown):
            click.echo(f"{message_id} is not in MAIL_DIR", err=True)
        chosen = [stored for stored in messages if not named or stored.message_id in named]
        failures = len(unknown)
        for number, stored in enumerate(chosen, 1):
            outcome, failed = _resend(spool, sender, stored, settings.smtp_timeout)
            click.echo(f"{number}/{len(chosen)} {stored.message_id} {outcome}")
            failures += failed
        sender.close()
        _name_foreign(spool)
        click.echo(f"{len(chosen)} handled, {spool.count()} undelivered", err=True)
        if failures:
            raise click.exceptions.Exit(1)

    @group.command("test")
    def test() -> None:
        """Send a test message to SALES_EMAIL and show what becomes of it for each recipient.

        The exit status is 1 if any recipient was refused, or if the mail server did not take the message.
        """
        if not _send_test(settings):
            raise click.exceptions.Exit(1)

    return group


def _sender(settings: Settings) -> SmtpSender:
    if settings.smtp_host is None:
        raise click.ClickException("SMTP_HOST is not set: there is no mail server to hand messages to")
    return SmtpSender(settings)


def _require(mail_dir: Path) -> None:
    if not mail_dir.is_dir():
        raise click.ClickException(f"MAIL_DIR={str(mail_dir)!r} does not exist")


def _resend(spool: Spool, sender: SmtpSender, stored: Stored, timeout: float) -> tuple[str, bool]:
    """Send one message; returns the outcome as text, and True when the message stays undelivered."""
    try:
        with spool.claim(stored) as entry:
            if entry is None:
                return "skipped: the service is sending it or has sent it", False
            message = Message(stored.message_id, entry.read())
            receipt = hand_over(sender, message, Deadline(timeout), entry)
    except InDoubtError:
        return "in doubt: the mail server did not answer", True
    except OSError as error:
        return f"not delivered: {describe(error)}", True
    return f"delivered: {on_one_line(receipt.answer)}", False


def _send_test(settings: Settings) -> bool:
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
    click.echo(f"the mail server took the message: {on_one_line(receipt.answer)}")
    return not receipt.refused


def _name_recipients(settings: Settings, refused: Mapping[str, Reply]) -> None:
    for address in (mailbox.address for mailbox in settings.sales_email):
        outcome = f"refused: {quote(refused[address])}" if address in refused else "accepted"
        click.echo(f"{address}: {outcome}")


def _name_foreign(spool: Spool) -> None:
    for place in spool.foreign():
        # Anybody may have chosen the name. repr escapes the characters that a terminal takes for commands.
        fault = "was never finished" if place.startswith("tmp/") else "is not a message of this service"
        click.echo(f"{place!r} {fault}: left alone", err=True)


def _table(messages: list[Stored]) -> Iterator[str]:
    if messages:
        yield _row("AGE", "FORM", "BYTES", "STATE", "MESSAGE-ID")
    for stored in messages:
        state = "in doubt" if stored.in_doubt else "waiting"
        yield _row(_age(stored.age), stored.form_type, str(stored.size), state, stored.message_id)


def _row(age: str, form_type: str, size: str, state: str, message_id: str) -> str:
    return f"{age:>8}  {form_type:<12}  {size:>8}  {state:<8}  {message_id}"


def _age(seconds: float) -> str:
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


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
