"""The queued messages as the operator reads them: a table, JSON and a whole message."""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header

from app.mail.failures import on_one_line
from app.mail.queued import QueuedMessage

_ROW = "{:>6}  {:<12}  {:<9}  {:>8}  {:<15}  {:<12}  {:<8}  {}"
_HEADING = _ROW.format("AGE", "FORM", "REFERENCE", "ATTEMPTS", "LAST CODE", "NEXT ATTEMPT", "STATE", "MESSAGE-ID")


def table(messages: Iterable[QueuedMessage], now: float) -> str:
    """One line per message, below a heading."""
    lines = [_HEADING]
    for it in messages:
        age, next_attempt = duration(now - it.stored_at), _time_to(it.next_attempt, now)
        form_type, reference, code = (fact or "-" for fact in (it.form_type, it.reference, it.last_code))
        lines.append(_ROW.format(age, form_type, reference, it.attempts, code, next_attempt, it.state, it.local_part))
    return "\n".join(lines)


def facts(message: QueuedMessage, now: float) -> dict[str, str | int | None]:
    """A message as ``--json`` shows it."""
    return {
        "message_id": message.local_part,
        "reference": message.reference,
        "state": message.state,
        "attempts": message.attempts,
        "last_code": message.last_code or None,
        "last_attempt_at": _iso(message.last_at) if message.attempts else None,
        "next_attempt_at": _iso(message.next_attempt),
        "stored_at": _iso(message.stored_at),
        "age_seconds": max(0, int(now - message.stored_at)),
        "form_type": message.form_type or None,
    }


def decoded(content: bytes) -> str:
    """The header and the text of a message. No character in them can control a terminal."""
    parsed = message_from_bytes(content)
    plain = (part.get_payload(decode=True) for part in parsed.walk() if part.get_content_type() == "text/plain")
    # The first part that is plain text. The service writes UTF-8.
    text = next((octets.decode(errors="replace") for octets in plain if isinstance(octets, bytes)), "(no text)")
    header = "\n".join(f"{on_one_line(field)}: {on_one_line(_decoded(value))}" for field, value in parsed.items())
    body = "".join(map(_visible, re.sub("\r\n|[\r\u2028\u2029]", "\n", text)))
    return f"{header}\n\n{body.rstrip()}"


def duration(seconds: float) -> str:
    """A duration in one unit, such as ``3 h``."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC).isoformat()


def _time_to(attempt: float | None, now: float) -> str:
    if attempt is None:
        return "-"
    return "now" if attempt <= now else f"in {duration(math.ceil(attempt - now))}"


def _decoded(value: str) -> str:
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, ValueError):  # a visitor has typed what looks like an encoded word
        return value


def _visible(character: str) -> str:
    """The character if it is safe for a terminal; other white space becomes a space, the rest is escaped."""
    if character.isprintable() or character in "\n\t\u200c\u200d\u2068\u2069":
        return character
    return " " if character.isspace() else ascii(character)[1:-1]
