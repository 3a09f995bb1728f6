"""The group ``flask --app wsgi mail``: the operator's commands, their arguments and their exit statuses."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import NoReturn

import click
from flask.cli import AppGroup

from app.mail.kept import Name, State
from app.mail.listing import HEADING, Listing, duration, fault_of, read_in_pieces
from app.mail.lookup import AmbiguousError
from app.mail.operations import drop, find_all, name_foreign, require_mail_dir, resend, send_test
from app.mail.spool import Spool
from app.mail.status import LEVELS, WAITING_CRITICAL, WAITING_WARNING, Level, find_status
from app.settings import Settings

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_STATES = ", ".join(state.replace(" ", "-") for state in State)

_ID = (
    "An ID is a Message-ID, with or without <>, the reference of a submission, such as 3F0C-9A1B, or the 32 digits of"
    " its request's id."
)


def _in_words(level: Level) -> str:
    return " or ".join(state for state, its_level in LEVELS.items() if its_level is level)


_LIST = """List the messages in MAIL_DIR: those that no mail server is known to have taken.

\b
waiting   The mail server has not taken it. The service tries it again by itself.
in doubt  It was on its way and no answer came, so the mail server may have it. If you
          resend it, the sales team may get a second copy with the same Message-ID.
refused   The mail server refused it for good. Mend the cause, then resend it.
given up  The mail server has not taken it for five days. Resend it or drop it.
stored    There is no mail server: SMTP_HOST is not set.

A file that is not a complete message is named and never sent. It may be part of a visitor's message, so read it before
you delete it.

The exit status is 0, or 1 if MAIL_DIR cannot be read.
"""

_STATUS = f"""Tell Nagios or cron in one line how the mail is. No message is opened.

\b
OK, exit status {Level.OK}
    none of the following
WARNING, exit status {Level.WARNING}
    the oldest waiting message is older than {duration(WAITING_WARNING)},
    or a message is {_in_words(Level.WARNING)}
CRITICAL, exit status {Level.CRITICAL}
    the oldest waiting message is older than {duration(WAITING_CRITICAL)},
    or a message is {_in_words(Level.CRITICAL)},
    or the mail server would take no message now,
    or MAIL_DIR does not exist, cannot be written or is full,
    or any of this cannot be found out

Without SMTP_HOST, it counts what is stored.
"""


class _MailGroup(AppGroup):
    """Ends a command with one message and exit status 1 when it fails on the disk or at an ambiguous ID."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        # The terminal may have fewer characters than the mail server, and no reply of it may stop a command.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click ends quietly when nobody reads on, as in `mail list | head`
            raise
        except AmbiguousError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            file = f"{error.filename!r}: " if error.filename else ""
            raise click.ClickException(f"{file}{error.strerror}") from error


def create_mail_commands(settings: Settings, spool: Spool) -> AppGroup:
    """The group ``flask --app wsgi mail``."""
    group = _MailGroup("mail", help="Look after the messages in MAIL_DIR.")
    _add_reading(group, settings, spool)
    _add_acting(group, settings, spool)
    return group


def _add_reading(group: AppGroup, settings: Settings, spool: Spool) -> None:
    """Add the commands that change nothing."""

    @group.command("list", help=_LIST)
    @click.option("--json", "as_json", is_flag=True, help="Write one JSON document. Its times are in UTC.")
    def list_messages(*, as_json: bool) -> None:
        require_mail_dir(settings)
        listing = Listing(settings)
        begin, separator, show = HEADING, "", listing.row
        if as_json:
            begin, separator, show = '{"messages": [\n', ",\n", listing.entry
        number, foreign = 0, []
        for piece in read_in_pieces(spool, show):
            foreign += piece.foreign
            if piece.messages:
                click.echo((separator if number else begin) + separator.join(piece.messages), nl=False)
                number += len(piece.messages)
        foreign += spool.leftovers()
        if as_json:
            files = json.dumps([{"file": place, "fault": fault_of(place)} for place in foreign])
            click.echo(f'{"" if number else begin}\n], "foreign": {files}}}')
        else:
            name_foreign(foreign)
        click.echo(f"{number} undelivered", err=True)

    @group.command("show", epilog=_ID)
    @click.argument("identifier", metavar="ID")
    def show(identifier: str) -> None:
        """Show a message: its state, its header and its text, all decoded.

        It only reads, so it also shows a message that is being sent.

        The exit status is 1 if no message or more than one has the ID.
        """
        require_mail_dir(settings)
        stored, content = find_all(spool, [identifier])[0]
        text = "\n".join([*Listing(settings).message(stored, content), ""])
        # The terminal may have fewer characters than the visitor.
        click.echo(text.encode(sys.stdout.encoding, "backslashreplace"), nl=False)

    @group.command("status", help=_STATUS)
    def status() -> None:
        result = find_status(settings, spool)
        click.echo(result.line)
        raise click.exceptions.Exit(result.level)


def _add_acting(group: AppGroup, settings: Settings, spool: Spool) -> None:
    """Add the commands that send or delete."""

    @group.command("resend", epilog=_ID)
    @click.argument("identifiers", metavar="[ID]...", nargs=-1)
    @click.option("--waiting", is_flag=True, help="Send only what the mail server has certainly not taken.")
    def resend_messages(identifiers: tuple[str, ...], *, waiting: bool) -> None:
        """Send all messages in MAIL_DIR now, or only the named ones, in whatever state they are.

        Each message keeps its Message-ID. A message that the service is sending at this moment is skipped. When the
        mail server fails twice in a row, the other messages are not tried.

        The exit status is 1 if any message stays undelivered or is not there. It is 1 before anything is sent if an ID
        stands for several messages.
        """
        if identifiers and waiting:
            raise click.UsageError("give either IDs or --waiting")
        wanted = (lambda name: name.state is State.WAITING) if waiting else None
        _end(well=resend(settings, spool, identifiers, wanted))

    @group.command("drop", epilog=_ID)
    @click.argument("identifiers", metavar="[ID]...", nargs=-1)
    @click.option("--state", type=_state, metavar="STATE", help=f"Delete all that are in this state: {_STATES}.")
    @click.option(
        "--older-than", type=_seconds, metavar="AGE", help="Of these, only what is older: 30d, 12h, 90m, 45s."
    )
    @click.option("--yes", is_flag=True, help="Do not ask.")
    def drop_messages(identifiers: tuple[str, ...], *, state: State | None, older_than: int | None, yes: bool) -> None:
        """Delete messages for ever: the named ones, or all that are in a state.

        It names the messages and asks first. Where there is no terminal to ask, it deletes nothing without --yes. A
        message that the service is sending at this moment is skipped. The log gets the Message-ID of each deleted one.

        The exit status is 0 if all are deleted, and 1 if any is not. It is 1 before anything is deleted if any ID is
        not there or stands for several messages.
        """
        if bool(identifiers) == (state is not None):
            raise click.UsageError("give either IDs or --state")
        if older_than is not None and state is None:
            raise click.UsageError("--older-than needs --state")
        listing = Listing(settings)

        def wanted(name: Name) -> bool:
            return listing.state(name) is state and listing.age(name) >= (older_than or 0)

        _end(well=drop(settings, spool, identifiers, wanted, None if yes else listing))

    @group.command("test")
    def test() -> None:
        """Send a test message to SALES_EMAIL and show what becomes of it for each recipient.

        The exit status is 1 if any recipient was refused, or if the mail server did not take the message.
        """
        _end(well=send_test(settings))


def _end(*, well: bool) -> NoReturn:
    raise click.exceptions.Exit(0 if well else 1)


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
