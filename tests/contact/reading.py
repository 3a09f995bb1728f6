"""Messages as their readers see them, one list of lines for both parts, and what every message must be."""

import email
import re
from email.policy import compat32
from typing import Any
from urllib.parse import parse_qs
from xml.etree import ElementTree as ET

from app.contact.composer import Composer
from app.contact.content import Content, describe
from app.contact.schema import validate
from app.mail.message import Message
from app.mailbox import Mailbox
from tests.factories import REFERENCE, REQUEST_ID, UTC_ZONE, contact_body
from tests.messages import POLICIES, READER, body_of, decoded, parse

SENDER = Mailbox("web@example.com", "Formulario de España")
COMPOSER = Composer(SENDER, lambda _: [Mailbox("ventas@example.com", "Ventas, Uruguay")], UTC_ZONE)
ISOLATE = re.compile("[\u2068\u2069]")
SHOWN = {"h1": "{}", "p": "{}", "h2": "{}", "th": "{}:", "td": "{}", "li": "- {}"}
"""The elements of a page that have text, as the plain part shows them."""


def checked(**changes: Any) -> dict[str, Any]:
    """The values of a valid body with these changes."""
    values, faults = validate(contact_body(**changes))
    assert not faults
    return values


def content_of(**changes: Any) -> Content:
    """The content of the message of a valid body with these changes."""
    return describe(checked(**changes), received="", reference=REFERENCE)


def compose(composer: Composer = COMPOSER, /, **changes: Any) -> Message:
    """The message of a valid body with these changes."""
    return composer.compose(checked(**changes), REQUEST_ID)


def part(content: bytes, subtype: str) -> str:
    return body_of(parse(content), subtype)


def decoded_subject(content: bytes) -> str:
    return decoded(email.message_from_bytes(content, policy=compat32)["Subject"])


def page_of(html: str) -> ET.Element:
    """The HTML part: well-formed but for ``br``, which is a line break, and ``meta``."""
    page = html.removeprefix("<!doctype html>").replace("\n", "").replace("<br>", "\n")
    return ET.fromstring(re.sub("<(meta[^>]*)>", r"<\1/>", page))  # noqa: S314 - what was typed in it must be text


def text_of(element: ET.Element) -> str:
    return "".join(element.itertext()).replace("\N{NO-BREAK SPACE}", " ")


def words_of(page: ET.Element) -> list[str]:
    """The words that the plain part must have, in their order: there the message comes last."""
    texts = [each for each in page.iter() if each.tag in SHOWN and each.find("table") is each.find("ul") is None]
    headings = [each for each in texts if each.tag == "h2"]
    if headings and text_of(headings[0]) == "Mensaje":
        start = texts.index(headings[0])
        message, others = texts[start : start + 2], texts[start + 2 :]
        assert others[:1] == headings[1:]
        texts = [*texts[:start], *others, *message]
    return ISOLATE.sub("", " ".join(SHOWN[each.tag].format(text_of(each)) for each in texts)).split()


def read(content: bytes) -> list[str]:
    """The lines of a message: subject, Reply-To and preview, the greeting in a reply, and the text with its links."""
    message, plain, page = parse(content), part(content, "plain"), page_of(part(content, "html"))
    subject = decoded_subject(content)
    assert message["Subject"] == subject
    # In their place the HTML has directions and spaces.
    seen = ISOLATE.sub("", plain).replace("\t", " " * 4).replace("\N{NO-BREAK SPACE}", " ")
    assert words_of(page) == seen.split()
    typed = page.find(".//td[@class='typed ink']")
    assert typed is None or seen.endswith(f"\n\nMensaje\n\n{text_of(typed)}\n")
    preview = page.find("body/div")
    assert preview is not None
    assert preview.get("style", "").startswith("display:none")
    links = {text_of(link): link.get("href", "").partition("?") for link in page.iter("a")}
    (reply,) = (parse_qs(query, strict_parsing=True) for _, _, query in links.values() if query)
    greeting, rest = reply.pop("body")[0].split("\r\n", 1)
    assert (reply, rest) == ({"subject": [f"Re: {subject}"]}, "\r\n")
    return [
        f"Subject: {subject}",
        *(f"Reply-To: {' '.join(field.split())}" for field in message.get_all("Reply-To", [])),
        f"Preview: {text_of(preview)}",
        f"Greeting: {greeting}",
        *(
            f"{line} <{links[of][0]}>" if (of := line.partition(": ")[2]) in links else line
            for line in plain.split("\n")
        ),
    ]


def structure(content: bytes) -> list[list[tuple[str, list[str]]]]:
    """The parts with their header fields, as each reader finds them, and has nothing to find fault with."""
    messages = [email.message_from_bytes(content, policy=policy) for policy in POLICIES]
    assert not [part.defects for message in messages for part in message.walk() if part.defects]
    return [[(part.get_content_type(), list(part.keys())) for part in message.walk()] for message in messages]


def written_again(content: bytes, folding: str = "all") -> bytes:
    """As a program leaves it that reads each field of the header and folds it anew."""
    message = email.message_from_bytes(content, policy=READER.clone(refold_source=folding, linesep="\r\n"))
    return message.as_bytes()


FORMS = [structure(compose(email=address).content) for address in ("a@example.com", "ñ@example.com")]
"""The structure of a message with Reply-To, and of one that has none."""


def hold(content: bytes) -> None:
    """Nothing that was typed has got out of its place, both parts say the same, and the message can travel."""
    assert structure(content) == structure(written_again(content, "long"))
    assert structure(content) in FORMS
    assert content.isascii()
    assert re.search(rb"[\r\n]", content.replace(b"\r\n", b"")) is None
    assert content.endswith(b"\r\n")
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert max(map(len, content.partition(b"\r\n\r\n")[0].split(b"\r\n"))) <= 78
    subject = read(content)[0].removeprefix("Subject: ")
    assert len(subject) <= 120
    assert subject.replace("\u2069", "").endswith(f" · {parse(content)['X-Reference']}")
