"""Messages as their readers see them: one text that shows the header and the letter, which both parts must agree on."""

from __future__ import annotations

import email
import re
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import compat32
from typing import Any, cast
from urllib.parse import quote
from xml.etree import ElementTree as ET

from app.contact.composer import Composer
from app.contact.letter import EmailView
from app.contact.schema import validate
from app.mail.message import Message
from app.mailbox import Mailbox
from tests.factories import REFERENCE, REQUEST_ID, UTC_ZONE, contact_body
from tests.messages import READER

SENDER = Mailbox("web@example.com", "Formulario de España")
COMPOSER = Composer(SENDER, lambda _: [Mailbox("ventas@example.com", "Ventas, Uruguay")], UTC_ZONE)
RECEIVED_AT = "2030-02-01 19:30:00"
RECEIVED = "Recibido el 01/02/2030 a las 19:30 (UTC) desde el formulario de la web."
"""The line for that time."""
ISOLATES = re.compile("[\u2068\u2069]")


def checked(**changes: Any) -> dict[str, Any]:
    """The values of a valid body with these changes."""
    values, faults = validate(contact_body(**changes))
    assert not faults
    return values


def letter_of(**changes: Any) -> EmailView:
    """The letter of a valid body with these changes."""
    return EmailView(checked(**changes), received=RECEIVED, reference=REFERENCE)


def compose(composer: Composer = COMPOSER, /, **changes: Any) -> Message:
    """The message of a valid body with these changes."""
    return composer.compose(checked(**changes), REQUEST_ID)


def parse(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=READER)


def part(content: bytes, subtype: str) -> str:
    body = parse(content).get_body((subtype,))
    assert isinstance(body, EmailMessage)
    return cast("str", body.get_content()).replace("\r\n", "\n")


class Page:
    """The HTML part: well-formed but for ``br`` and ``meta``, which close by themselves."""

    def __init__(self, html: str) -> None:
        closed = re.sub(r"<(br|meta)\b([^>]*)>", r"<\1\2/>", html.removeprefix("<!doctype html>"))
        self.html = html
        self.root = ET.fromstring(closed)  # noqa: S314 - the page is ours, and what was typed in it must be text
        self.tags = [(each.tag, {name: it for name, it in each.items() if name != "href"}) for each in self.root.iter()]
        self.links = {text_of(link): link.get("href", "") for link in self.root.iter("a")}
        hidden = self._find(".//div[@style]")
        assert hidden.get("style", "").startswith("display:none")
        self.preview = text_of(hidden)

    def _find(self, path: str) -> ET.Element:
        found = self.root.find(path)
        assert found is not None
        return found

    def read(self) -> str:
        """The lines of the plain part."""
        lines: list[str] = []
        heading = ""
        for element in self._find(".//td[@class='card']"):
            message = element.find(".//td[@class='typed ink']")
            if element.tag == "h2":
                heading = text_of(element)
            elif element.tag != "table":
                lines += text_of(element).split("\n")
            else:
                lines += ["", heading, ""] if heading else [""]
                lines += (
                    [text_of(message)]
                    if message is not None
                    else [_field(row) for row in element.iter("tr") if _is_field(row)]
                )
                heading = ""
        return "\n".join(lines) + "\n"


def _is_field(row: ET.Element) -> bool:
    return "label" in row[0].get("class", "")


def _field(row: ET.Element) -> str:
    label, value = row
    items = [_line(*map(text_of, item)) for item in value.iter("tr")]
    items += ["- " + _indented(text_of(item), 2) for item in value.iter("li")]
    if items:
        return "\n    ".join([f"{text_of(label)}:", *(_indented(item, 4) for item in items)])
    return _line(text_of(label), text_of(value))


def _line(label: str, text: str) -> str:
    return f"{label}:\n    {_indented(text, 4)}" if "\n" in text else f"{label}: {text}"


def _indented(text: str, width: int) -> str:
    return re.sub(r"\n(?!\n|\Z)", "\n" + " " * width, text)


def text_of(element: ET.Element) -> str:
    """What is seen of it: a line break of the source, which stands beside a ``br``, is nothing."""
    inner = [(element.text or "").replace("\n", "")]
    for child in element:
        inner += ["\n" if child.tag == "br" else text_of(child), (child.tail or "").replace("\n", "")]
    return "".join(inner).replace("\N{NO-BREAK SPACE}", " ")


def decoded_subject(content: bytes) -> str:
    """As a reader that follows RFC 2047 shows it."""
    subject = email.message_from_bytes(content, policy=compat32)["Subject"]
    return str(make_header(decode_header(re.sub(r"\r?\n(?=[ \t])", "", subject))))


def read(content: bytes) -> list[str]:
    """The lines of a message: subject, Reply-To and preview, then the letter, with the address behind a telephone."""
    message, plain, page = parse(content), part(content, "plain"), Page(part(content, "html"))
    subject = decoded_subject(content)
    assert message["Subject"] == subject
    seen = plain.replace("\t", " " * 4).replace("\N{NO-BREAK SPACE}", " ")
    assert ISOLATES.sub("", page.read()) == ISOLATES.sub("", seen)
    links = dict(page.links)
    for shown, address in page.links.items():
        if address.startswith("mailto:"):
            mailbox, _, rest = address.removeprefix("mailto:").partition("?")
            assert rest == f"subject={quote(f'Re: {subject}', safe='')}"
            links[shown] = mailbox
    head = [
        f"Subject: {subject}",
        *(f"Reply-To: {' '.join(field.split())}" for field in message.get_all("Reply-To", [])),
    ]
    linked = [
        f"{line} <{links[value]}>" if (value := line.partition(": ")[2]) in links else line
        for line in plain.split("\n")
    ]
    return [*head, f"Preview: {page.preview}", *linked]
