"""What a failure is called: whom it concerns, in the name of the file, in the log and for the operator."""

from __future__ import annotations

import errno
import os
import smtplib
import ssl
from pathlib import Path

import pytest

from app.mail.bulkhead import FullError
from app.mail.failures import About, Failure, failure_of, quote
from app.mail.smtp import ClosingError, InDoubtError
from app.mail.spool import Spool
from tests.mail.conftest import keep, letter


def of_errno(number: int, file: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), file)


def after_time_out(error: OSError) -> OSError:
    error.__cause__ = TimeoutError()
    return error


def recipients(*codes: int, said: bytes = b"no") -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused({f"{number}@example.com": (code, said) for number, code in enumerate(codes)})


NO_REASON = ssl.SSLError(1, "unknown")
NO_REASON.reason = None  # type: ignore[assignment]  # it is None when OpenSSL does not name one
LATE, IN_DOUBT_LATE = after_time_out(smtplib.SMTPServerDisconnected("")), after_time_out(InDoubtError())

MESSAGE, SERVER, IN_DOUBT, HERE = About
REFUSED = "the mail server refused"
BROKE_OFF = "the connection to the mail server broke off"
AWAY = "the mail server cannot be reached"
SILENT = "the mail server did not answer within SMTP_TIMEOUT"
UNKNOWN = "no answer came, and the mail server may have taken the message"
SAID = "no " * 1000
LONG = SAID.encode()
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (of_errno(errno.ETIMEDOUT), Failure(SERVER, "TimeoutError", "TimeoutError", SILENT)),
        (of_errno(errno.EHOSTUNREACH), Failure(SERVER, "OSError", "OSError", f"{AWAY}: No route to host")),
        (NO_REASON, Failure(SERVER, "SSLError", "SSLError", "TLS with the mail server failed: no reason given")),
        (of_errno(errno.ENOSPC, "new/1"), Failure(HERE, "OSError", "OSError", "No space left on device")),
        (FullError(), Failure(HERE, "FullError", "FullError", "")),
        # Of several causes one counts.
        (LATE, Failure(SERVER, "TimeoutError", "SMTPServerDisconnected", SILENT)),
        (IN_DOUBT_LATE, Failure(IN_DOUBT, "TimeoutError", "InDoubtError", UNKNOWN)),
    ],
)
def test_what_no_server_of_the_tests_can_cause_has_its_words_too(error: Exception, failure: Failure) -> None:
    # test_conversations has the other failures.
    assert failure_of(error) == failure


@pytest.mark.needs("/proc")
def test_a_message_that_the_disk_cannot_read_is_no_fault_of_the_server(mail_dir: Path) -> None:
    kept = keep(mail_dir, letter(1))
    (mail_dir / kept.path).unlink()
    (mail_dir / kept.path).symlink_to("/proc/self/mem")

    with pytest.raises(OSError, match="Input/output error") as caught:
        Spool(mail_dir).read(kept)

    assert failure_of(caught.value) == Failure(HERE, "OSError", "OSError", "Input/output error")


def test_the_sentence_does_not_get_into_a_log_with_the_failure() -> None:
    assert "ana@example.com" not in repr(failure_of(smtplib.SMTPDataError(550, b"unknown: ana@example.com")))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        pytest.param(
            b"usuario a\xf1ejo\x1b[0m", "usuario a\N{REPLACEMENT CHARACTER}ejo [0m", id="in an unknown charset"
        ),
        pytest.param(b"x" * 296, "x" * 296, id="of 300 characters"),
        pytest.param(b"x" * 297, "x" * 296 + ELLIPSIS, id="of 301 characters"),
    ],
)
def test_a_reply_is_quoted(text: bytes, quoted: str) -> None:
    assert quote((550, text)) == f"550 {quoted}"


NUMBERS = range(500, 599)


@pytest.mark.parametrize(
    ("error", "told", "said"),
    [
        (smtplib.SMTPDataError(554, LONG), f"{REFUSED} the message: ", f"554 {SAID}"),
        (recipients(554, 554, said=LONG), f"{REFUSED} every recipient: ", f"554 {SAID}"),
        (recipients(*NUMBERS), f"{REFUSED} every recipient: ", "; ".join(f"{number} no" for number in NUMBERS)),
        (ClosingError(421, LONG), f"{BROKE_OFF}: the server closes it: ", f"421 {SAID}"),
        (smtplib.SMTPException(f"Last response: {SAID}"), "", f"Last response: {SAID}"),
    ],
)
def test_300_characters_of_what_the_server_has_said_are_quoted(error: OSError, told: str, said: str) -> None:
    assert failure_of(error).sentence == f"{told}{said[:300]}{ELLIPSIS}"


def test_what_the_server_has_said_to_several_recipients_is_quoted_once() -> None:
    assert failure_of(recipients(550, 451, 550)).sentence == f"{REFUSED} every recipient: 550 no; 451 no"
