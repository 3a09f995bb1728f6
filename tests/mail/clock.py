"""A clock that leaves little of the time allowed for a message once the message has been sent."""

from __future__ import annotations

import smtplib
import time

import pytest


def run_short_after_content(patch: pytest.MonkeyPatch, *, allowed: float, left: float = 0.3) -> None:
    """From the first piece of the next content on, so many seconds are left of those allowed for a message.

    So the steps before have all the time that a busy machine may need, and the wait for a silent server is short.
    """
    monotonic, send, begun = time.monotonic, smtplib.SMTP.send, time.monotonic()
    skipped = 0.0

    def send_and_skip_time(connection: smtplib.SMTP, data: bytes) -> None:
        nonlocal skipped
        send(connection, data)
        if b"\r\n\r\n" in data:  # between header and body: no command has an empty line
            skipped = max(0.0, begun + allowed - left - monotonic())

    patch.setattr(time, "monotonic", lambda: monotonic() + skipped)
    patch.setattr(smtplib.SMTP, "send", send_and_skip_time)
