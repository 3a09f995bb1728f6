"""The group ``flask --app wsgi mail``: the operator's commands, what they send and delete, and their exit statuses."""

import io
import logging
import math
import re
import smtplib
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime, make_msgid

import click
from flask.cli import AppGroup

from app.mail import listing
from app.mail.failures import About, cut, failure_of, quote
from app.mail.kept import Kept, State
from app.mail.mailer import Mailer
from app.mail.message import Message, reference
from app.mail.redelivery import GAP
from app.mail.smtp import Deadline, Reply, SmtpSender
from app.mail.spool import Spool
from app.mail.status import WAITING_CRITICAL, WAITING_WARNING, find_status
from app.mailbox import address_list
from app.settings import Settings

LOADED = "are the service's settings loaded?"
"""The question of a command that fails with settings that may not be the service's."""

_SHOWN = 10  # the most messages that are named before the question whether to delete them
_FAILURES = 2  # in a row that are not the message's own, which end a resend: a single one may be its fault after all
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_STATES = ", ".join(state.replace(" ", "-") for state in State)
_SKIPPED = "skipped: the service is sending it or has just tried"
_ID = "An ID is a Message-ID, with or without <> and the domain, a reference such as 3F0C-9A1B, or a request id."

_LIST = """List the messages that no mail server is known to have taken.

\b
waiting   The mail server has not taken it. The service tries it again by itself.
in doubt  It was on its way and no answer came, so the mail server may have it.
refused   The mail server refused it for good. Mend the cause, then resend it.
given up  Not taken in five days and ten attempts. Resend it or drop it.
stored    There is no mail server: SMTP_HOST is not set.

The exit status is 0, or 1 if MAIL_DIR cannot be read.
"""

_STATUS = f"""Tell Nagios or cron in one line how the mail is. No message is opened.

\b
OK, exit status 0
    none of the following
WARNING, exit status 1
    the oldest waiting message is older than {listing.duration(WAITING_WARNING)},
    or a message is refused or in doubt
CRITICAL, exit status 2
    the oldest waiting message is older than {listing.duration(WAITING_CRITICAL)},
    or a message is given up, or the mail server would take no message now,
    or MAIL_DIR does not exist, cannot be written or is full,
    or any of this cannot be found out
"""

logger = logging.getLogger(__name__)


class _MailGroup(AppGroup):
    """Ends a command with one message and exit status 1 when it fails on the disk."""

    def invoke(self, ctx: click.Context) -> object:
        # The terminal may have fewer characters than the visitor and the mail server, and none may stop a command.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click ends quietly when nobody reads on, as in `mail list | head`
            raise
        except OSError as error:
            file = f"{error.filename!r}: " if error.filename else ""
            raise click.ClickException(f"{file}{error.strerror}") from error


def create_mail_commands(settings: Settings, mailer: Mailer, spool: Spool) -> AppGroup:
    """The group ``flask --app wsgi mail``."""
    group = _MailGroup("mail", help="Look after the messages in MAIL_DIR.")
    _add_resend_drop_and_test(group, settings, mailer, spool)

    @group.command("list", help=_LIST)
    @click.option("--json", "as_json", is_flag=True, help="Write one JSON document. Its times are in UTC.")
    def list_messages(*, as_json: bool) -> None:
        messages, now = _find_all(settings, spool), time.time()
        if as_json:
            entries = ",\n".join(listing.as_json(kept, now) for kept in messages)
            click.echo(f'{{"messages": [\n{entries}\n]}}')
        elif messages:
            click.echo("\n".join([listing.HEADING, *(listing.row(kept, now) for kept in messages)]))
        click.echo(f"{len(messages)} undelivered", err=True)

    @group.command("show", epilog=_ID)
    @click.argument("identifier", metavar="ID", type=_identifier)
    def show(identifier: str) -> None:
        """Show a message: its state, its header and its text, all decoded.

        The exit status is 1 if no message or more than one has the ID.
        """
        for _ in range(2):
            kept = _find_all(settings, spool, [identifier])[0]
            with suppress(FileNotFoundError):  # the service has renamed or delivered it since the scan
                click.echo("\n".join(listing.show(kept, spool.read(kept), time.time())))
                return
        raise click.ClickException(f"{identifier} is not in MAIL_DIR")

    @group.command("status", help=_STATUS)
    def status() -> None:
        level, text = find_status(settings, mailer, spool)
        click.echo(f"{level.name} - {text}")
        sys.exit(level)

    return group


def _add_resend_drop_and_test(group: AppGroup, settings: Settings, mailer: Mailer, spool: Spool) -> None:
    @group.command("resend", epilog=_ID)
    @click.argument("identifiers", metavar="[ID]...", nargs=-1, type=_identifier)
    @click.option("--waiting", is_flag=True, help="Send only what the mail server has certainly not taken.")
    def resend_messages(identifiers: tuple[str, ...], *, waiting: bool) -> None:
        """Send all messages in MAIL_DIR now, or only the named ones.

        Any state will do. A message that is being sent is skipped. When the server takes nothing twice in a row, no
        other is tried.

        The exit status is 1 if any message stays undelivered or is not there. It is 1 before anything is sent if an ID
        stands for several messages.
        """
        if identifiers and waiting:
            raise click.UsageError("give either IDs or --waiting")
        _require_sender(mailer)
        found, missing = _find(settings, spool, identifiers)
        for problem in missing:
            click.echo(problem, err=True)
        chosen = [kept for kept in found if kept.is_untaken or not waiting]
        sys.exit(0 if _resend(mailer, spool, chosen) and not missing else 1)

    @group.command("drop", epilog=_ID)
    @click.argument("identifiers", metavar="[ID]...", nargs=-1, type=_identifier)
    @click.option("--state", type=_state, metavar="STATE", help=f"Delete all that are in this state: {_STATES}.")
    @click.option("--older-than", type=_seconds, metavar="AGE", help="Of these, only older ones: 30d, 12h, 90m, 45s.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    def drop_messages(identifiers: tuple[str, ...], *, state: State | None, older_than: int | None, yes: bool) -> None:
        """Delete the named messages permanently, or all that are in a state.

        It names the messages and asks first. Without a terminal it needs --yes. What is being sent is skipped.

        The exit status is 1 if any is not deleted. All stay if any ID is not there or stands for several messages.
        """
        if bool(identifiers) == (state is not None):
            raise click.UsageError("give either IDs or --state")
        if older_than is not None and state is None:
            raise click.UsageError("--older-than needs --state")
        chosen = _find_all(settings, spool, identifiers)
        if state is not None:
            latest = time.time() - older_than if older_than else math.inf
            chosen = [kept for kept in chosen if kept.state is state and kept.stored_at <= latest]
        sys.exit(0 if _drop(spool, chosen, ask=not yes) else 1)

    @group.command("test")
    def test() -> None:
        """Send a test message and say what becomes of it for each recipient.

        The recipients are those of SALES_EMAIL and of each kind of form.

        The exit status is 1 if any recipient was refused, or if the mail server did not take the message.
        """
        _require_sender(mailer)
        sys.exit(0 if _send_test(replace(settings, sales_email=settings.all_recipients)) else 1)


def _identifier(text: str) -> str:
    """The one spelling of an ID: a Message-ID without <> and domain, a reference as it is shown."""
    name = text.strip("<>").partition("@")[0].lower()
    if not name:
        raise click.BadParameter("the ID is empty")
    return reference(name.replace("-", "")) if re.fullmatch("[0-9a-f]{4}-?[0-9a-f]{4}", name) else name


def _state(text: str) -> State:
    try:
        return State(text.lower().replace("-", " "))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not one of {_STATES}") from error


def _seconds(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not an age such as 30d, 12h, 90m or 45s")
    return int(match[1]) * _SECONDS[match[2]]


def _find(settings: Settings, spool: Spool, identifiers: Sequence[str]) -> tuple[list[Kept], list[str]]:
    """The messages of the identifiers, or all without any, and what to say of each identifier that has none."""
    if not settings.mail_dir.is_dir():
        raise click.ClickException(f"MAIL_DIR={str(settings.mail_dir)!r} does not exist: {LOADED}")
    if not identifiers:
        return spool.kept(), []
    for _ in range(3):  # the service may rename a message while MAIL_DIR is read
        found: dict[str, list[Kept]] = {identifier: [] for identifier in identifiers}
        for kept in spool.kept():
            for identifier in found.keys() & {kept.local_part, kept.reference, kept.request_id}:
                found[identifier].append(kept)
        if all(found.values()):
            break
    for identifier, messages in found.items():
        if len(messages) > 1:
            names = "\n".join(kept.local_part for kept in messages)
            raise click.ClickException(f"{identifier} stands for several messages. Name one of them:\n{names}")
    missing = [f"{identifier} is not in MAIL_DIR" for identifier, messages in found.items() if not messages]
    return sorted({kept for messages in found.values() for kept in messages}), missing


def _find_all(settings: Settings, spool: Spool, identifiers: Sequence[str] = ()) -> list[Kept]:
    """The same; raises ClickException when an identifier has none."""
    messages, missing = _find(settings, spool, identifiers)
    if missing:
        raise click.ClickException("\n".join(missing))
    return messages


def _require_sender(mailer: Mailer) -> None:
    if mailer.sender is None:
        raise click.ClickException(f"SMTP_HOST is not set: there is no mail server to hand messages to: {LOADED}")


def _resend(mailer: Mailer, spool: Spool, chosen: Sequence[Kept]) -> bool:
    """Hand over these messages as far as the server takes any; returns False when one of them stays."""
    if chosen and not spool.is_writable():
        raise click.ClickException("MAIL_DIR cannot be written, so a delivered message could not be removed")
    undelivered = in_a_row = number = 0
    outcome = _SKIPPED
    for number, kept in enumerate(chosen, 1):
        if outcome is not _SKIPPED:
            time.sleep(GAP)
        is_of_message = True
        try:
            with spool.claim(kept) as claim:
                outcome = f"delivered: {cut(mailer.redeliver(claim).reply)}" if claim else _SKIPPED
        except OSError as error:
            failure = failure_of(error)
            is_of_message = failure.is_of_message
            outcome = f"{'in doubt' if failure.about is About.IN_DOUBT else 'not delivered'}: {failure.sentence}"
        undelivered += not outcome.startswith("delivered")
        in_a_row = 0 if is_of_message else in_a_row + 1
        click.echo(f"{number}/{len(chosen)} {kept.local_part} {outcome}")
        if in_a_row == _FAILURES:
            break
    mailer.close()
    if number < len(chosen):
        click.echo(f"the mail server took nothing {_FAILURES} times in a row: the others were not tried", err=True)
    click.echo(f"{number} handled, {len(spool.kept())} undelivered", err=True)
    return not undelivered


def _drop(spool: Spool, chosen: Sequence[Kept], *, ask: bool) -> bool:
    """Delete these messages, once the operator has agreed if asked; returns True when all of them are deleted."""
    if chosen and not spool.is_writable():
        raise click.ClickException("MAIL_DIR cannot be written, so no message could be deleted")
    if chosen and ask:
        _ask(chosen)
    dropped = 0
    for kept in chosen:
        try:
            with spool.claim(kept) as claim:
                if claim:
                    claim.discard()
                    logger.info("message %s dropped", kept.local_part)
                    dropped += 1
                else:
                    click.echo(f"{kept.local_part} is {_SKIPPED}", err=True)
        except OSError as error:
            click.echo(f"{kept.local_part} stays: {error.strerror}", err=True)
    click.echo(f"{dropped} dropped", err=True)
    return dropped == len(chosen)


def _ask(chosen: Sequence[Kept]) -> None:
    """Return once the operator has agreed; raises click.Abort or ClickException."""
    for kept in chosen[:_SHOWN]:
        click.echo(f"{kept.local_part}  {kept.state}, {listing.duration(time.time() - kept.stored_at)} old")
    if len(chosen) > _SHOWN:
        click.echo(f"and {len(chosen) - _SHOWN} more")
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException("nothing is dropped: there is no terminal to ask, and --yes is not given")
    what = "this message" if len(chosen) == 1 else f"these {len(chosen)} messages"
    click.confirm(f"Delete {what} permanently?", abort=True)


def _send_test(settings: Settings) -> bool:
    """Send the test message to SALES_EMAIL; returns True if no recipient was refused."""
    sender = SmtpSender(settings)
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
    message = Message(message_id, "\r\n".join(lines).encode("ascii"))
    try:
        receipt = sender.send(message, Deadline(settings.smtp_timeout), before_data_ends=lambda: None)
    except OSError as error:
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            _name_recipients(settings, error.recipients)
        raise click.ClickException(failure_of(error).sentence) from error
    finally:
        sender.close()
    _name_recipients(settings, receipt.refused)
    click.echo(f"the mail server took the message: {cut(receipt.reply)}")
    return not receipt.refused


def _name_recipients(settings: Settings, refused: Mapping[str, Reply]) -> None:
    for address in (mailbox.address for mailbox in settings.sales_email):
        click.echo(f"{address}: {f'refused: {quote(refused[address])}' if address in refused else 'accepted'}")
