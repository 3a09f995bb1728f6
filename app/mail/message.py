"""What is handed from the contact forms to the mail layer."""

from __future__ import annotations

from dataclasses import dataclass

KIND_HEADER = "X-Form-Type"
"""Header field of a stored message that names its form kind, so that a list needs no personal data."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message ready to be sent.

    ``message_id`` is made before the first attempt, so that a redelivery can be recognised; ``content`` is the whole
    message with CRLF line ends and nothing but ASCII (RFC 5322).
    """

    message_id: str
    content: bytes
