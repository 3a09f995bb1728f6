"""A kept message as the name of its file tells it: its state and its next attempt."""

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from app.mail.message import reference

SHORTEST_PAUSE, LONGEST_PAUSE = 60, 3600
"""Bounds in seconds of the pause after an attempt. Within them it is the age of the message (Postfix's qmgr(8))."""
GIVE_UP_AFTER, GIVE_UP_TRIES = 5 * 86_400, 10
"""The age in seconds (RFC 5321, section 4.5.4.1) and the attempts after which a failure is the last one. The age is
that by the clock as it is now, so that a clock that was wrong for a moment ends nothing."""
SENDING, DOUBT = ".sending", ".doubt"
"""The marks of a message whose content is being sent, and of one whose content was sent without a reply."""

# Versions before 1.0.0 wrote up to two numbers behind the kind, which say nothing any more.
_NAME = re.compile(
    r"(?:tmp|new|cur)/(([0-9]{11,20})\.[0-9]+\.([!-+.;-~0-9-]+))"
    r",tries=([0-9]{1,9}),last=([0-9]{1,11}\.[0-9]{3})"
    r",(waiting|refused)=([A-Za-z0-9]*)\.([a-z]*)(?:\.[0-9]{1,11}){0,2}(\.sending|\.doubt)?"
    r"(?::2,[A-Za-z]*)?"
)
"""``new/TIME.PROCESS.LOCAL_PART,tries=N,last=TIME,VERDICT=CODE.KIND[.MARK]`` and a mail reader's flags."""


class State(StrEnum):
    """The states of a kept message, each of which asks something else of the operator."""

    WAITING = "waiting"  # the mail server has certainly not taken it, or is being asked: the service tries again
    IN_DOUBT = "in doubt"  # the content was on its way, and no reply came: the mail server may have taken it
    REFUSED = "refused"  # the mail server refused the sender, all recipients or the content for good (5xx)
    GIVEN_UP = "given up"  # not taken after GIVE_UP_AFTER seconds and GIVE_UP_TRIES attempts
    STORED = "stored"  # there is no mail server (development)


class Kept(NamedTuple):
    """A kept message. All times are in seconds since 1970; the oldest message sorts first."""

    stored_at: float
    unique: str  # the part of the name that never changes: time, process and local part of the Message-ID
    path: str  # of the file below MAIL_DIR
    local_part: str
    form_type: str  # the kind of form; empty for a message that no form has made
    tries: int  # the attempts that have ended or have sent the content
    last_at: float  # the beginning of the last attempt; before the first one, stored_at
    last_code: str  # what came of the last attempt: a reply code or the class of an error; empty when there is none
    is_doubtful: bool  # the server may have taken the message, or is just being sent it
    state: State

    @property
    def request_id(self) -> str | None:
        """The id of the request that submitted the form; None for another message."""
        made = re.fullmatch(r"([0-9a-f]{32})\.[0-9a-f]{16}", self.local_part)
        return made[1] if made else None

    @property
    def reference(self) -> str | None:
        """The reference of the submission; None for a message that no form has made."""
        return reference(self.request_id) if self.request_id else None

    @property
    def is_untaken(self) -> bool:
        """True when the server has certainly not taken it and may be asked again at any time."""
        return self.state is State.WAITING and not self.is_doubtful

    @property
    def next_try(self) -> float | None:
        """The time from which on the service tries again; None when it does not."""
        pause = min(max(self.last_at - self.stored_at, SHORTEST_PAUSE), LONGEST_PAUSE)
        return self.last_at + pause if self.is_untaken else None

    def is_due(self, now: float, server_back_at: float = 0) -> bool:
        """True when the pause is over, or void: the mail server is back since, or the clock was set back."""
        is_void = self.last_at < server_back_at or self.last_at > now + 60
        return self.next_try is not None and (now >= self.next_try or is_void)

    def after(self, now: float, code: str = "", *, refused: bool = False, mark: str = "") -> str:
        """The path after an attempt that began ``now``. A message in doubt stays so."""
        verdict, mark = "refused" if refused else "waiting", mark or (DOUBT if self.is_doubtful else "")
        return f"new/{self.unique},tries={self.tries + 1},last={now:.3f},{verdict}={code}.{self.form_type}{mark}"


def first_name(nanoseconds: int, process: int, local_part: str, form_type: str) -> str:
    """The name of a message's file before the first attempt."""
    return f"{nanoseconds:011}.{process}.{local_part},tries=0,last={nanoseconds / 1e9:.3f},waiting=.{form_type}"


def read_path(path: str, now: float, *, has_server: bool) -> Kept | None:
    """The message at a path below MAIL_DIR, by its name; None for a file that the service has not named."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    unique, nanoseconds, local_part, tries, last, verdict, code, form_type, mark = match.groups()
    stored_at, last_at = int(nanoseconds) / 1e9, float(last)
    is_over = int(tries) >= GIVE_UP_TRIES and now - stored_at >= GIVE_UP_AFTER
    state = State.GIVEN_UP if is_over else State.WAITING
    if mark or verdict == "refused":
        state = State.IN_DOUBT if mark else State.REFUSED
    known = (stored_at, unique, path, local_part, form_type, int(tries), last_at, code, mark is not None)
    return Kept(*known, state if has_server else State.STORED)


class Census:
    """The numbers of the kept messages at one moment."""

    def __init__(self, messages: Iterable[Kept]) -> None:
        youngest_first = sorted(messages, reverse=True)
        self.counts = Counter(kept.state for kept in youngest_first)
        self.oldest = {kept.state: kept.stored_at for kept in youngest_first}
        """The time at which the oldest message in each state was stored, in seconds since 1970."""

    def age(self, state: State, now: float) -> float:
        """Seconds since the oldest message in that state was stored; 0 without one."""
        return now - self.oldest.get(state, now)
