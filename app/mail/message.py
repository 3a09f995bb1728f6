"""The message that the contact forms hand to the mail layer."""

from __future__ import annotations

from dataclasses import dataclass

KIND_HEADER = "X-Form-Type"
"""Header field that names the kind of form. The rules of a mailbox can use it."""
REFERENCE_HEADER = "X-Reference"
"""Header field with the reference of the submission."""
MAX_MESSAGE_BYTES = 1_000_000
"""Every message is shorter, because MOST_ROWS of the letter bounds what a form of 64 KiB can make."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message ready to be sent.

    ``message_id`` is made before the first attempt, so that a second copy can be recognised. ``content`` is the whole
    message (RFC 5322), in ASCII and with CRLF line ends.
    """

    message_id: str
    content: bytes
    form_type: str = ""
    """The kind of form; empty for a message that no form has made."""


def reference(request_id: str) -> str:
    """The reference of a submission, such as ``3F0C-9A1B``: the first eight digits of its request's id."""
    return f"{request_id[:4]}-{request_id[4:8]}".upper()
