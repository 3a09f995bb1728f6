"""The state of a kept message. The name of its file carries it, so a rename changes it at once and whole."""

from __future__ import annotations

import math
import re
import time
from enum import StrEnum
from typing import NamedTuple

PAUSES = (60, 300, 900, 1800, 3600)
"""Seconds from each of the first attempts to the next."""

LATER_PAUSE = 4 * 3600
"""Seconds between all later attempts."""

GIVE_UP_AFTER = 5 * 86_400
"""Seconds for which the service tries again by itself (RFC 5321, section 4.5.4.1)."""

IN_DOUBT_FLAG = "F"
"""Maildir's flag for attention. Here: the server may have taken this message."""

_CLOCK_TOLERANCE = 60.0
"""Seconds by which a time that was noted may lie in the future before the clock counts as set back."""

_NAME = re.compile(
    r"(?P<unique>(?P<nanoseconds>[0-9]{1,20})\.[0-9]+\.(?P<local_part>[^:,/]+))"
    r"(?:,tries=(?P<attempts>[0-9]{1,9}),last=(?P<tried_at>[0-9]{1,11}\.[0-9]{3})"
    r"(?:,(?P<verdict>waiting|refused)=(?P<answer>[A-Za-z0-9.]+))?)?"
    r"(?::2,(?P<flags>[A-Za-z]*))?"
)


class State(StrEnum):
    """The states of a kept message, each of which asks something else of the operator."""

    WAITING = "waiting"
    """The mail server has certainly not taken it. The service tries again by itself."""
    IN_DOUBT = "in doubt"
    """The content was on its way, and no answer came. The mail server may have taken it."""
    REFUSED = "refused"
    """The mail server refused the sender, all recipients or the content for good (5xx)."""
    GIVEN_UP = "given up"
    """The mail server has not taken it in GIVE_UP_AFTER seconds."""
    STORED = "stored"
    """There is no mail server (development)."""


class Name(NamedTuple):
    """The name of a message's file below the Maildir; all times are in seconds since 1970."""

    unique: str
    """Time, process and local part of the Message-ID; it never changes."""
    local_part: str
    stored_at: float
    attempts: int = 0
    """The attempts that have ended. An attempt also counts once the content is sent."""
    tried_at: float | None = None
    """The time of the last of these attempts."""
    answer: str | None = None
    """Its outcome: the reply code of the server or the class of the error."""
    refused: bool = False
    in_doubt: bool = False

    @property
    def state(self) -> State:
        """The state now, where there is a mail server."""
        if self.in_doubt:
            return State.IN_DOUBT
        if self.refused:
            return State.REFUSED
        # An attempt that was missed while no service ran is made first, however late.
        if time.time() >= self._ends_at <= self._turn:
            return State.GIVEN_UP
        return State.WAITING

    @property
    def next_try(self) -> float | None:
        """The time of the next attempt; None when the service makes no further one in its turn."""
        turn = self._turn
        return None if self.in_doubt or self.refused or turn >= self._ends_at else turn

    @property
    def failed_at_server(self) -> bool:
        """True when the last attempt ended before the server could say anything of this message.

        What it says of a message that waits is a 4xx, but a 421 closes the connection (RFC 5321, section 4.2.3).
        """
        return self.answer is not None and (self.answer == "421" or not self.answer.startswith("4"))

    def is_due(self, now: float, server_back_at: float) -> bool:
        """True when the service should try again: in its turn, or after the mail server has come back."""
        turn = self.next_try
        if turn is not None and now >= turn:
            return True
        latest = now + _CLOCK_TOLERANCE
        # When the clock was set back, "server_back_at" can lie in the future: all would be due at every look.
        out_of_turn = self._since < server_back_at <= latest or self._since > latest
        return out_of_turn and self.state is State.WAITING

    def tried(self, now: float, *, answer: str | None = None, refused: bool = False) -> Name:
        """The name after one more attempt. It stays in doubt if it was."""
        return self._replace(
            attempts=self.attempts + 1, tried_at=to_the_millisecond(now), answer=answer, refused=refused
        )

    @property
    def place(self) -> str:
        """The path below the Maildir."""
        name = self.unique
        if self.tried_at is not None:
            name += f",tries={self.attempts},last={self.tried_at:.3f}"
            if self.answer is not None:
                name += f",{'refused' if self.refused else 'waiting'}={self.answer}"
        return f"cur/{name}:2,{IN_DOUBT_FLAG}" if self.in_doubt else f"new/{name}"

    @property
    def _since(self) -> float:
        return self.stored_at if self.tried_at is None else self.tried_at

    @property
    def _turn(self) -> float:
        done = max(self.attempts, 1)  # a process that was killed has not counted its first attempt
        return self._since + (PAUSES[done - 1] if done <= len(PAUSES) else LATER_PAUSE)

    @property
    def _ends_at(self) -> float:
        return self.stored_at + GIVE_UP_AFTER


def to_the_millisecond(seconds: float) -> float:
    """The time as a name tells it, and never later than it is: an attempt must not move its next turn."""
    return math.floor(seconds * 1000) / 1000


def parse_name(file_name: str) -> Name | None:
    """The name of a message, whatever flags a mail reader has added; None for the name of another file."""
    match = _NAME.fullmatch(file_name)
    if match is None:
        return None
    unique, nanoseconds, local_part, attempts, tried_at, verdict, answer, flags = match.groups()
    return Name(
        unique,
        local_part,
        int(nanoseconds) / 1e9,
        int(attempts or 0),
        float(tried_at) if tried_at else None,
        answer,
        verdict == "refused",
        IN_DOUBT_FLAG in (flags or ""),
    )
