"""A queued message as its file name describes it: its state and its next attempt."""

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from app.mail.message import reference

SHORTEST_PAUSE, LONGEST_PAUSE = 60, 3600
"""Bounds of the pause after an attempt, in seconds. Between them it is the message's age (Postfix's qmgr(8))."""
GIVE_UP_AFTER, GIVE_UP_ATTEMPTS = 5 * 86_400, 10
"""The age in seconds (RFC 5321, section 4.5.4.1) and the attempts after which a message is given up. Both must be
reached, so a briefly wrong clock gives up none."""
SENDING, DOUBT = ".sending", ".doubt"
"""The marks of a message whose content is being sent, and of one whose content was sent without a reply."""

_NAME = re.compile(
    r"(?:tmp|new|cur)/(([0-9]{11,20})\.[0-9]+\.([!-+.;-~0-9-]+))"
    r",tries=([0-9]{1,9}),last=([0-9]{1,11}\.[0-9]{3})"
    r",(waiting|refused)=([A-Za-z0-9]*)\.([a-z]*)(\.sending|\.doubt)?"
    r"(?::2,[A-Za-z]*)?"
)
"""``new/TIME.PROCESS.LOCAL_PART,tries=N,last=TIME,VERDICT=CODE.FORM_TYPE[.MARK]`` and a mail program's flags."""


class State(StrEnum):
    """The states of a queued message; each needs a different action of the operator."""

    WAITING = "waiting"  # the mail server has certainly not taken it, or it is being sent: the service retries
    IN_DOUBT = "in doubt"  # the content was on its way, and no reply came: the mail server may have taken it
    REFUSED = "refused"  # the mail server refused the sender, all recipients or the content permanently (5xx)
    GIVEN_UP = "given up"  # not taken after GIVE_UP_AFTER seconds and GIVE_UP_ATTEMPTS attempts
    STORED = "stored"  # there is no mail server (development)


class QueuedMessage(NamedTuple):
    """A message in MAIL_DIR. All times are in seconds since 1970; the oldest message sorts first."""

    stored_at: float
    unique: str  # the part of the name that never changes: time, process and local part of the Message-ID
    path: str  # of the file below MAIL_DIR
    local_part: str
    form_type: str  # empty for a message that no form has created
    attempts: int  # that have ended or have sent the content
    last_at: float  # the start of the last attempt; before the first one, stored_at
    last_code: str  # the result of the last attempt: a reply code or a word; empty when there is none
    is_doubtful: bool  # the server may have taken the message, or is just being sent it
    state: State

    @property
    def request_id(self) -> str | None:
        """The id of the request that submitted the form; None for any other."""
        created = re.fullmatch(r"([0-9a-f]{32})\.[0-9a-f]{16}", self.local_part)
        return created[1] if created else None

    @property
    def reference(self) -> str | None:
        """The reference of the submission; None for a message that no form has created."""
        return reference(self.request_id) if self.request_id else None

    @property
    def is_retryable(self) -> bool:
        """True when the server has certainly not taken it and the service may retry."""
        return self.state is State.WAITING and not self.is_doubtful

    @property
    def next_attempt(self) -> float | None:
        """The time from which the service tries again; None when it does not."""
        pause = min(max(self.last_at - self.stored_at, SHORTEST_PAUSE), LONGEST_PAUSE)
        return self.last_at + pause if self.is_retryable else None

    def is_due(self, now: float, server_back_at: float = 0) -> bool:
        """True when the pause is over, or void because the mail server came back or the clock was set back."""
        is_void = self.last_at < server_back_at or self.last_at > now + 60
        return self.next_attempt is not None and (now >= self.next_attempt or is_void)

    def path_after(self, started_at: float, code: str = "", *, refused: bool = False, mark: str = "") -> str:
        """The path after an attempt. A message in doubt stays so."""
        verdict, mark = "refused" if refused else "waiting", mark or (DOUBT if self.is_doubtful else "")
        last = f"tries={self.attempts + 1},last={started_at:.3f}"
        return f"new/{self.unique},{last},{verdict}={code}.{self.form_type}{mark}"


def initial_name(nanoseconds: int, process: int, local_part: str, form_type: str) -> str:
    """The name of a message's file before the first attempt."""
    return f"{nanoseconds:011}.{process}.{local_part},tries=0,last={nanoseconds / 1e9:.3f},waiting=.{form_type}"


def parse_path(path: str, now: float, *, has_server: bool) -> QueuedMessage | None:
    """The message at a path below MAIL_DIR, by its name; None for a file that the service has not named."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    unique, nanoseconds, local_part, attempts, last, verdict, code, form_type, mark = match.groups()
    stored_at = int(nanoseconds) / 1e9
    is_over = int(attempts) >= GIVE_UP_ATTEMPTS and now - stored_at >= GIVE_UP_AFTER
    state = State.GIVEN_UP if is_over else State.WAITING
    if not has_server:
        state = State.STORED
    elif mark or verdict == "refused":
        state = State.IN_DOUBT if mark else State.REFUSED
    return QueuedMessage(
        stored_at, unique, path, local_part, form_type, int(attempts), float(last), code, mark is not None, state
    )


class QueueCounts:
    """Counts of the queued messages at one moment."""

    def __init__(self, messages: Iterable[QueuedMessage]) -> None:
        youngest_first = sorted(messages, reverse=True)
        self.by_state = Counter(message.state for message in youngest_first)
        self.oldest = {message.state: message.stored_at for message in youngest_first}
        """The time at which the oldest message in each state was stored, in seconds since 1970."""

    def age(self, state: State, now: float) -> float:
        """Seconds since the oldest message in that state was stored; 0 without one."""
        return now - self.oldest.get(state, now)
