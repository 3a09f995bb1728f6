"""The message that the contact forms hand to the mail layer."""

from __future__ import annotations

from dataclasses import dataclass

KIND_HEADER = "X-Form-Type"
"""Header field that names the form kind, so that ``mail list`` shows it without reading personal data."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message ready to be sent.

    ``message_id`` is made before the first attempt, so that a second copy can be recognised. ``content`` is the whole
    message (RFC 5322), in ASCII and with CRLF line ends.
    """

    message_id: str
    content: bytes
