"""A kept message as the name of its file tells it: what may be shown of it, its state and its next turn."""

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from app.mail.message import reference

PAUSES = (60, 300, 900, 1800, 3600)
"""Seconds before each of the first attempts of the schedule (its steps), after the one that the visitor waited for."""
LATER_PAUSE = 4 * 3600
"""Seconds to each later step."""
GIVE_UP_AFTER = 5 * 86_400
"""Seconds for which the service tries again by itself at least (RFC 5321, section 4.5.4.1)."""
GIVE_UP_STEPS = 10
"""The least steps before a message is given up, so that a clock which was wrong for a moment ends nothing."""

_NAME = re.compile(
    r"(?:tmp|new|cur)/(([0-9]{11,20})\.[0-9]+\.([!-+.;-~0-9-]+))"
    r",tries=([0-9]{1,9}),last=([0-9]{1,11}\.[0-9]{3})"
    r",(waiting|refused)=([A-Za-z0-9]*)\.([a-z]*)\.([0-9]{1,9})(?:\.([0-9]{1,11}))?(\.sending|\.doubt)?"
    r"(?::2,[A-Za-z]*)?"
)
"""``new/TIME.PROCESS.LOCAL_PART,tries=N,last=TIME,VERDICT=WORD.KIND.STEPS[.TURN][.MARK]`` and a mail reader's flags."""

SENDING, DOUBT = ".sending", ".doubt"
"""The marks of a message whose content is being sent, and of one whose content was sent without a reply."""


class State(StrEnum):
    """The states of a kept message, each of which asks something else of the operator."""

    WAITING = "waiting"
    """The mail server has certainly not taken it, or is being asked. The service tries again by itself."""
    IN_DOUBT = "in doubt"
    """The content was on its way, and no reply came. The mail server may have taken it."""
    REFUSED = "refused"
    """The mail server refused the sender, all recipients or the content for good (5xx)."""
    GIVEN_UP = "given up"
    """The mail server has not taken it in GIVE_UP_AFTER seconds and GIVE_UP_STEPS steps."""
    STORED = "stored"
    """There is no mail server (development)."""


class Kept(NamedTuple):
    """A kept message. All times are in seconds since 1970; the oldest message sorts first."""

    stored_at: float
    unique: str
    """The part of the name that never changes: time, process and local part of the Message-ID."""
    path: str
    """The path of the file below MAIL_DIR."""
    local_part: str
    form_type: str
    """The kind of form; empty for a message that no form has made."""
    tries: int
    """The attempts that have ended. An attempt also counts once the content is sent."""
    steps: int
    """The steps of the schedule that are used up. An early attempt uses none."""
    tried_at: float | None
    last_code: str
    """The outcome of the last attempt: a reply code or the class of an error; empty when there is none."""
    is_doubtful: bool
    """The server may have taken the message, or is just being sent it."""
    state: State
    next_try: float | None
    """The time of the next attempt; None when the service makes no further one in its turn."""

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

    def is_due(self, now: float) -> bool:
        """True when the service should try again in its turn."""
        return self.next_try is not None and now >= self.next_try

    def after(self, now: float, code: str = "", *, refused: bool = False, mark: str = "") -> str:
        """The path after an attempt that began ``now``. A message in doubt stays so."""
        verdict, mark = "refused" if refused else "waiting", mark or (DOUBT if self.is_doubtful else "")
        steps, turn = self.steps + self.is_due(now), ""
        if self.tries and self.next_try and not self.is_due(now):
            turn = f".{int(self.next_try)}"  # an early attempt does not move the next turn
        outcome = f"{verdict}={code}.{self.form_type}.{steps}{turn}{mark}"
        return f"new/{self.unique},tries={self.tries + 1},last={now:.3f},{outcome}"


def first_name(nanoseconds: int, process: int, local_part: str, form_type: str) -> str:
    """The name of a message's file before the first attempt."""
    return f"{nanoseconds:011}.{process}.{local_part},tries=0,last={nanoseconds / 1e9:.3f},waiting=.{form_type}.0"


def read_path(path: str, now: float, *, has_server: bool) -> Kept | None:
    """The message at a path below MAIL_DIR, by its name; None for a file that the service has not named."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    unique, nanoseconds, local_part, tried, last, verdict, code, form_type, step, later, mark = match.groups()
    stored_at, tries, steps, doubtful = int(nanoseconds) / 1e9, int(tried), int(step), mark is not None
    since = float(last)
    tried_at = since if tries else None
    turn = float(later or 0) or since + (PAUSES[steps] if steps < len(PAUSES) else LATER_PAUSE)
    if since > now + 60:  # the clock has been set back
        turn = now
    ends_at = stored_at + GIVE_UP_AFTER
    is_last = steps >= GIVE_UP_STEPS and turn >= ends_at
    state = State.WAITING
    if not has_server:
        state = State.STORED
    elif doubtful:
        state = State.IN_DOUBT
    elif verdict == "refused":
        state = State.REFUSED
    elif is_last and now >= ends_at:
        state = State.GIVEN_UP
    next_try = turn if state is State.WAITING and not is_last else None
    known = (stored_at, unique, path, local_part, form_type, tries, steps, tried_at, code, doubtful)
    return Kept(*known, state, next_try)


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
