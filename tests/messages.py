"""How the tests read messages."""

import email
import re
from email.header import decode_header, make_header
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.policy import compat32, default
from functools import lru_cache

# email.policy.default parses a field anew at every look. The parser looks at each Content-Type some ten times.
READER = default.clone(header_factory=lru_cache(maxsize=1_000)(HeaderRegistry()))
"""The modern reader, with a memory for the fields that it has parsed."""

POLICIES = (READER, compat32)
"""The two readers of the email package. They do not agree on everything."""


def parse(content: bytes) -> EmailMessage:
    return email.message_from_bytes(content, policy=READER)


def body_of(message: EmailMessage, subtype: str = "plain") -> str:
    """The text of the part with this subtype, whatever its line ends were."""
    part = message.get_body((subtype,))
    assert isinstance(part, EmailMessage)
    return str(part.get_content()).replace("\r\n", "\n")


def decoded(value: str) -> str:
    """A field as a reader that follows RFC 2047 shows it: white space between two encoded words does not count."""
    return str(make_header(decode_header(re.sub("\r\n(?= )", "", value))))
