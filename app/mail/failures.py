"""Failures of a hand-over: whom they concern, and what a file, the log and the operator call them."""

import smtplib
import socket
import ssl
from dataclasses import dataclass, field
from enum import Enum

from app.mail.smtp import ClosingError, InDoubtError

_PERMANENT = range(500, 600)  # no repetition helps after these codes (RFC 5321, section 4.2.1)
_SENTENCES: dict[type[OSError], str] = {
    InDoubtError: "no answer came, and the mail server may have taken the message",
    ClosingError: "the connection to the mail server broke off: the server closes it: ",
    smtplib.SMTPAuthenticationError: "the mail server refused SMTP_USERNAME with SMTP_PASSWORD: ",
    smtplib.SMTPConnectError: "the mail server refused the connection: ",
    smtplib.SMTPHeloError: "the mail server refused the greeting of this host: ",
    smtplib.SMTPSenderRefused: "the mail server refused the sender: ",
    smtplib.SMTPDataError: "the mail server refused the message: ",
    smtplib.SMTPResponseException: "the mail server refused STARTTLS: ",
    smtplib.SMTPRecipientsRefused: "the mail server refused every recipient: ",
    smtplib.SMTPServerDisconnected: "the connection to the mail server broke off: ",
    smtplib.SMTPException: "",  # its text says it all
    ssl.SSLCertVerificationError: "the certificate of the mail server is not trusted: ",
    ssl.SSLError: "TLS with the mail server failed: ",
    socket.gaierror: "SMTP_HOST was not found: ",
    OSError: "the mail server cannot be reached: ",
}
"""The beginning of the operator's sentence. The first class that fits counts."""
_BEFORE_LOGIN = (smtplib.SMTPConnectError, smtplib.SMTPHeloError, smtplib.SMTPResponseException)  # exactly these
_MOST = 300


class About(Enum):
    """Whom a failure concerns."""

    MESSAGE = "a 5xx to the sender, to all recipients or to the content: no repetition helps (RFC 5321, section 4.2.1)"
    SERVER = "the mail server or the way there: the next message may meet the same"
    IN_DOUBT = "the content was sent and no reply came, so the mail server may have taken the message"
    LOCAL = "this machine: its disk, a bulkhead that is full, a mistake in the code"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed hand-over. ``logged`` has the server's text only before the login: later, it can quote an address."""

    about: About
    code: str  # the server's reply code if there is one, else the class of the error
    logged: str
    sentence: str = field(repr=False)  # one line for the operator, with the server's text: not for a log


def failure_of(error: Exception) -> Failure:
    """The failure that an exception stands for."""
    replies: list[tuple[int, bytes | str]] = []
    said = getattr(error, "strerror", None) or str(error)
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        replies = [*error.recipients.values()]
    elif isinstance(error, smtplib.SMTPResponseException):
        replies = [(error.smtp_code, error.smtp_error)]
    elif isinstance(error, ssl.SSLError):
        said = getattr(error, "verify_message", (error.reason or "no reason given").lower().replace("_", " "))
    timeout: BaseException | None = error
    while timeout and not isinstance(timeout, TimeoutError):
        timeout = timeout.__cause__ or timeout.__context__
    codes = sorted({code for code, _ in replies})
    lowest = codes[0] if codes else -1  # it is -1 when a reply has none
    code = str(lowest) if lowest >= 0 else type(timeout or error).__name__
    told = quote(replies[0]) if type(error) in _BEFORE_LOGIN else ", ".join(str(code) for code in codes if code >= 0)
    about = _about(error, lowest)
    words = "" if about is About.LOCAL else next(words for kind, words in _SENTENCES.items() if isinstance(error, kind))
    sentence = words + cut("; ".join(dict.fromkeys(map(quote, replies))) or said)
    if timeout and not replies and about is not About.IN_DOUBT:
        sentence = "the mail server did not answer within SMTP_TIMEOUT"
    likely_cause = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    logged = f"{type(error).__name__} {told}".rstrip()
    return Failure(about, code, logged + likely_cause, sentence + likely_cause)


def _about(error: Exception, code: int) -> About:
    if isinstance(error, InDoubtError):
        return About.IN_DOUBT
    with_reply = smtplib.SMTPSenderRefused | smtplib.SMTPRecipientsRefused | smtplib.SMTPDataError | ClosingError
    if isinstance(error, with_reply) and code in _PERMANENT:
        return About.MESSAGE
    # All of smtplib's exceptions are OSErrors, and of these only what fails on the disk names a file.
    return About.SERVER if isinstance(error, OSError) and error.filename is None else About.LOCAL


def quote(reply: tuple[int, bytes | str]) -> str:
    """A reply of the mail server, safe for a terminal."""
    code, text = reply
    said = text if isinstance(text, str) else text.decode(errors="replace")
    return cut(f"{code} {said}") if code >= 0 else "its reply is not SMTP"


def cut(text: str) -> str:
    """The beginning of what the mail server said, on one line: a reply may have 64 KiB."""
    line = on_one_line(text)
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"


def on_one_line(text: str) -> str:
    """The text with one space for all white space and all characters that a terminal could take for commands."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
