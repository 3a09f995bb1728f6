"""From a submission to the e-mail that the sales team reads."""

from __future__ import annotations

import json
import secrets
from base64 import b64encode
from binascii import b2a_qp
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from app.contact.submission import HONEYPOT, Address
from app.mail.message import KIND_HEADER, Message

KINDS = {
    "demo": "Solicitud de demostración",
    "ventas": "Mensaje para el equipo de ventas",
    "onboarding": "Alta de comercio",
    "distribuidor": "Candidatura al programa de distribuidores",
}
"""The Spanish name of each form kind."""

LABELS = {
    "nombre": "Nombre",
    "empresa": "Empresa",
    "email": "Correo electrónico",
    "telefono": "Teléfono",
    "mensaje": "Mensaje",
}
"""The Spanish labels of the fields that are shown, in the order in which they are shown."""

HIDDEN = frozenset({"form_type", "ts", "captcha_expected", "captcha_input", HONEYPOT})
"""Fields that are named by the title or serve only to tell people from machines."""

LINE_LENGTH = 78
"""Characters that a header line should not exceed (RFC 5322, section 2.1.1)."""

ENCODED_BYTES = 36
"""Bytes of text in an encoded word, which keeps its line below 77 characters (RFC 2047, section 2)."""

_BREAKS = "\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_TO_ONE_LINE = dict.fromkeys([*_CONTROLS, *map(ord, _BREAKS)], " ")
_to_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder for each of 8,000 fields
_TO_TEXT = dict.fromkeys(_CONTROLS, " ") | dict.fromkeys(map(ord, _BREAKS), "\n") | {ord("\t"): "\t"}


class Composer:
    """Writes the messages; what all of them share is prepared once."""

    def __init__(self, sender: str, recipients: Sequence[str]) -> None:
        templates = Environment(
            loader=PackageLoader("app.contact"),
            autoescape=select_autoescape(["html"]),
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._text = templates.get_template("message.txt")
        self._html = templates.get_template("message.html")
        self._sender = sender
        self._recipients = ",\r\n ".join(recipients)
        self._domain = sender.rpartition("@")[2]

    def compose(self, values: dict[str, Any]) -> Message:
        """The message of a checked submission, under a Message-ID of its own."""
        received_at = datetime.now(UTC)
        message_id = f"<{secrets.token_hex(16)}@{self._domain}>"
        kind = KINDS[values["form_type"]]
        address: Address = values["email"]
        names = (one_line(values.get(name, "")).strip() for name in ("empresa", "nombre"))
        who = next(filter(None, names), address.normalized)
        headers = [
            ("From", self._sender),
            ("To", self._recipients),
            *_reply_to(address),
            ("Subject", _unstructured("Subject", f"{kind}: {who}")),
            ("Date", format_datetime(received_at)),
            ("Message-ID", message_id),
            (KIND_HEADER, values["form_type"]),
        ]
        received = f"{received_at:%d/%m/%Y a las %H:%M}"
        context = {"kind": kind, "rows": list(_rows(values)), "received": received}
        content = _multipart(headers, text=self._text.render(context), html=self._html.render(context))
        return Message(message_id, content)


def one_line(text: str) -> str:
    """The text without control characters and line breaks, so that it starts no line of its own."""
    return text.translate(_TO_ONE_LINE)


def _reply_to(address: Address) -> list[tuple[str, str]]:
    """The visitor's address, unless a header cannot carry it: then the body alone shows it."""
    # An encoded word (RFC 2047) is made of characters that a local part may have.
    if address.ascii is None or ("=?" in address.ascii and "?=" in address.ascii):
        return []
    return [("Reply-To", address.ascii)]


def _rows(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, label in LABELS.items():
        if name in values:
            yield label, _shown(values[name])
    for name, value in values.items():
        if name not in LABELS and name not in HIDDEN:
            label = one_line(name).replace("_", " ").strip()
            yield label[:1].upper() + label[1:], _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, Address):
        return value.normalized
    text = value if isinstance(value, str) else _to_json(value)
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_TO_TEXT)


def _unstructured(name: str, text: str) -> str:
    """A header value as encoded words (RFC 2047), which no text can break out of; plain where that reads the same."""
    if text.isascii() and "=?" not in text and len(name) + len(text) < LINE_LENGTH:
        return text
    words = [b""]
    for character in map(str.encode, text):  # an encoded word divides no character
        if len(words[-1]) + len(character) > ENCODED_BYTES:
            words.append(b"")
        words[-1] += character
    return "\r\n ".join(f"=?utf-8?b?{b64encode(word).decode()}?=" for word in words)


def _multipart(headers: list[tuple[str, str]], *, text: str, html: str) -> bytes:
    """A multipart/alternative message (RFC 2046), composed by hand: the email package takes ten times as long."""
    boundary = f"=_{secrets.token_hex(16)}"
    lines = [f"{name}: {value}".encode("ascii") for name, value in headers]
    lines += [b"MIME-Version: 1.0", f'Content-Type: multipart/alternative; boundary="{boundary}"'.encode(), b""]
    for subtype, body in (("plain", text), ("html", html)):
        lines += [
            f"--{boundary}".encode(),
            f"Content-Type: text/{subtype}; charset=utf-8".encode(),
            b"Content-Transfer-Encoding: quoted-printable",
            b"",
            b2a_qp(body.replace("\n", "\r\n").encode(), istext=True),
        ]
    return b"\r\n".join([*lines, f"--{boundary}--".encode(), b""])
