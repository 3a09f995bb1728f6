"""The e-mail that the sales team reads, composed from a submission."""

import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from app.contact.content import Content, describe
from app.contact.visible_text import direction, isolated
from app.mail.message import Message, build, encode_mailboxes, encode_text, reference
from app.mailbox import Mailbox

# Python 3.11's email package parses a display name and writes it back without quotes. Whatever follows one of these
# characters then becomes a second address, and a nested encoded word can become a header line.
_UNFIT_FOR_A_NAME = re.compile(r'[@<>,;:"\\]|=\?|^\.')
_UNFIT_FOR_AN_ENCODED_NAME = re.compile(rf"{_UNFIT_FOR_A_NAME.pattern}|[()\[\]]")

_COLLAPSED_SPACE = re.compile("^ | (?= )", re.MULTILINE)
"""A space that HTML would not show: at the start of a line, or before another one."""

# Not dir="auto" or <bdi>: old mail programs know only the two directions.
_DIRECTED = Markup('<span dir="{}">{}</span>')


def _directed(line: str) -> str:
    dir_value = direction(line)
    return _DIRECTED.format(dir_value, line) if dir_value else line


def _html(text: str) -> Markup:
    """The text as HTML: Markup escapes what it formats or joins. Each line break and each space is kept."""
    text = _COLLAPSED_SPACE.sub("\N{NO-BREAK SPACE}", text.replace("\t", " " * 4))
    return Markup("<br>\n").join(map(_directed, text.split("\n")))


_ENVIRONMENT = Environment(
    loader=PackageLoader("app.contact"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters |= {"html": _html, "isolated": isolated}
TEXT = _ENVIRONMENT.get_template("message.txt")
HTML = _ENVIRONMENT.get_template("message.html")


class Composer:
    """Writes the messages to the recipients of each form type, dated in the given time zone."""

    def __init__(self, sender: Mailbox, recipients: Callable[[str], Sequence[Mailbox]], timezone: ZoneInfo) -> None:
        self._sender = sender
        self._recipients = recipients
        self._timezone = timezone

    def compose(self, values: dict[str, Any], request_id: str) -> Message:
        """The message of a checked submission. Its Message-ID begins with the id of the request."""
        now = datetime.now(self._timezone)
        content = describe(values, received=_received(now, self._timezone.key), reference=reference(request_id))
        # A trusted proxy may give two requests the same id. A mail server must not take the second message for a copy.
        message_id = f"<{request_id}.{secrets.token_hex(8)}@{self._sender.domain}>"
        headers = [
            ("From", encode_mailboxes([self._sender])),
            ("To", encode_mailboxes(self._recipients(values["form_type"]))),
            *_reply_to(content),
            ("Subject", encode_text("Subject", content.subject)),
            ("Date", format_datetime(now)),
            ("Message-ID", message_id),
            # MS-OXCMAIL, section 2.1.3.2.20. "All" would suppress bounces, too, and help desks drop Auto-Submitted.
            ("X-Auto-Response-Suppress", "OOF, AutoReply"),
            # For a mailbox's filters.
            ("X-Form-Type", values["form_type"]),
            ("X-Reference", content.reference),
        ]
        parts = {"plain": TEXT.render(content=content), "html": HTML.render(content=content)}
        return Message(message_id, build(headers, parts), values["form_type"])


def _received(at: datetime, zone: str) -> str:
    """The line with the time at which a form was received, and the time zone's city and offset."""
    # str() of a fixed offset is UTC, UTC-03:00 or UTC+05:30.
    offset = re.sub(r"(?<=[+-])0|:00$", "", str(timezone(at.utcoffset() or timedelta())))
    city = zone.rpartition("/")[2].replace("_", " ")
    place = offset if zone.startswith("Etc/") or city == offset else f"{city}, {offset}"
    return f"Recibido el {at:%d/%m/%Y a las %H:%M} ({place}) desde el formulario de la web."


def _reply_to(content: Content) -> list[tuple[str, str]]:
    """The Reply-To field; none when a header cannot carry the visitor's address, which the body shows anyway."""
    if not content.reply_to:
        return []
    named = encode_mailboxes([Mailbox(content.reply_to, content.name)])
    unfit = _UNFIT_FOR_AN_ENCODED_NAME if "=?" in named else _UNFIT_FOR_A_NAME
    return [("Reply-To", content.reply_to if unfit.search(content.name) else named)]
