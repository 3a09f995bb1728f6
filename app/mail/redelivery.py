"""The second and all later attempts: kept messages are handed over again in the background."""

from __future__ import annotations

import errno
import heapq
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from app.mail.kept import Name, State, to_the_millisecond
from app.mail.mailer import Mailer, answer_of, describe, is_about_message
from app.mail.message import Message
from app.mail.spool import Entry, Spool

INTERVAL = 10.0
"""Seconds from one look at MAIL_DIR to the next."""

SHARE = 0.02
"""The part of the time that looking at MAIL_DIR may take. A large store is looked at less often."""

BATCH = 5000
"""Messages that are handed over after one look, the oldest first."""

_BREATH_AFTER = 250
"""Names that are read before other threads get their turn."""

_REST = 900.0
"""Seconds for which a message is left alone that cannot be read or renamed, so that it stands in nobody's way."""

_PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""The errors that are no fault of the file."""

_NO_FILE = {None, errno.ELOOP, errno.ENXIO}
"""The errors of what is not a message (None), of a link and of a socket. They do not pass."""

logger = logging.getLogger(__name__)


class Census:
    """The numbers of the kept messages at one moment.

    ``sending_seconds`` is the longest time that an attempt takes: as long, a message may be in doubt only because the
    mail server has not answered yet.
    """

    def __init__(self, *, has_server: bool, now: float, sending_seconds: float) -> None:
        self.counts: Counter[State] = Counter()
        """The number of messages in each state."""
        self.oldest: dict[State, float] = {}
        """The time at which the oldest message in each state was stored, in seconds since 1970."""
        self._has_server = has_server
        self._sent_before = now - sending_seconds

    @property
    def total(self) -> int:
        """The number of all messages."""
        return self.counts.total()

    def add(self, name: Name) -> None:
        """Count a message."""
        state = name.state if self._has_server else State.STORED
        if state is State.IN_DOUBT and name.tried_at is not None and name.tried_at > self._sent_before:
            state = State.WAITING
        self.counts[state] += 1
        self.oldest[state] = min(name.stored_at, self.oldest.get(state, name.stored_at))


class Redelivery:
    """Hands over again what is waiting in MAIL_DIR, in a thread of its own.

    Every process does so for all messages. The lock of each message lets one of them try it, and afterwards the message
    has another name, so that the others do not try it once more.
    """

    def __init__(self, mailer: Mailer, spool: Spool, *, sending_seconds: float) -> None:
        """``sending_seconds`` is the longest time that an attempt takes."""
        self._redeliver = mailer.redeliver
        self._spool = spool
        self._sending_seconds = sending_seconds
        self._server_there_at = self._server_back_at = 0.0
        self._survey_seconds = 0.0
        self._not_messages: set[str] = set()
        self._resting: dict[str, float] = {}
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self.census = self._new_census()
        """The newest numbers."""
        self.first_census = threading.Event()
        """Set once the thread has looked, or has failed to."""

    def start(self) -> None:
        """Start the thread, once per process."""
        self._thread = threading.Thread(target=self._run, name="mail-redelivery", daemon=True)
        self._thread.start()

    def server_is_there(self, after_outage: bool) -> None:  # noqa: FBT001 - a callback of the health
        """Try at once what the mail server's return concerns.

        After an outage that is all that waits. At the first check of this process that passes, it is what waits because
        of the server itself, such as a login that was refused: the operator may have corrected the settings.
        """
        self._server_there_at = to_the_millisecond(time.time())  # as the time of an attempt
        if after_outage:
            self._server_back_at = self._server_there_at
        self._wake.set()

    def wind_down(self) -> None:
        """Begin no further attempt."""
        self._stopped.set()
        self._wake.set()

    def stop(self) -> None:
        """End the thread, once the attempt that it is making has ended."""
        self.wind_down()
        if self._thread is not None:
            self._thread.join(self._sending_seconds + 1)

    def look(self) -> bool:
        """Count what is kept and hand over what is due; returns True when there may be more to hand over at once.

        Raises OSError when MAIL_DIR cannot be read.
        """
        there_at = self._server_there_at
        due = self._survey()
        if self._redeliver is None or not due or not self._spool.is_writable():
            return False
        next_look = time.monotonic() + self._pause()
        for number, place in enumerate(due):
            if self._stopped.is_set():
                return False
            if number and time.monotonic() > next_look:
                return True  # a slow server must not make the numbers old
            answer = self._try(self._redeliver, place)
            if answer is not None:
                # Else the server was there a moment ago, or has come back during the attempt: the others stay due.
                if number == 0 and place not in self._resting:
                    self._postpone(due[1:], answer, there_at)
                return False
        return len(due) == BATCH

    def _run(self) -> None:
        while not self._stopped.is_set():
            more = False
            try:
                more = self.look()
            except Exception as error:  # noqa: BLE001 - the thread must go on
                logger.error("MAIL_DIR cannot be looked after: %s", type(error).__name__)
            self.first_census.set()
            if not more:
                self._wake.wait(self._pause())
            self._wake.clear()

    def _pause(self) -> float:
        """The seconds from one look to the next."""
        return max(INTERVAL, self._survey_seconds / SHARE)

    def _survey(self) -> list[str]:
        """Take the census; returns the places of the oldest messages that are due."""
        begun = time.monotonic()
        now, there_at, back_at = time.time(), self._server_there_at, self._server_back_at
        census = self._new_census()
        known: set[str] = set()
        self._resting = {place: until for place, until in self._resting.items() if until > begun}

        def due() -> Iterator[tuple[str, str]]:
            for number, (place, name) in enumerate(self._spool.names(), 1):
                if number % _BREATH_AFTER == 0:
                    time.sleep(0.001)  # a request waits for the interpreter's lock as long as this thread computes
                if place in self._not_messages:
                    known.add(place)
                elif name is not None:
                    census.add(name)
                    since = there_at if name.failed_at_server else back_at
                    if name.is_due(now, since) and place not in self._resting:
                        yield name.unique, place

        oldest = heapq.nsmallest(BATCH, due())
        self._not_messages = known
        self.census = census
        self._survey_seconds = time.monotonic() - begun
        self.first_census.set()
        return [place for _, place in oldest]

    def _try(self, redeliver: Callable[[Message, Entry], object], place: str) -> str | None:
        """Hand over one message. Returns the outcome if it stands for all messages, else None."""
        with self._claim(place) as claimed:
            if claimed is None:
                return None
            message, entry = claimed
            attempt = entry.attempts + 1
            try:
                redeliver(message, entry)
            except OSError as error:
                logger.warning(
                    "message %s was not delivered in attempt %d: %s", message.message_id, attempt, describe(error)
                )
                if entry.place == place:  # neither marked nor noted: it would be the first one at each look
                    self._resting[place] = time.monotonic() + _REST
                return None if is_about_message(error) else answer_of(error)
        logger.info("message %s delivered in attempt %d", message.message_id, attempt)
        return None

    def _postpone(self, places: list[str], answer: str, there_at: float) -> None:
        """Note the attempt for the other messages that are due: a server that is down is not asked for each of them.

        End when the server has come back since ``there_at``.
        """
        for place in places:
            if self._stopped.is_set() or self._server_there_at != there_at:
                return
            with self._claim(place) as claimed:
                if claimed is not None:
                    claimed[1].note(answer, refused=False)

    @contextmanager
    def _claim(self, place: str) -> Iterator[tuple[Message, Entry] | None]:
        """A message and its entry; None for a file that is not a message, or that somebody else has or had."""
        with ExitStack() as stack:
            claimed = None
            try:
                entry = stack.enter_context(self._spool.claim(place))
                if entry is not None:
                    claimed = entry.message(), entry
            except OSError as error:
                if error.errno in _NO_FILE:
                    self._not_messages.add(place)
                elif error.errno not in _PASSING:
                    self._resting[place] = time.monotonic() + _REST
            yield claimed

    def _new_census(self) -> Census:
        return Census(has_server=self._redeliver is not None, now=time.time(), sending_seconds=self._sending_seconds)
