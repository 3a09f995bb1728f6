"""The message that the mail layer delivers, and the encoding of its bytes."""

import re
import secrets
from base64 import b64encode
from binascii import b2a_qp
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import quote

from app.mailbox import ATOM, Mailbox

LINE_LENGTH = 78  # the longest header line in characters (RFC 5322, section 2.1.1)
ENCODED_BYTES = 36  # bytes of text in an encoded word; its line then has at most 76 characters (RFC 2047, section 2)

_LONGEST_NAME = "Reply-To: "  # before a mailbox in a header
_WORDS = re.compile(rf"{ATOM}(?: {ATOM})*")


@dataclass(frozen=True, slots=True)
class Message:
    """A message ready to send."""

    message_id: str  # created before the first attempt, so that a second copy can be recognised
    content: bytes  # the whole message (RFC 5322), in ASCII and with CRLF line ends
    form_type: str = ""  # empty for a message that no form has created


def reference(request_id: str) -> str:
    """The reference of a submission, such as ``3F0C-9A1B``: the first eight digits of its request's id."""
    return f"{request_id[:4]}-{request_id[4:8]}".upper()


def build(headers: list[tuple[str, str]], parts: dict[str, str]) -> bytes:
    """A multipart/alternative message (RFC 2046) with a part for each subtype.

    EmailMessage is not used: it takes 2.1 ms instead of 0.11, and its Reply-To can be invalid, even in Python 3.14. In
    3.11.7 and 3.12.1, a line break hidden in an encoded word of a header value starts a new header, such as Bcc;
    Debian's 3.11.2 and 3.13 are not affected.
    """
    boundary = f"=_{secrets.token_hex(12)}"
    lines = [f"{name}: {value}".encode("ascii") for name, value in headers]
    lines += [b"MIME-Version: 1.0", f'Content-Type: multipart/alternative; boundary="{boundary}"'.encode(), b""]
    for subtype, text in parts.items():
        body = b2a_qp(text.replace("\n", "\r\n").encode(), istext=True)
        lines += [
            f"--{boundary}".encode(),
            f"Content-Type: text/{subtype}; charset=utf-8".encode(),
            b"Content-Transfer-Encoding: quoted-printable",
            b"",
            # An mbox would put > before such a line, and the DKIM signature would no longer verify.
            body.replace(b"\r\nFrom ", b"\r\nFro=\r\nm "),
        ]
    return b"\r\n".join([*lines, f"--{boundary}--".encode(), b""])


def encode_text(name: str, text: str) -> str:
    """The value of the header field of this name: plain text if it is ASCII and short, else encoded words."""
    return text if text.isascii() and len(f"{name}: {text}") <= LINE_LENGTH else _encoded_words(text)


def encode_mailboxes(mailboxes: Sequence[Mailbox]) -> str:
    """The value of a header field with these mailboxes: ASCII, each on a line of its own."""
    return ",\r\n ".join(map(_encode_mailbox, mailboxes))


def _encode_mailbox(mailbox: Mailbox) -> str:
    name, address = mailbox.name, mailbox.address
    if not name:
        return address
    phrase = name if _WORDS.fullmatch(name) else f'"{quote(name)}"'
    if not name.isascii() or len(f"{_LONGEST_NAME}{phrase}") >= LINE_LENGTH:
        phrase = _encoded_words(name)
    space = " " if len(f"{_LONGEST_NAME}{phrase} <{address}>") < LINE_LENGTH else "\r\n "
    return f"{phrase}{space}<{address}>"


def _encoded_words(text: str) -> str:
    """The text as encoded words (RFC 2047), each on a line of its own, so no text can start a header."""
    words, rest = [], text.encode()
    while rest:
        # A character must not be split between two words: an incomplete one at the end goes into the next word.
        words.append(rest[:ENCODED_BYTES].decode(errors="ignore").encode())
        rest = rest[len(words[-1]) :]
    return "\r\n ".join(f"=?utf-8?b?{b64encode(word).decode()}?=" for word in words)
