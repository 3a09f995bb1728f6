"""What a failure is called: whom it concerns, in the name of the file, in the log and for the operator."""

from __future__ import annotations

import errno
import os
import smtplib

import pytest

from app.mail.bulkhead import FullError
from app.mail.failures import About, Failure, failure_of

MESSAGE, SERVER, IN_DOUBT, HERE = About
REFUSED = "the mail server refused"
SILENT = "the mail server did not answer within SMTP_TIMEOUT"


def of_errno(number: int, file: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), file)


def recipients(*codes: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused({f"{number}@example.com": (code, b"no") for number, code in enumerate(codes)})


FAILURES = [
    (of_errno(errno.ETIMEDOUT), Failure(SERVER, "TimeoutError", "TimeoutError", SILENT)),
    (
        of_errno(errno.EHOSTUNREACH),
        Failure(SERVER, "OSError", "OSError", "the mail server cannot be reached: No route to host"),
    ),
    (of_errno(errno.ENOSPC, "new/1"), Failure(HERE, "OSError", "OSError", "No space left on device")),
    (FullError(), Failure(HERE, "FullError", "FullError", "")),
]


@pytest.mark.parametrize(("error", "failure"), FAILURES)
def test_what_no_server_of_the_tests_can_cause_has_its_words_too(error: Exception, failure: Failure) -> None:
    # test_conversations has the other failures.
    assert failure_of(error) == failure


SAID = {
    "in an unknown charset and with a terminal's commands": (b"a\xf1ejo\x1b[0m", "a\N{REPLACEMENT CHARACTER}ejo [0m"),
    "of 300 characters with its code": (b"x" * 296, "x" * 296),
    "of 301": (b"x" * 297, f"{'x' * 296}\N{HORIZONTAL ELLIPSIS}"),
}


@pytest.mark.parametrize(("said", "quoted"), SAID.values(), ids=SAID)
def test_a_reply_is_quoted(said: bytes, quoted: str) -> None:
    assert failure_of(smtplib.SMTPConnectError(550, said)).sentence == f"{REFUSED} the connection: 550 {quoted}"


@pytest.mark.parametrize(
    ("codes", "quoted"),
    [((550, 451, 550), "550 no; 451 no"), (range(500, 599), "; ".join(f"{n} no" for n in range(500, 599))[:300] + "…")],
    ids=["three", "many"],
)
def test_what_several_recipients_were_told_is_quoted_once(codes: tuple[int, ...], quoted: str) -> None:
    assert failure_of(recipients(*codes)).sentence == f"{REFUSED} every recipient: {quoted}"


def test_the_sentence_does_not_get_into_a_log_with_the_failure() -> None:
    assert "ana@example.com" not in repr(failure_of(smtplib.SMTPDataError(550, b"unknown: ana@example.com")))
