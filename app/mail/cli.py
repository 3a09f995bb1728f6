"""``flask --app wsgi mail``: the operator's commands for queued messages."""

import json
import logging
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime, make_msgid
from operator import attrgetter
from typing import NamedTuple

import click

from app.mail import listing
from app.mail.failures import Scope, excerpt, failure_of, quote
from app.mail.mailer import Mailer
from app.mail.message import Message, build, encode_mailboxes, reference
from app.mail.queued import QueuedMessage, State
from app.mail.redelivery import GAP
from app.mail.smtp import Deadline, RefusedError, Reply, SmtpSender
from app.mail.spool import Spool
from app.mail.status import WAITING_CRITICAL, WAITING_WARNING, find_status
from app.settings import Settings

SETTINGS_HINT = "are the service's settings loaded?"
"""The hint of a command that may lack the service's settings."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SKIPPED = "skipped: the service is sending it or has just tried"
_ID = "An ID is a Message-ID (<> and the domain are optional), a reference such as 3F0C-9A1B, or a request id."

_STATUS = f"""Report the mail's state in one line, for Nagios or cron. No message is read.

\b
OK, exit status 0
    none of the following
WARNING, exit status 1
    the oldest waiting message is older than {listing.duration(WAITING_WARNING)},
    or a message is refused, in doubt or stored,
    or SALES_EMAIL is set without SMTP_HOST: forms reach nobody,
    or MAIL_DIR has messages that this release cannot read
CRITICAL, exit status 2
    the oldest waiting message is older than {listing.duration(WAITING_CRITICAL)},
    or a message is given up, or the check of the mail server fails,
    or MAIL_DIR is missing, cannot be written to or is full,
    or any of this cannot be checked
"""

logger = logging.getLogger(__name__)


class _Mail(NamedTuple):
    """The settings, the mailer and the messages in MAIL_DIR, which each command works with."""

    settings: Settings
    mailer: Mailer
    spool: Spool

    def find(self, identifiers: Sequence[str] = ()) -> list[QueuedMessage]:
        """The messages of the identifiers, or all without any; raises ClickException unless each matches one."""
        if not self.spool.exists():
            raise click.ClickException(f"MAIL_DIR={str(self.settings.mail_dir)!r} does not exist: {SETTINGS_HINT}")
        messages = self.spool.messages()
        found: set[QueuedMessage] = set()
        for identifier in identifiers:
            same = [it for it in messages if identifier in (it.local_part, it.reference, it.request_id)]
            if not same:
                raise click.ClickException(f"{identifier} is not in MAIL_DIR")
            if len(same) > 1:
                names = "\n".join(message.local_part for message in same)
                raise click.ClickException(f"{identifier} matches several messages. Name one of them:\n{names}")
            found.update(same)
        return sorted(found) if identifiers else messages

    def require_sender(self) -> None:
        """Raise ClickException without a mail server."""
        if self.mailer.sender is None:
            raise click.ClickException(f"SMTP_HOST is not set: no mail server to send messages to: {SETTINGS_HINT}")


class _Group(click.Group):
    """A group that turns a disk error into one message and exit status 1."""

    mail: _Mail

    def invoke(self, ctx: click.Context) -> object:
        ctx.obj = self.mail
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click exits quietly when the pipe is closed: `mail list | head`
            raise
        except OSError as error:
            file = f"{error.filename!r}: " if error.filename else ""
            raise click.ClickException(f"{file}{error.strerror}") from error


def create_mail_commands(settings: Settings, mailer: Mailer, spool: Spool) -> click.Group:
    """The group ``flask --app wsgi mail``."""
    commands = [list_messages, show, _status, resend, drop, test]
    group = _Group("mail", help="Manage the messages in MAIL_DIR.", commands=commands)
    group.mail = _Mail(settings, mailer, spool)
    return group


def _identifier(text: str) -> str:
    """The normal form of an ID: a Message-ID without <> and domain, a reference as shown."""
    name = text.strip("<>").partition("@")[0].lower()
    if not name:
        raise click.BadParameter("the ID is empty")
    return reference(name.replace("-", "")) if re.fullmatch("[0-9a-f]{4}-?[0-9a-f]{4}", name) else name


def _seconds(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not an age such as 30d, 12h, 90m or 45s")
    return int(match[1]) * _SECONDS[match[2]]


_ids = click.argument("identifiers", metavar="[ID]...", nargs=-1, type=_identifier)


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document, with times in UTC.")
@click.pass_obj
def list_messages(mail: _Mail, *, as_json: bool) -> None:
    """List the messages that are not known to be delivered.

    \b
    waiting   The mail server has not taken it yet. The service will retry.
    in doubt  It was being sent and no reply came, so the mail server may have it.
    refused   The mail server refused it permanently. Fix the cause, then resend it.
    given up  Not taken after five days and ten attempts. Resend or drop it.
    stored    There is no mail server: SMTP_HOST is not set.

    The exit status is 0, or 1 if MAIL_DIR cannot be read.
    """  # noqa: D301 - click's mark for text not to rewrap
    messages, now = mail.find(), time.time()
    if as_json:
        click.echo(json.dumps({"messages": [listing.facts(message, now) for message in messages]}, indent=1))
    elif messages:
        click.echo(listing.table(messages, now))
    click.echo(f"{len(messages)} undelivered", err=True)


@click.command("show", epilog=_ID)
@click.argument("identifier", metavar="ID", type=_identifier)
@click.pass_obj
def show(mail: _Mail, identifier: str) -> None:
    """Show a message: its line in the list, its header and its text.

    The exit status is 1 if no message or more than one has the ID.
    """
    (message,) = mail.find([identifier])
    content = mail.spool.read(message)
    click.echo(f"{listing.table([message], time.time())}\n\n{listing.decoded(content)}")


@click.command("status", help=_STATUS)
@click.pass_context
def _status(ctx: click.Context) -> None:
    level, text = find_status(*ctx.obj)
    click.echo(f"{level.name} - {text}")
    ctx.exit(level)


@click.command("resend", epilog=_ID)
@_ids
@click.option("--waiting", is_flag=True, help="Send only the waiting messages.")
@click.pass_context
def resend(ctx: click.Context, identifiers: tuple[str, ...], *, waiting: bool) -> None:
    """Send all messages in MAIL_DIR now, or only those named.

    Messages in any state are sent, those with the fewest attempts first. A message that is being sent is skipped. A
    refused message does not stop the others. A failure of the mail server does: no connection, no login, no reply.

    The exit status is 1 if any message stays undelivered. If an ID matches no message or several, none is sent and it
    is 1 too.
    """
    if identifiers and waiting:
        raise click.UsageError("give either IDs or --waiting")
    mail: _Mail = ctx.obj
    mail.require_sender()
    chosen = [message for message in mail.find(identifiers) if message.is_retryable or not waiting]
    chosen.sort(key=attrgetter("attempts"))  # so that a message which ends this run comes last in the next one
    if not mail.spool.is_writable():
        raise click.ClickException("MAIL_DIR is not writable, so no message could be removed")
    attempts: list[_Attempt] = []
    for number, message in enumerate(chosen, 1):
        if attempts:
            time.sleep(GAP)
        attempts.append(_resend(mail, message))
        click.echo(f"{number}/{len(chosen)} {message.local_part} {attempts[-1].text}")
        if attempts[-1].stops_run:
            break
    mail.mailer.close()
    if len(attempts) < len(chosen):
        click.echo("the mail server failed: the others were not tried", err=True)
    click.echo(f"{len(attempts)} handled, {len(mail.spool.messages())} undelivered", err=True)
    ctx.exit(0 if sum(attempt.delivered for attempt in attempts) == len(chosen) else 1)


class _Attempt(NamedTuple):
    text: str
    delivered: bool = False
    stops_run: bool = False  # the next message would fail, too


def _resend(mail: _Mail, message: QueuedMessage) -> _Attempt:
    try:
        with mail.spool.claim(message) as claim:
            if claim is None:
                return _Attempt(_SKIPPED)
            return _Attempt(f"delivered: {excerpt(mail.mailer.redeliver(claim).reply)}", delivered=True)
    except OSError as error:
        failure = failure_of(error)
        label = "in doubt" if failure.scope is Scope.IN_DOUBT else "not delivered"
        return _Attempt(f"{label}: {failure.sentence}", stops_run=failure.scope in (Scope.SERVER, Scope.IN_DOUBT))


@click.command("drop", epilog=_ID)
@_ids
@click.option(
    "--state",
    type=click.Choice([state.replace(" ", "-") for state in State], case_sensitive=False),
    help="Delete all messages in this state.",
)
@click.option("--older-than", type=_seconds, metavar="AGE", help="Only those older than this: 30d, 12h, 90m, 45s.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def drop(
    ctx: click.Context, identifiers: tuple[str, ...], *, state: str | None, older_than: int | None, yes: bool
) -> None:
    """Permanently delete the named messages, or all in one state.

    Lists the messages and asks first. A message being sent is skipped.

    The exit status is 1 if any is not deleted. If an ID matches no message or several, none is deleted.
    """
    if bool(identifiers) == (state is not None):
        raise click.UsageError("give either IDs or --state")
    if older_than is not None and state is None:
        raise click.UsageError("--older-than needs --state")
    mail: _Mail = ctx.obj
    now = time.time()
    chosen = mail.find(identifiers)
    if state is not None:
        latest = now - older_than if older_than else math.inf
        chosen = [it for it in chosen if it.state == state.replace("-", " ") and it.stored_at <= latest]
    if chosen and not yes:
        click.echo(listing.table(chosen, now))
        click.confirm(f"Delete permanently ({len(chosen)})?", abort=True)
    dropped = 0
    for message in chosen:
        try:
            with mail.spool.claim(message) as claim:
                if claim:
                    claim.discard()
                    logger.info("message %s dropped", message.local_part)
                    dropped += 1
                else:
                    click.echo(f"{message.local_part} is {_SKIPPED}", err=True)
        except OSError as error:
            click.echo(f"{message.local_part} stays: {error.strerror}", err=True)
    click.echo(f"{dropped} dropped", err=True)
    ctx.exit(0 if dropped == len(chosen) else 1)


@click.command("test")
@click.pass_context
def test(ctx: click.Context) -> None:
    """Send a test message and report the result for each recipient.

    The recipients are those of SALES_EMAIL and of each form type.

    The exit status is 1 if any recipient was refused, or if the mail server did not take the message.
    """
    mail: _Mail = ctx.obj
    mail.require_sender()
    settings = replace(mail.settings, sales_email=mail.settings.all_recipients)
    sender = SmtpSender(settings)
    message_id = make_msgid(domain=settings.mail_from.domain)
    headers = [
        ("From", encode_mailboxes([settings.mail_from])),
        ("To", encode_mailboxes(settings.sales_email)),
        ("Subject", "Mensaje de prueba del formulario de contacto"),
        ("Date", format_datetime(datetime.now(UTC))),
        ("Message-ID", message_id),
    ]
    text = "Este mensaje comprueba la entrega de los formularios de contacto.\nNo es necesario que responda.\n"
    message = Message(message_id, build(headers, {"plain": text}))
    try:
        receipt = sender.send(message, Deadline(settings.smtp_timeout), before_content=lambda: None)
    except OSError as error:
        if isinstance(error, RefusedError) and error.recipients:
            _name_recipients(settings, error.recipients)
        raise click.ClickException(failure_of(error).sentence) from error
    finally:
        sender.close()
    _name_recipients(settings, receipt.refused)
    click.echo(f"the mail server took the message: {excerpt(receipt.reply)}")
    ctx.exit(1 if receipt.refused else 0)


def _name_recipients(settings: Settings, refused: Mapping[str, Reply]) -> None:
    for address in (mailbox.address for mailbox in settings.sales_email):
        click.echo(f"{address}: {f'refused: {quote(refused[address])}' if address in refused else 'accepted'}")
