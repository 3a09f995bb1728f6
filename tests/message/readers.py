"""Programs that read mail, and what each of them reads in a message."""

from __future__ import annotations

import email
import json
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from email.header import decode_header, make_header
from email.policy import compat32
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any, cast

HEADERS = ("Auto-Submitted", "X-Auto-Response-Suppress", "X-Form-Type", "X-Reference", "Bcc")
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


def read_by_python(content: bytes) -> Reading:
    """The email package where no policy is named."""
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


def read_by_mailparser(contents: list[bytes], directory: Path) -> list[Reading]:
    """The parser for Node.js, which shows an internationalised domain with its letters."""
    paths = [directory / f"{number}.eml" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    output = subprocess.check_output(["node", Path(__file__).with_name("parse.mjs"), *paths], timeout=PATIENCE)
    return [_of_json(fields) for fields in json.loads(output)]


def _of_json(fields: dict[str, Any]) -> Reading:
    mailboxes = {name: [(each, address) for each, address in fields[name]] for name in ("sender", "recipients")}
    reply_to = [(name, _ascii(address)) for name, address in fields["reply_to"]]
    headers = {name: fields["headers"][name.lower()] for name in HEADERS if name.lower() in fields["headers"]}
    date = datetime.fromisoformat(fields["date"])
    return Reading(**fields | mailboxes | {"reply_to": reply_to, "headers": headers, "date": date})


def _ascii(address: str) -> str:
    local_part, _, domain = address.rpartition("@")
    return f"{local_part}@{domain.encode('idna').decode()}"
