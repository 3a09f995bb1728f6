"""The kept messages as the operator reads them: a table, JSON and a whole message."""

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header

from app.mail.failures import on_one_line
from app.mail.kept import Kept

_ROW = "{:>6}  {:<12}  {:<9}  {:>5}  {:<22}  {:<9}  {:<8}  {}"
_HEADING = _ROW.format("AGE", "FORM", "REFERENCE", "TRIES", "LAST CODE", "NEXT TRY", "STATE", "MESSAGE-ID")


def table(messages: Iterable[Kept], now: float) -> str:
    """The messages in lines, below a heading."""
    lines = [_HEADING]
    for kept in messages:
        age, next_try = duration(now - kept.stored_at), _time_to(kept.next_try, now)
        form_type, reference, code = (fact or "-" for fact in (kept.form_type, kept.reference, kept.last_code))
        lines.append(_ROW.format(age, form_type, reference, kept.tries, code, next_try, kept.state, kept.local_part))
    return "\n".join(lines)


def facts(kept: Kept, now: float) -> dict[str, str | int | None]:
    """A message as ``--json`` shows it."""
    return {
        "message_id": kept.local_part,
        "reference": kept.reference,
        "state": kept.state,
        "attempts": kept.tries,
        "last_code": kept.last_code or None,
        "last_try_at": _iso(kept.last_at) if kept.tries else None,
        "next_try_at": _iso(kept.next_try),
        "stored_at": _iso(kept.stored_at),
        "age_seconds": max(0, int(now - kept.stored_at)),
        "form_type": kept.form_type or None,
    }


def decoded(content: bytes) -> str:
    """The header and the text of a message. Nothing in them gives a command to a terminal."""
    parsed = message_from_bytes(content)
    plain = (part.get_payload(decode=True) for part in parsed.walk() if part.get_content_type() == "text/plain")
    # The first part that is plain text. The service writes UTF-8.
    text = next((octets.decode(errors="replace") for octets in plain if isinstance(octets, bytes)), "(no text)")
    header = "\n".join(f"{on_one_line(field)}: {on_one_line(_decoded(value))}" for field, value in parsed.items())
    body = "".join(map(_visible, re.sub("\r\n|[\r\u2028\u2029]", "\n", text)))
    return f"{header}\n\n{body.rstrip()}"


def duration(seconds: float) -> str:
    """A time in its largest unit, such as ``3 h``."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC).isoformat()


def _time_to(next_try: float | None, now: float) -> str:
    if next_try is None:
        return "-"
    return "now" if next_try <= now else f"in {duration(math.ceil(next_try - now))}"


def _decoded(value: str) -> str:
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, ValueError):  # a visitor has typed what looks like an encoded word
        return value


def _visible(character: str) -> str:
    """The character if it is a line break, tab, joiner or isolate; other controls, of direction too, are escaped."""
    if character.isprintable() or character in "\n\t\u200c\u200d\u2068\u2069":
        return character
    return " " if character.isspace() else ascii(character)[1:-1]
