"""What a failure is called: whom it concerns, in the name of the file, in the log and for the operator."""

from __future__ import annotations

import errno
import os
import smtplib

import pytest

from app.mail.bulkhead import FullError
from app.mail.failures import About, Failure, failure_of


def test_a_failure_of_this_machine_is_none_of_the_server() -> None:
    # test_conversations has the failures of the server.
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "new/1")
    assert failure_of(full) == Failure(About.LOCAL, "OSError", "OSError", "No space left on device")
    assert failure_of(FullError()) == Failure(About.LOCAL, "FullError", "FullError", "")


SAID = {
    "in an unknown charset and with a terminal's commands": (b"a\xf1ejo\x1b[0m", "a\N{REPLACEMENT CHARACTER}ejo [0m"),
    "of 300 characters with its code": (b"x" * 296, "x" * 296),
    "of 301": (b"x" * 297, f"{'x' * 296}\N{HORIZONTAL ELLIPSIS}"),
}


@pytest.mark.parametrize(("said", "quoted"), SAID.values(), ids=SAID)
def test_a_reply_is_quoted(said: bytes, quoted: str) -> None:
    assert failure_of(smtplib.SMTPConnectError(550, said)).sentence.endswith(f": 550 {quoted}")


def test_the_sentence_does_not_get_into_a_log_with_the_failure() -> None:
    assert "ana@example.com" not in repr(failure_of(smtplib.SMTPDataError(550, b"unknown: ana@example.com")))
