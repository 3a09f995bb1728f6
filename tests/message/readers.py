"""Programs that read mail, and what each of them reads in a message."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import compat32
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any, cast

from tests.messages import READER

HEADERS = ("Auto-Submitted", "X-Form-Type", "X-Reference", "Bcc")
PATIENCE = 120
"""Seconds after which a program hangs."""

Mailboxes = list[tuple[str, str]]
"""Names, or empty texts, and addresses."""


@dataclass(frozen=True)
class Reading:
    """A message as a program reads it."""

    sender: Mailboxes
    recipients: Mailboxes
    reply_to: Mailboxes
    subject: str
    date: datetime
    message_id: str
    headers: dict[str, str]
    text: str
    html: str


def as_shown_by(reader: str, reading: Reading) -> Reading:
    """The reading without what this reader shows in another way, as it may."""
    match reader:
        case "email":
            # Python 3.11 puts a space between the encoded words of a name, which RFC 2047, section 6.2, does not want.
            return replace(reading, reply_to=[("".join(name.split()), address) for name, address in reading.reply_to])
        case "mailparser":
            # It shows an internationalised domain with its letters.
            return replace(reading, reply_to=[(name, _ascii(address)) for name, address in reading.reply_to])
        case "mutt":
            # It leaves the controls of the direction of writing out of a header.
            return replace(reading, subject=re.sub("[\u2068\u2069]", "", reading.subject))
        case _:
            return reading


def _ascii(address: str) -> str:
    local_part, _, domain = address.rpartition("@")
    return f"{local_part}@{domain.encode('idna').decode()}"


def _part(text: str) -> str:
    """A part of a reader that counts the line break in front of a boundary as the part's (RFC 2046, section 5.1.1)."""
    assert text.endswith("\n")
    return text[:-1]


def read_by_python(content: bytes) -> Reading:
    """The email package as new programs use it."""
    message = email.message_from_bytes(content, policy=READER)
    assert isinstance(message, EmailMessage)

    def mailboxes(name: str) -> Mailboxes:
        return [(each.display_name, each.addr_spec) for each in message[name].addresses] if name in message else []

    def body(subtype: str) -> str:
        part = message.get_body((subtype,))
        assert isinstance(part, EmailMessage)
        return cast("str", part.get_content()).replace("\r\n", "\n")

    return Reading(
        mailboxes("From"),
        mailboxes("To"),
        mailboxes("Reply-To"),
        message["Subject"],
        message["Date"].datetime.astimezone(UTC),
        message["Message-ID"],
        {name: message[name] for name in HEADERS if name in message},
        body("plain"),
        body("html"),
    )


def read_by_old_python(content: bytes) -> Reading:
    """The email package as it was before Python 3.6, and as it is where no policy is named."""
    message = email.message_from_bytes(content, policy=compat32)

    def decoded(raw: str) -> str:
        return str(make_header(decode_header(re.sub(r"\r\n(?=[ \t])", "", raw))))

    def mailboxes(name: str) -> Mailboxes:
        return [(decoded(name), address) for name, address in getaddresses(message.get_all(name, []))]

    def body(part: Any) -> str:
        return cast("bytes", part.get_payload(decode=True)).decode().replace("\r\n", "\n")

    plain, html = cast("list[Any]", message.get_payload())
    return Reading(
        mailboxes("From"),
        mailboxes("To"),
        mailboxes("Reply-To"),
        decoded(message["Subject"]),
        parsedate_to_datetime(message["Date"]).astimezone(UTC),
        message["Message-ID"],
        {name: message[name] for name in HEADERS if name in message},
        body(plain),
        body(html),
    )


def read_by_node(contents: list[bytes], directory: Path) -> list[dict[str, Reading]]:
    """The parsers for Node.js, mailparser and postal-mime."""
    paths = [directory / f"{number}.eml" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    output = subprocess.check_output(["node", Path(__file__).with_name("parse.mjs"), *paths], timeout=PATIENCE)
    readings = [{name: _of_json(fields) for name, fields in message.items()} for message in json.loads(output)]
    for reading in readings:
        postal_mime = reading["postal-mime"]
        reading["postal-mime"] = replace(postal_mime, text=_part(postal_mime.text), html=_part(postal_mime.html))
    return readings


def _of_json(fields: dict[str, Any]) -> Reading:
    def mailboxes(name: str) -> Mailboxes:
        return [(each["name"], each["address"]) for each in fields[name]]

    return Reading(
        mailboxes("from"),
        mailboxes("to"),
        mailboxes("reply_to"),
        fields["subject"],
        datetime.fromisoformat(fields["date"]),
        fields["message_id"],
        {name: fields["headers"][name.lower()] for name in HEADERS if name.lower() in fields["headers"]},
        fields["text"],
        fields["html"],
    )


_MESSAGE_ID = re.compile(rb"^Message-ID: (.*)\r$", re.MULTILINE)

# What is piped is decoded, one message after the other. A reply goes to an editor that keeps the draft, and because the
# editor changes nothing, mutt drops it.
_MUTTRC = r"""
set charset=utf-8 send_charset=utf-8 wrap_headers=998 noidn_decode hostname=localhost
set folder=. tmpdir=. postponed=postponed record="" signature="" mailcap_path=mailcap
set quit=yes nowait_key nobeep noresolve
set pipe_decode pipe_split nopipe_decode_weed
set autoedit edit_headers fast_reply recall=no reply_to=yes include=yes abort_unmodified=yes
set attribution="%[%s]\n%a\n%n" editor="cp --target-directory=replies"
auto_view text/html
"""


def read_by_mutt(contents: list[bytes], directory: Path) -> list[Reading]:
    """The mail client mutt: what it shows of each message, and whom it answers."""
    box = directory / "box"
    for folder in (box / "cur", box / "new", box / "tmp", directory / "replies"):
        folder.mkdir(parents=True)
    for number, content in enumerate(contents):
        (box / "cur" / f"{number}:2,S").write_bytes(content.replace(b"\r\n", b"\n"))
    (directory / "mailcap").write_text("text/html; cat; copiousoutput\n")
    keys = [
        "<tag-pattern>~A<enter>",
        *(
            f"<enter-command>unalternative_order *; alternative_order text/{subtype}<enter>"
            f"<tag-prefix><pipe-message>cat >$(mktemp {subtype}.XXXXXX)<enter>"
            for subtype in ("plain", "html")
        ),
        "<untag-pattern>~A<enter><first-entry>",
        *["<group-reply><next-entry>"] * len(contents),
        "<exit>",
    ]
    (directory / "muttrc").write_text(f"{_MUTTRC}push '{''.join(keys)}'\n")
    # It wants a terminal, and somebody who reads what it draws there.
    subprocess.run(
        ["script", "--quiet", "--return", "--command", "mutt -n -R -F muttrc -f box", "/dev/null"],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "HOME": str(directory), "LC_ALL": "C.UTF-8", "TERM": "vt100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=True,
    )
    files = (
        _by_message_id(directory.glob("plain.*"), "Message-ID"),
        _by_message_id(directory.glob("html.*"), "Message-ID"),
        _by_message_id((directory / "replies").iterdir(), "In-Reply-To"),
    )
    ids = [found[1].decode() for content in contents if (found := _MESSAGE_ID.search(content))]
    return [_of_mutt(*(texts[message_id] for texts in files)) for message_id in ids]


def _by_message_id(paths: Iterable[Path], field: str) -> dict[str, tuple[dict[str, str], str]]:
    """The fields and the body of each file, under the id that is in the given field."""
    files = {}
    for path in paths:
        # Where it quotes a message, mutt cuts long lines, and within a letter if need be.
        head, _, body = path.read_bytes().decode(errors="replace").partition("\n\n")
        lines = re.sub(r"\n[ \t]+", " ", head).split("\n")
        fields = dict(line.split(": ", maxsplit=1) for line in lines)
        files[fields[field]] = fields, body
    return files


def _of_mutt(
    plain: tuple[dict[str, str], str], html: tuple[dict[str, str], str], reply: tuple[dict[str, str], str]
) -> Reading:
    fields, text = plain
    draft, attribution = reply
    seconds, address, name, _ = attribution.split("\n", maxsplit=3)
    return Reading(
        [(name, address)],
        getaddresses([draft["Cc"]]),
        getaddresses([draft["To"]]) if "Reply-To" in fields else [],
        draft["Subject"].removeprefix("Re: "),
        datetime.fromtimestamp(int(seconds), UTC),
        draft["In-Reply-To"],
        {name: fields[name] for name in HEADERS if name in fields},
        _part(text),
        _part(html[1]),
    )
