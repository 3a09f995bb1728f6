"""Failed delivery attempts: their scope, and their texts for the file name, the log and the operator."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from app.mail.smtp import InDoubtError, RefusedError, Reply, SmtpError, Step

_STEPS_BEFORE_LOGIN = (Step.GREETING, Step.EHLO, Step.STARTTLS)
_MESSAGE_STEPS = (Step.MAIL, Step.RCPT, Step.DATA, Step.CONTENT)
_MAX_LENGTH = 300


class Scope(Enum):
    """The scope of a failure."""

    MESSAGE = "a 5xx to the sender, to all recipients or to the content: no repetition helps (RFC 5321, section 4.2.1)"
    DEFERRED = "a 4xx to the sender, to all recipients or to the content: perhaps to this message only"
    SERVER = "the mail server or the way there: the next message would fail, too"
    IN_DOUBT = "the content was sent and no reply came, so the mail server may have taken the message"
    LOCAL = "this machine: its disk, a full bulkhead, a bug in the code"


_SCOPES = {4: Scope.DEFERRED, 5: Scope.MESSAGE}  # by the first digit of a reply to a message


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt. ``logged`` has the server's text only before the login: later, it can quote an address."""

    scope: Scope
    code: str  # the server's reply code if there is one, else a word
    logged: str
    sentence: str = field(repr=False)  # one line for the operator, with the server's text: not for a log


def failure_of(error: Exception) -> Failure:
    """Classify the exception of an attempt."""
    if not isinstance(error, SmtpError):
        name = type(error).__name__
        return Failure(Scope.LOCAL, name, name, excerpt(getattr(error, "strerror", None) or str(error)))
    scope, code = Scope.SERVER, error.code
    logged = sentence = error.reason
    if isinstance(error, InDoubtError):
        scope = Scope.IN_DOUBT
    elif isinstance(error, RefusedError):
        lowest = min(code for code, _ in error.replies)
        code = str(lowest) if lowest >= 0 else error.code
        if error.step in _MESSAGE_STEPS:
            scope = _SCOPES.get(lowest // 100, Scope.SERVER)
        shown = error.replies if error.step in _STEPS_BEFORE_LOGIN else [(code, b"") for code, _ in error.replies]
        logged, sentence = (f"{error.reason}: {_quote_all(replies)}" for replies in (shown, error.replies))
    likely_cause = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    return Failure(scope, code, logged + likely_cause, sentence + likely_cause)


def _quote_all(replies: Iterable[Reply]) -> str:
    return excerpt("; ".join(dict.fromkeys(map(quote, replies))))


def quote(reply: Reply) -> str:
    """A reply of the mail server, safe for a terminal."""
    code, text = reply
    return excerpt(f"{code} {text.decode(errors='replace')}") if code >= 0 else "not an SMTP reply"


def excerpt(text: str) -> str:
    """The start of a text, on one line: a server's reply can have 64 KiB."""
    line = on_one_line(text)
    return line if len(line) <= _MAX_LENGTH else f"{line[:_MAX_LENGTH]}…"


def on_one_line(text: str) -> str:
    """The text with one space for all white space and all characters that a terminal could take for commands."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
