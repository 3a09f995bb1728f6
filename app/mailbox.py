"""Parsing of mailboxes (RFC 5322, section 3.4)."""

import re
from dataclasses import dataclass

ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LONGEST_LOCAL_PART = 64
_ADDRESS = re.compile(rf"({ATOM}(?:\.{ATOM})*)@([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_NAMED = re.compile(rf'({_QUOTED}|[^"(),:;<>@\[\]\\]+) *<([^<>]*)>')
_PART = re.compile(rf'(?:{_QUOTED}|[^",])+')


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address and the name that mail programs show next to it, if there is one."""

    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        """The part of the address after the @."""
        return self.address.rpartition("@")[2]


def parse_mailbox(raw: str) -> Mailbox:
    """One mailbox: an address, or a name and the address in angle brackets; raises ValueError for anything else.

    A name with a character that is special in a header, such as a comma, needs double quotes.
    """
    if not (named := _NAMED.fullmatch(raw)):
        return Mailbox(_address(raw))
    name = named[1].strip()
    if name.startswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    # Python 3.11's email package decodes an encoded word anywhere, and a line break inside it would start a new header.
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


def _address(raw: str) -> str:
    """An address by RFC 5321, sections 4.1.2 and 4.5.3.1.1, without quoted local parts.

    The domain may be localhost or a name of the local network, because an operator's own relay may deliver there.
    email-validator would refuse both.
    """
    address = _ADDRESS.fullmatch(raw)
    if not address or len(address[1]) > _LONGEST_LOCAL_PART or re.search(r"=\?.*\?=", raw):
        raise ValueError
    return raw
