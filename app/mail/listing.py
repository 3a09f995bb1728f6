"""The kept messages as the operator reads them: a table, JSON and a whole message."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message as Parsed
from multiprocessing import get_context
from typing import Any, NamedTuple

from app.mail.explain import on_one_line
from app.mail.kept import Name, State
from app.mail.lookup import reference_of
from app.mail.spool import Spool, Stored
from app.settings import Settings

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_NONE = "-"
_PIECE = 1000
"""Files that are read and shown together."""
_FEW = 4
"""Pieces for which a second process is not worth its start."""
_LINE_BREAK = re.compile("\r\n|[\r\u2028\u2029]")


class Piece(NamedTuple):
    """A part of what is in MAIL_DIR."""

    messages: list[str]
    """Each as it is shown."""
    foreign: list[str]
    """The places of the other files."""


class Listing:
    """Shows kept messages as they are at the moment at which it is made.

    Nothing that it returns gives a command to a terminal, whatever a visitor has typed or anybody has put in MAIL_DIR.
    """

    def __init__(self, settings: Settings) -> None:
        self._has_server = settings.smtp_host is not None
        self._now = time.time()

    def state(self, name: Name) -> State:
        """The state of a message. Without a mail server, all are stored."""
        return name.state if self._has_server else State.STORED

    def age(self, name: Name) -> float:
        """The seconds since the message was stored."""
        return max(0.0, self._now - name.stored_at)

    def row(self, stored: Stored) -> str:
        """The line of a message in the table, below HEADING."""
        name = stored.name
        next_try = self._next_try(name)
        # What has a next try waits. To ask for the state as well takes long with 100,000 messages.
        state = self.state(name) if next_try is None else State.WAITING
        return _row(
            duration(self.age(name)),
            stored.form_type,
            reference_of(name) or _NONE,
            str(name.attempts),
            name.answer or _NONE,
            self._time_to(next_try),
            state,
            stored.message_id,
        )

    def entry(self, stored: Stored) -> str:
        """A message in JSON."""
        return json.dumps(self._facts(stored))

    def message(self, stored: Stored, content: bytes) -> Iterator[str]:
        """The lines of one message: the facts, the header and the text, both decoded."""
        name = stored.name
        attempts = str(name.attempts)
        if name.tried_at is not None:
            answer = f": {name.answer}" if name.answer else ""
            attempts += f", the last {duration(self._now - name.tried_at)} ago ({_iso(name.tried_at)}){answer}"
        next_try = self._next_try(name)
        yield f"Message-ID: {stored.message_id}"
        yield f"Reference:  {reference_of(name) or _NONE}"
        yield f"State:      {self.state(name)}"
        yield f"Attempts:   {attempts}"
        yield f"Next try:   {self._time_to(next_try)}{f' ({_iso(next_try)})' if next_try else ''}"
        yield f"Stored:     {duration(self.age(name))} ago ({_iso(name.stored_at)})"
        yield f"File:       {stored.place}"
        yield ""
        parsed = message_from_bytes(content)
        for field, value in parsed.items():
            yield f"{on_one_line(field)}: {on_one_line(_decoded(value))}"
        yield ""
        yield _for_terminal(_text(parsed))

    def _facts(self, stored: Stored) -> dict[str, Any]:
        name = stored.name
        return {
            "message_id": stored.message_id,
            "reference": reference_of(name),
            "state": self.state(name),
            "attempts": name.attempts,
            "last_code": name.answer,
            "last_try_at": _iso(name.tried_at),
            "next_try_at": _iso(self._next_try(name)),
            "stored_at": _iso(name.stored_at),
            "age_seconds": int(self.age(name)),
            "form_type": stored.form_type,
            "bytes": stored.size,
        }

    def _next_try(self, name: Name) -> float | None:
        return name.next_try if self._has_server else None

    def _time_to(self, next_try: float | None) -> str:
        if next_try is None:
            return _NONE
        return "now" if next_try <= self._now else f"in {duration(math.ceil(next_try - self._now))}"


def read_in_pieces(spool: Spool, show: Callable[[Stored], str]) -> Iterator[Piece]:
    """All files in new/ and cur/, the oldest message first, with each message as ``show`` shows it; raises OSError."""

    def read(places: list[str]) -> Piece:
        piece = Piece([], [])
        for place, stored in spool.read_all(places):
            if stored:
                piece.messages.append(show(stored))
            else:
                piece.foreign.append(place)
        return piece

    places = spool.places()
    parts = [places[start : start + _PIECE] for start in range(0, len(places), _PIECE)]
    return _in_two_processes(read, parts) if len(parts) > _FEW else map(read, parts)


def _in_two_processes(read: Callable[[list[str]], Piece], parts: list[list[str]]) -> Iterator[Piece]:
    """Read every other part in a second process. One alone takes more than three seconds for 100,000 messages."""
    context = get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def help_out() -> None:
        for part in parts[1::2]:
            sending.send(read(part))

    helper = context.Process(target=help_out, daemon=True)
    helper.start()
    sending.close()
    try:
        for number, part in enumerate(parts):
            try:
                yield receiving.recv() if number % 2 else read(part)
            except (EOFError, OSError):  # the second process was killed, perhaps while it was sending
                yield read(part)
    finally:
        helper.terminate()  # it may still be at work when nobody reads on


def duration(seconds: float) -> str:
    """A time in its largest unit, such as ``3 h``."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


def fault_of(place: str) -> str:
    """The reason why a file is left alone."""
    return "was never finished" if place.startswith("tmp/") else "is not a message of this service"


def _row(age: str, form: str, reference: str, tries: str, code: str, next_try: str, state: str, message_id: str) -> str:
    return f"{age:>6}  {form:<12}  {reference:<9}  {tries:>5}  {code:<22}  {next_try:<9}  {state:<8}  {message_id}\n"


HEADING = _row("AGE", "FORM", "REFERENCE", "TRIES", "LAST CODE", "NEXT TRY", "STATE", "MESSAGE-ID")
"""The first line of the table: the names of the columns."""


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC).isoformat()


def _decoded(value: str) -> str:
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, ValueError):  # somebody else has written it
        return value


def _text(message: Parsed) -> str:
    """The first part that is plain text."""
    for part in message.walk():
        if part.get_content_type() == "text/plain":
            octets = part.get_payload(decode=True)
            if isinstance(octets, bytes):
                return _in_charset(octets, part.get_content_charset("utf-8"))
    return "(no text)"


def _in_charset(octets: bytes, charset: str) -> str:
    try:
        return octets.decode(charset, errors="replace")
    except LookupError:
        return octets.decode("ascii", errors="replace")


def _for_terminal(text: str) -> str:
    """The text with line breaks, tabs, joiners and isolates. Other controls, of direction too, are escaped."""
    return "".join(map(_visible, _LINE_BREAK.sub("\n", text))).rstrip()


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t\u200c\u200d\u2068\u2069":
        return character
    return " " if character.isspace() else ascii(character)[1:-1]
