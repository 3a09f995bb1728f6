"""The state of the mail in one line, as Nagios and cron read it."""

import time
from contextlib import suppress
from enum import IntEnum

from app.mail.failures import failure_of
from app.mail.listing import duration
from app.mail.mailer import Mailer
from app.mail.queued import QueueCounts, State
from app.mail.spool import Spool
from app.settings import Settings

WAITING_WARNING, WAITING_CRITICAL = 15 * 60, 60 * 60
"""The ages in seconds of the oldest waiting message above which the status is a warning, and is critical."""


class Level(IntEnum):
    """The levels of a Nagios plugin, each with its exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


_LEVELS = dict.fromkeys((State.REFUSED, State.IN_DOUBT, State.STORED), Level.WARNING) | {State.GIVEN_UP: Level.CRITICAL}
"""The level of a single message in a state that only the operator can end."""


def find_status(settings: Settings, mailer: Mailer, spool: Spool) -> tuple[Level, str]:
    """The level and the line: counts what is queued and checks the mail server; never raises an exception."""
    try:
        return _find(settings, mailer, spool)
    except Exception as error:  # noqa: BLE001 - any failure is a result
        reason = error.strerror if isinstance(error, OSError) else None
        return Level.CRITICAL, f"the mail cannot be checked: {reason or type(error).__name__}"


def _find(settings: Settings, mailer: Mailer, spool: Spool) -> tuple[Level, str]:
    mail_dir = f"MAIL_DIR={str(settings.mail_dir)!r}"
    if not spool.exists():
        return Level.CRITICAL, f"{mail_dir} does not exist"
    try:
        with suppress(FileNotFoundError):  # folders that were not created yet can be created
            spool.check(create=False)
    except OSError as error:
        return Level.CRITICAL, f"{mail_dir} takes no message: {error.strerror}"
    counts = QueueCounts(spool.messages())
    numbers = ", ".join(f"{count} {state}" for state in State if (count := counts.by_state[state])) or "no messages"
    level = max((_LEVELS.get(state, Level.OK) for state in counts.by_state), default=Level.OK)
    if unreadable := spool.unreadable():
        level = max(level, Level.WARNING)
        numbers += f", {len(unreadable)} files that this release cannot read, such as {unreadable[0]!r}"
    if State.WAITING in counts.oldest:
        age = max(0.0, time.time() - counts.oldest[State.WAITING])
        numbers += f"; oldest waiting for {duration(age)}"
        if age > WAITING_WARNING:
            level = max(level, Level.CRITICAL if age > WAITING_CRITICAL else Level.WARNING)
    if mailer.sender is None:
        if not settings.has_recipients and State.STORED not in counts.by_state:
            return level, f"SMTP_HOST is not set; {numbers}"
        return max(level, Level.WARNING), f"SMTP_HOST is not set: forms reach nobody; {numbers}"
    try:
        mailer.sender.check()
    except OSError as error:
        return Level.CRITICAL, f"{failure_of(error).sentence}; {numbers}"
    finally:
        mailer.close()
    return level, numbers
