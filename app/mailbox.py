"""The operator's mailboxes (RFC 5322, section 3.4), and what a header may carry of a text."""

import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import quote

LINE_LENGTH = 78
"""The longest header line in characters (RFC 5322, section 2.1.1)."""

ENCODED_BYTES = 36
"""Bytes of text in an encoded word; its line then has at most 76 characters (RFC 2047, section 2)."""

_LONGEST_FIELD = "Reply-To: "
"""The longest name of a field in which a mailbox stands."""

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LONGEST_LOCAL_PART = 64
_ADDRESS = re.compile(rf"({_ATOM}(?:\.{_ATOM})*)@([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_NAMED = re.compile(rf'({_QUOTED}|[^"(),:;<>@\[\]\\]+) *<([^<>]*)>')
_PART = re.compile(rf'(?:{_QUOTED}|[^",])+')
_WORDS = re.compile(rf"{_ATOM}(?: {_ATOM})*")


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address and the name that mail readers show beside it, if there is one."""

    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        """The part of the address behind the @."""
        return self.address.rpartition("@")[2]

    @property
    def header(self) -> str:
        """The value of a header field: ASCII, with a line break before the address if a line would be too long."""
        if not self.name:
            return self.address
        phrase = self.name if _WORDS.fullmatch(self.name) else f'"{quote(self.name)}"'
        if not self.name.isascii() or len(f"{_LONGEST_FIELD}{phrase}") >= LINE_LENGTH:
            phrase = encoded_words(self.name)
        space = " " if len(f"{_LONGEST_FIELD}{phrase} <{self.address}>") < LINE_LENGTH else "\r\n "
        return f"{phrase}{space}<{self.address}>"


def parse_mailbox(raw: str) -> Mailbox:
    """One mailbox: an address, or a name and the address in angle brackets; raises ValueError for anything else.

    A name with a character that has a meaning in a header, such as a comma, stands in double quotes.
    """
    if not (named := _NAMED.fullmatch(raw)):
        return Mailbox(_address(raw))
    name = named[1].strip()
    if name.startswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    # Python 3.11's email package decodes an encoded word wherever it stands, and what it hides may start a header.
    words = name.split()
    if not words or not name.isprintable() or "=?" in name:
        raise ValueError
    return Mailbox(_address(named[2]), " ".join(words))


def parse_mailboxes(raw: str) -> tuple[Mailbox, ...]:
    """Mailboxes separated by commas; raises ValueError."""
    parts = _PART.findall(raw)
    if ",".join(parts) != raw:  # something is missing between two commas, or a quote is not closed
        raise ValueError
    return tuple(parse_mailbox(part.strip()) for part in parts)


def address_list(mailboxes: Iterable[Mailbox]) -> str:
    """The value of a header field with these mailboxes, each on a line of its own."""
    return ",\r\n ".join(mailbox.header for mailbox in mailboxes)


def unstructured(name: str, text: str) -> str:
    """The value of this header field: plain text if it is ASCII and short, else encoded words."""
    return text if text.isascii() and len(f"{name}: {text}") <= LINE_LENGTH else encoded_words(text)


def encoded_words(text: str) -> str:
    """The text as encoded words (RFC 2047), one on each line, which no text can break out of."""
    words, rest = [], text.encode()
    while rest:
        # A character must not be split between two words: what is left of one at the end goes into the next.
        words.append(rest[:ENCODED_BYTES].decode(errors="ignore").encode())
        rest = rest[len(words[-1]) :]
    return "\r\n ".join(f"=?utf-8?b?{b64encode(word).decode()}?=" for word in words)


def _address(raw: str) -> str:
    """An address by RFC 5321, sections 4.1.2 and 4.5.3.1.1, without quoted local parts.

    The domain may be localhost or a name of the local network, because an operator's own relay may deliver there.
    email-validator would refuse both.
    """
    address = _ADDRESS.fullmatch(raw)
    if not address or len(address[1]) > _LONGEST_LOCAL_PART or re.search(r"=\?.*\?=", raw):
        raise ValueError
    return raw
