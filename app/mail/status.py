"""The state of the mail in one line, as Nagios and cron read it."""

from __future__ import annotations

import time
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from app.mail.explain import explain
from app.mail.kept import State
from app.mail.listing import duration
from app.mail.redelivery import Census
from app.mail.smtp import SmtpSender
from app.mail.spool import Spool
from app.settings import Settings

WAITING_WARNING = 15 * 60
"""The age in seconds of the oldest waiting message above which the status is a warning."""

WAITING_CRITICAL = 60 * 60
"""The age in seconds above which it is critical."""


class Level(IntEnum):
    """The levels of a Nagios plugin, each with its exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


LEVELS = {
    State.REFUSED: Level.WARNING,
    State.IN_DOUBT: Level.WARNING,
    State.GIVEN_UP: Level.CRITICAL,
}
"""The level of a single message in a state that only the operator can end."""


class Status(NamedTuple):
    """The level and the line."""

    level: Level
    text: str

    @property
    def line(self) -> str:
        """The line, as a Nagios plugin writes it."""
        return f"{self.level.name} - {self.text}"


def find_status(settings: Settings, spool: Spool) -> Status:
    """Count what is kept and check the mail server; never raises an exception."""
    try:
        return _find(settings, spool)
    except Exception as error:  # noqa: BLE001 - any failure is a result
        reason = error.strerror if isinstance(error, OSError) else None
        return Status(Level.CRITICAL, f"the mail cannot be checked: {reason or type(error).__name__}")


def _find(settings: Settings, spool: Spool) -> Status:
    place = f"MAIL_DIR={str(settings.mail_dir)!r}"
    if not settings.mail_dir.is_dir():
        return Status(Level.CRITICAL, f"{place} does not exist")
    if not spool.is_writable():
        return Status(Level.CRITICAL, f"{place} cannot be written")
    try:
        with suppress(FileNotFoundError):  # the folders that were not made yet can be made
            spool.probe()
    except OSError as error:
        return Status(Level.CRITICAL, f"{place} takes no message: {error.strerror}")
    now = time.time()
    census = Census(has_server=settings.smtp_host is not None, now=now, sending_seconds=settings.smtp_timeout)
    for _, name in spool.names():
        if name is not None:
            census.add(name)
    numbers = ", ".join(f"{count} {state}" for state in State if (count := census.counts[state])) or "nothing is kept"
    if settings.smtp_host is None:
        return Status(Level.OK, f"SMTP_HOST is not set; {numbers}")
    level = max((LEVELS.get(state, Level.OK) for state in census.counts), default=Level.OK)
    if State.WAITING in census.oldest:
        age = max(0.0, now - census.oldest[State.WAITING])
        numbers += f"; the oldest waits for {duration(age)}"
        level = max(level, _level_of_waiting(age))
    failure = _mail_server_failure(settings)
    if failure is not None:
        return Status(Level.CRITICAL, f"{failure}; {numbers}")
    return Status(level, numbers)


def _level_of_waiting(age: float) -> Level:
    if age > WAITING_CRITICAL:
        return Level.CRITICAL
    return Level.WARNING if age > WAITING_WARNING else Level.OK


def _mail_server_failure(settings: Settings) -> str | None:
    sender = SmtpSender(settings)
    try:
        sender.check()
    except OSError as error:
        return explain(error)
    finally:
        with suppress(OSError):
            sender.close()
    return None
