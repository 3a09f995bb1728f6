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


def recipients(*codes: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused({f"{number}@example.com": (code, b"no") for number, code in enumerate(codes)})


NO_REASON = ssl.SSLError(1, "unknown")
NO_REASON.reason = None  # type: ignore[assignment]  # it is None when OpenSSL does not name one

MESSAGE, SERVER, IN_DOUBT, HERE = About
REFUSED = "the mail server refused"
BROKE_OFF = "the connection to the mail server broke off"
AWAY = "the mail server cannot be reached"
SILENT = "the mail server did not answer within SMTP_TIMEOUT"
UNKNOWN = "no answer came, and the mail server may have taken the message"

FAILURES: list[tuple[Exception, Failure]] = [
    (of_errno(errno.ETIMEDOUT), Failure(SERVER, "TimeoutError", "TimeoutError", SILENT)),
    (of_errno(errno.EHOSTUNREACH), Failure(SERVER, "OSError", "OSError", f"{AWAY}: No route to host")),
    (NO_REASON, Failure(SERVER, "SSLError", "SSLError", "TLS with the mail server failed: no reason given")),
    (of_errno(errno.ENOSPC, "new/1"), Failure(HERE, "OSError", "OSError", "No space left on device")),
    (FullError(), Failure(HERE, "FullError", "FullError", "")),
    # Of several causes one counts.
    (
        after_time_out(smtplib.SMTPServerDisconnected("")),
        Failure(SERVER, "TimeoutError", "SMTPServerDisconnected", SILENT),
    ),
    (after_time_out(InDoubtError()), Failure(IN_DOUBT, "TimeoutError", "InDoubtError", UNKNOWN)),
]
"""What no server of the tests can cause, or not in each case; test_conversations has the other failures."""


@pytest.mark.parametrize(("error", "failure"), FAILURES)
def test_a_failure_has_its_words(error: Exception, failure: Failure) -> None:
    assert failure_of(error) == failure


def test_a_message_that_the_disk_cannot_read_is_no_fault_of_the_server(mail_dir: Path) -> None:
    kept = keep(mail_dir, letter(1))
    (mail_dir / kept.path).unlink()
    (mail_dir / kept.path).symlink_to("/proc/self/mem")

    with pytest.raises(OSError, match="Input/output error") as caught:
        Spool(mail_dir).read(kept)

    assert failure_of(caught.value) == Failure(HERE, "OSError", "OSError", "Input/output error")


def test_the_sentence_does_not_get_into_a_log_with_the_failure() -> None:
    assert "ana@example.com" not in repr(failure_of(smtplib.SMTPDataError(550, b"unknown: ana@example.com")))


def test_a_reply_in_an_unknown_charset_is_quoted() -> None:
    assert quote((550, b"usuario a\xf1ejo\x1b[0m")) == "550 usuario a\N{REPLACEMENT CHARACTER}ejo [0m"


LONG = b"no " * 1000
SAID = "no " * 1000

QUOTING: list[tuple[OSError, str, str]] = [
    (smtplib.SMTPDataError(554, LONG), f"{REFUSED} the message: ", f"554 {SAID}"),
    (
        smtplib.SMTPRecipientsRefused({"a@b": (554, LONG), "c@d": (554, LONG)}),
        f"{REFUSED} every recipient: ",
        "554 " + SAID,
    ),
    (recipients(*range(500, 599)), f"{REFUSED} every recipient: ", "; ".join(f"{code} no" for code in range(500, 599))),
    (ClosingError(421, LONG), f"{BROKE_OFF}: the server closes it: ", f"421 {SAID}"),
    (smtplib.SMTPException(f"Last response: {SAID}"), "", f"Last response: {SAID}"),
]
"""A failure, its words, and what the server has said."""


@pytest.mark.parametrize(("error", "told", "said"), QUOTING)
def test_300_characters_of_what_the_server_has_said_are_quoted(error: OSError, told: str, said: str) -> None:
    assert failure_of(error).sentence == f"{told}{said[:300]}\N{HORIZONTAL ELLIPSIS}"


def test_a_reply_of_300_characters_is_quoted_in_full() -> None:
    assert quote((550, b"x" * 296)) == "550 " + "x" * 296
    assert quote((550, b"x" * 297)) == "550 " + "x" * 296 + "\N{HORIZONTAL ELLIPSIS}"
