"""The e-mail that the sales team reads, made from a submission."""

from __future__ import annotations

import re
import secrets
from binascii import b2a_qp
from collections.abc import Sequence
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any
from zoneinfo import ZoneInfo

from app.contact.letter import Letter
from app.contact.rendering import HTML_HEAD, html_of, text_of
from app.mail.message import KIND_HEADER, REFERENCE_HEADER, Message, reference
from app.mailbox import LINE_LENGTH, Mailbox, address_list, encoded_words

# Python 3.11's email package decodes the name in an address field and writes it again without quotes. Then what stands
# behind one of these characters becomes another address, and an encoded word within an encoded word a header line.
_UNFIT_FOR_A_NAME = re.compile(r'[@<>,;:"\\]|=\?|^\.')
_UNFIT_FOR_AN_ENCODED_NAME = re.compile(r"[()\[\]]")


class Composer:
    """Writes the messages, dated in the given time zone."""

    def __init__(self, sender: Mailbox, recipients: Sequence[Mailbox], timezone: ZoneInfo) -> None:
        self._html_head = _quoted_printable(HTML_HEAD)
        self._sender = sender.header
        self._recipients = address_list(recipients)
        self._domain = sender.domain
        self._timezone = timezone

    def compose(self, values: dict[str, Any], request_id: str) -> Message:
        """The message of a checked submission. Its Message-ID begins with the id of the request."""
        received_at = datetime.now(self._timezone)
        letter = Letter.of(values, received=_received(received_at, self._timezone), reference=reference(request_id))
        # A trusted proxy may give two requests the same id. A mail server must not take the second message for a copy.
        message_id = f"<{request_id}.{secrets.token_hex(8)}@{self._domain}>"
        headers = [
            ("From", self._sender),
            ("To", self._recipients),
            *_reply_to(letter),
            ("Subject", _unstructured("Subject", letter.subject)),
            ("Date", format_datetime(received_at)),
            ("Message-ID", message_id),
            ("Auto-Submitted", "auto-generated"),  # RFC 3834, section 5: no out-of-office message answers it
            (KIND_HEADER, values["form_type"]),
            (REFERENCE_HEADER, letter.reference),
        ]
        parts = {
            "plain": _quoted_printable(text_of(letter)),
            "html": self._html_head + _quoted_printable(html_of(letter)),
        }
        return Message(message_id, _multipart(headers, parts), values["form_type"])


def _received(at: datetime, timezone: ZoneInfo) -> str:
    """The line that says when and from where a message came, with the city and the offset of the time zone."""
    city, offset = timezone.key.rpartition("/")[2].replace("_", " "), _offset(at)
    zone = offset if timezone.key.startswith("Etc/") or city == offset else f"{city}, {offset}"
    return f"Recibido el {at:%d/%m/%Y a las %H:%M} ({zone}) desde el formulario de la web."


def _offset(at: datetime) -> str:
    """The offset of the time, such as UTC-3 or UTC+5:30."""
    minutes = (at.utcoffset() or timedelta()) // timedelta(minutes=1)
    hours, rest = divmod(abs(minutes), 60)
    return "UTC" + (f"{'-' if minutes < 0 else '+'}{hours}" if minutes else "") + (f":{rest:02}" if rest else "")


def _reply_to(letter: Letter) -> list[tuple[str, str]]:
    """The Reply-To field; none when a header cannot carry the visitor's address, which the body shows anyway."""
    if not letter.reply_to:
        return []
    named = Mailbox(letter.reply_to, letter.name).header
    fit = not (
        _UNFIT_FOR_A_NAME.search(letter.name) or ("=?" in named and _UNFIT_FOR_AN_ENCODED_NAME.search(letter.name))
    )
    return [("Reply-To", named if fit else letter.reply_to)]


def _unstructured(name: str, text: str) -> str:
    """A header value: plain text if it is ASCII and short, else encoded words."""
    if text.isascii() and len(f"{name}: {text}") <= LINE_LENGTH:
        return text
    return encoded_words(text)


def _quoted_printable(text: str) -> bytes:
    encoded = b2a_qp(text.replace("\n", "\r\n").encode(), istext=True)
    # A mailbox in the mbox format would put > before such a line, and the DKIM signature would not verify any more.
    return encoded.replace(b"\r\nFrom ", b"\r\nFro=\r\nm ")


def _multipart(headers: list[tuple[str, str]], parts: dict[str, bytes]) -> bytes:
    """A multipart/alternative message (RFC 2046), written by hand because of header injection.

    The email package of Python 3.11 decodes an encoded word in a header value. If the word hides a line break, the text
    behind it becomes a header line of its own, such as Bcc.
    """
    boundary = f"=_{secrets.token_hex(12)}"
    lines = [f"{name}: {value}".encode("ascii") for name, value in headers]
    lines += [b"MIME-Version: 1.0", f'Content-Type: multipart/alternative; boundary="{boundary}"'.encode(), b""]
    for subtype, body in parts.items():
        lines += [
            f"--{boundary}".encode(),
            f"Content-Type: text/{subtype}; charset=utf-8".encode(),
            b"Content-Transfer-Encoding: quoted-printable",
            b"",
            body,
        ]
    return b"\r\n".join([*lines, f"--{boundary}--".encode(), b""])
