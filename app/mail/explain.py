"""Failures of a hand-over in words for the operator. They can quote addresses, so none of them belongs in a log."""

from __future__ import annotations

import errno
import smtplib
import socket
import ssl

from app.mail.smtp import InDoubtError, Reply

_REFUSED = {
    smtplib.SMTPAuthenticationError: "SMTP_USERNAME with SMTP_PASSWORD",
    smtplib.SMTPConnectError: "the connection",
    smtplib.SMTPHeloError: "the greeting of this host",
    smtplib.SMTPSenderRefused: "the sender",
    smtplib.SMTPDataError: "the message",
}
_MOST = 300
"""The most characters of the mail server's words that are quoted."""
_UNREACHABLE = {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH}


def explain(error: OSError) -> str:
    """The failure in one line, with the code and text of the mail server if it gave any."""
    match error:
        case smtplib.SMTPResponseException():
            reply = error.smtp_code, _octets(error.smtp_error)
            text = f"the mail server refused {_REFUSED.get(type(error), 'a command')}: {quote(reply)}"
        case smtplib.SMTPRecipientsRefused():
            replies = "; ".join(dict.fromkeys(map(quote, error.recipients.values())))
            text = f"the mail server refused every recipient: {cut(replies)}"
        case InDoubtError():
            text = str(error)
        case _ if timed_out(error):
            text = "the mail server did not answer within SMTP_TIMEOUT"
        case smtplib.SMTPServerDisconnected():
            text = f"the connection to the mail server broke off: {cut(str(error))}"
        case ssl.SSLCertVerificationError():
            text = f"the certificate of the mail server is not trusted: {error.verify_message}"
        case ssl.SSLError():
            text = f"TLS with the mail server failed: {(error.reason or 'no reason given').lower().replace('_', ' ')}"
        case socket.gaierror():
            text = f"SMTP_HOST was not found: {error.strerror}"
        case _ if isinstance(error, ConnectionError) or error.errno in _UNREACHABLE:
            text = f"the mail server cannot be reached: {error.strerror}"
        case _:
            text = cut(error.strerror or str(error))
    return on_one_line(text)


def quote(reply: Reply) -> str:
    """A reply of the mail server, safe for a terminal."""
    code, text = reply
    return cut(f"{code} {text.decode(errors='replace')}") if code >= 0 else "its reply is not SMTP"


def on_one_line(text: str) -> str:
    """The text with one space for all white space and all characters that a terminal could take for commands."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def cut(text: str) -> str:
    """The beginning of what the mail server said, on one line: a reply may have 64 KiB."""
    line = on_one_line(text)
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"


def _octets(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def timed_out(error: BaseException | None) -> bool:
    """True when the time was up, whatever the exception is that this led to."""
    while error is not None and not isinstance(error, TimeoutError):
        error = error.__cause__ or error.__context__
    return error is not None
