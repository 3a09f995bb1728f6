"""The words for failures that no mail server of the tests can bring about."""

from __future__ import annotations

import errno
import os
import smtplib
import socket
import ssl

import pytest

from app.mail.explain import explain, quote
from app.mail.smtp import ClosingError, InDoubtError
from app.mail.spool import NotAMessageError


def of_errno(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (of_errno(errno.EHOSTUNREACH), "the mail server cannot be reached: No route to host"),
        (of_errno(errno.ECONNRESET), "the mail server cannot be reached: Connection reset by peer"),
        (of_errno(errno.ETIMEDOUT), "the mail server did not answer within SMTP_TIMEOUT"),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "SMTP_HOST was not found: Name or service not known",
        ),
        (of_errno(errno.ENOSPC), "No space left on device"),
        (NotAMessageError(), "not a message of this service"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_failure_is_told_in_words(error: OSError, told: str) -> None:
    assert explain(error) == told


def test_tls_that_fails_without_a_reason_is_told() -> None:
    error = ssl.SSLError(1, "unknown")
    error.reason = None  # type: ignore[assignment]  # it is None when OpenSSL does not name one

    assert explain(error) == "TLS with the mail server failed: no reason given"


def test_a_message_in_doubt_is_told_as_such_also_after_a_time_out() -> None:
    error = InDoubtError()
    error.__cause__ = TimeoutError()

    assert explain(error) == "no answer came, and the mail server may have taken the message"


def test_a_reply_in_an_unknown_charset_is_quoted() -> None:
    assert quote((550, b"usuario a\xf1ejo\x1b[0m")) == "550 usuario a\N{REPLACEMENT CHARACTER}ejo [0m"


LONG = b"no " * 1000
SAID = "no " * 1000
BROKE_OFF = "the connection to the mail server broke off: "
EVERY = "the mail server refused every recipient: "

QUOTING: dict[str, tuple[OSError, str, str]] = {
    "a refusal": (smtplib.SMTPDataError(554, LONG), "the mail server refused the message: ", f"554 {SAID}"),
    "one refusal of all recipients": (
        smtplib.SMTPRecipientsRefused({f"{number}@example.com": (554, LONG) for number in range(9)}),
        EVERY,
        f"554 {SAID}",
    ),
    "a refusal of each recipient": (
        smtplib.SMTPRecipientsRefused({f"{number}@example.com": (550, b"%d no" % number) for number in range(99)}),
        EVERY,
        "; ".join(f"550 {number} no" for number in range(99)),
    ),
    "closing": (ClosingError(421, LONG), BROKE_OFF, f"the server closes it: 421 {SAID}"),
    "another error of smtplib": (smtplib.SMTPException(f"Last response: {SAID}"), "", f"Last response: {SAID}"),
}
"""A failure, its words and what the server has said."""


@pytest.mark.parametrize(("error", "told", "said"), QUOTING.values(), ids=QUOTING)
def test_300_characters_of_what_the_server_has_said_are_quoted(error: OSError, told: str, said: str) -> None:
    assert explain(error) == f"{told}{said[:300]}\N{HORIZONTAL ELLIPSIS}"


def test_a_reply_of_300_characters_is_quoted_in_full() -> None:
    assert quote((550, b"x" * 296)) == "550 " + "x" * 296
    assert quote((550, b"x" * 297)) == "550 " + "x" * 296 + "\N{HORIZONTAL ELLIPSIS}"
