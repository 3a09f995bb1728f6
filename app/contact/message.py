"""The e-mail that the sales team reads, made from a submission."""

from __future__ import annotations

import json
import secrets
from binascii import b2a_qp
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from app.contact.submission import HONEYPOT, Address
from app.mail.message import KIND_HEADER, REFERENCE_HEADER, Message, reference
from app.mailbox import LINE_LENGTH, Mailbox, address_list, encoded_words

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
"""Fields that the message does not show: the form kind, which is its title, and those of the checks against spam."""

_BREAKS = "\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_TO_ONE_LINE = dict.fromkeys([*_CONTROLS, *map(ord, _BREAKS)], " ")
_to_json = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make a new encoder for each field
_TO_TEXT = dict.fromkeys(_CONTROLS, " ") | dict.fromkeys(map(ord, _BREAKS), "\n") | {ord("\t"): "\t"}


@cache
def _templates() -> Environment:
    """The templates, which are compiled once per process."""
    return Environment(
        loader=PackageLoader("app.contact"),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


class Composer:
    """Writes the messages."""

    def __init__(self, sender: Mailbox, recipients: Sequence[Mailbox]) -> None:
        self._text = _templates().get_template("message.txt")
        self._html = _templates().get_template("message.html")
        self._sender = sender.header
        self._recipients = address_list(recipients)
        self._domain = sender.domain

    def compose(self, values: dict[str, Any], request_id: str) -> Message:
        """The message of a checked submission. Its Message-ID begins with the id of the request."""
        received_at = datetime.now(UTC)
        # A trusted proxy may give two requests the same id. A mail server must not take the second message for a copy.
        message_id = f"<{request_id}.{secrets.token_hex(8)}@{self._domain}>"
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
            (REFERENCE_HEADER, reference(request_id)),
        ]
        received = f"{received_at:%d/%m/%Y a las %H:%M}"
        rows = [("Referencia", reference(request_id)), *_rows(values)]
        context = {"kind": kind, "rows": rows, "received": received}
        content = _multipart(headers, text=self._text.render(context), html=self._html.render(context))
        return Message(message_id, content)


def one_line(text: str) -> str:
    """The text with spaces for control characters and line breaks, so that it cannot start a line of its own."""
    return text.translate(_TO_ONE_LINE)


def _reply_to(address: Address) -> list[tuple[str, str]]:
    """The Reply-To field; none when a header cannot carry the visitor's address, which the body shows anyway."""
    # A local part may look like an encoded word (RFC 2047), which a mail reader would decode.
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
    """A header value: plain text if it is safe, else encoded words."""
    if text.isascii() and "=?" not in text and len(name) + len(text) < LINE_LENGTH:
        return text
    return encoded_words(text)


def _multipart(headers: list[tuple[str, str]], *, text: str, html: str) -> bytes:
    """A multipart/alternative message (RFC 2046), written by hand because of header injection.

    The email package of Python 3.11 decodes an encoded word in a header value. If the word hides a line break, the text
    behind it becomes a header line of its own, such as Bcc.
    """
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
