"""The attempts that the service makes by itself: when, in which states, and by whom. No second of its days passes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from app.mail import redelivery as module
from app.mail.kept import Kept
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.redelivery import Redelivery
from app.mail.smtp import Receipt
from app.mail.spool import Spool
from tests.mail.conftest import DAY, Clock, MakeMailer, keep, kept, letter
from tests.mail.server import Act, SmtpServer

HOUR = 3600
LATER = "server RCPT: 450 4.2.0 later"

PAUSES = [0, 60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, *range(29_760, 5 * DAY + 4 * HOUR, 4 * HOUR)]
"""The times of a message that is deferred for five days."""


class Day(NamedTuple):
    events: str
    """What happens in which second."""
    tried: str = ""
    """The attempts as ``ID@SECOND``, with a ``!`` when they failed."""
    left: str = ""
    """The messages that are left, each as ``ID STATE TRIES CODE``."""


DAYS = {
    "the oldest first, a second apart": Day("0 down; 0 form 0 1 2; 1 up; 75 end", "0@0! 1@0! 2@0! 0@60 1@61 2@62"),
    "pauses as long as the message has waited, and after five days it is given up": Day(
        f"0 rounds 60; 0 {LATER}; 0 form 1; 960 rounds 240; {5 * DAY + 5 * HOUR} end",
        " ".join(f"1@{at}!" for at in PAUSES),
        f"1 given up {len(PAUSES)} 450",
    ),
    "a relay that is away for six days ends nothing": Day(
        f"0 down; 0 form 1; 0 fails; 0 rounds 3600; {6 * DAY} up; {6 * DAY} passes; {6 * DAY + 1} end",
        f"1@0! 1@{6 * DAY}",
    ),
    "nor does a clock that was wrong at boot": Day(
        f"0 down; 0 wall {-36 * 365 * DAY}; 0 form 0 1; 5 wall 0; 1800 up; 1800 passes; 1810 end",
        "0@0! 1@0! 0@10! 1@20! 0@1800 1@1801",
    ),
    "one set back keeps nothing waiting": Day(f"0 down; 0 wall {DAY}; 0 form 1; 0 wall 0; 0 up; 15 end", "1@0! 1@0"),
    "but one that was a little ahead does not hurry": Day(
        "0 down; 0 wall 30; 0 form 1; 0 wall 0; 0 up; 15 end", "1@0!", "1 waiting 1 ConnectionRefusedError"
    ),
    "what only the operator can end is left to him": Day(
        f"0 keep 1 in doubt; 0 keep 2 refused; 0 keep 3 given up; 0 passes; {HOUR} end",
        left="3 given up 35 451; 1 in doubt 1; 2 refused 1 550",
    ),
    # returns of the mail server
    "a return makes all due that waits": Day(
        f"0 {LATER}; 0 form 1 2; 0 fails; 0 passes; 15 end", "1@0! 2@0! 1@0! 2@10!", "1 waiting 2 450; 2 waiting 2 450"
    ),
    "the first check that passes is a return": Day("0 keep 1 waiting; 0 passes; 1 end", "1@0"),
    "one that passes again is none": Day(
        f"0 {LATER}; 0 passes; 0 form 1; 15 passes; 30 passes; 55 end", "1@0!", "1 waiting 1 450"
    ),
    "a return in the pause after a round begins the next one": Day(
        "0 server connect: 554 no service; 0 keep 1 waiting; 0 keep 2 new; 1 server; 1 passes; 3 end", "1@0! 1@1 2@2"
    ),
    "no round while the check fails": Day("0 due 3; 0 passes; 1.5 fails; 3600 end", "0@0 1@1", "2 waiting 0"),
    # forms
    "live forms go first": Day("0 due 1; 0 queue 1; 60 queue 0; 75 end", "0@60"),
    # a stop, and failures
    "a stop begins no other attempt": Day("0 due 2; 0.5 end", "0@0", "1 waiting 0"),
    "the gap doubles after each 4xx to a minute, until nothing is waiting": Day(
        f"0 due 8; 0 {LATER}; 250 server; 250 passes; 1000 due 2; 1010 end",
        "0@0! 1@10! 2@20! 3@30! 4@46! 5@78! 6@138! 7@198!"
        " 0@258 1@318 2@378 3@438 4@498 5@558 6@618 7@678 0@1000 1@1001",
    ),
    "from a disk that keeps what was delivered nothing is sent": Day("0 forbid; 0 due 1; 60 end", left="0 waiting 0"),
    "one that is cut off is tried a quarter of an hour later": Day("0 due 2; 0 spoil; 600 mend; 1200 end", "1@1 0@910"),
    **{
        f"the others of the round wait after {reply}": Day(
            f"0 due 3; 0 server {stage}: {reply}; 0 passes; 11 end", "0@0! 1@10!", f"0 {left}; 1 {left}; 2 waiting 0"
        )
        for stage, reply, left in (
            ("RCPT", "450 4.2.0 later", "waiting 1 450"),
            ("MAIL", "421 4.7.0 too many", "waiting 1 421"),
            ("connect", "554 5.3.2 no service", "waiting 1 554"),
            ("message", "DROP", "in doubt 1"),
        )
    },
    "but not after 550": Day(
        "0 due 2; 0 server RCPT: 550 5.1.1 no; 5 end", "0@0! 1@1!", "0 refused 1 550; 1 refused 1 550"
    ),
}


class Story:
    """All that can happen to a service, whose mail server is up at first. Events are the names of methods.

    Its redelivery has no thread: while it pauses, the clock moves on and things happen.
    """

    def __init__(
        self, mailer: Mailer, mail_dir: Path, clock: Clock, server: SmtpServer, patch: pytest.MonkeyPatch
    ) -> None:
        self._mailer, self._mail_dir, self._server, self._patch = mailer, mail_dir, server, patch
        self._redelivery = Redelivery(mailer, Spool(mail_dir), patience=10)
        self._redelivery.loop.pause = self._pause  # type: ignore[method-assign]
        self._redelivery.loop.wake = self._wake  # type: ignore[method-assign]
        self._clock = clock
        self._is_woken = False
        self._up = ExitStack()
        self.tried: list[str] = []
        sender: Any = mailer.sender
        self._send = sender.send
        sender.send = self._note_and_send

    def tell(self, events: str) -> None:
        """Let each thing happen in its second; the last one ends it."""
        self._events = deque(map(str.split, events.split(";")))
        with self._up:  # a story that fails leaves no server behind
            self.up()
            self._pause(0)
            while self._events:
                self._is_woken = False
                self._pause(self._redelivery.work(), between_rounds=True)

    def _pause(self, seconds: float, *, between_rounds: bool = False) -> None:
        end = self._clock.passed + seconds
        while not (between_rounds and self._is_woken):
            if not self._events or float(self._events[0][0]) > end:
                self._clock.passed = max(self._clock.passed, end)
                return
            at, verb, *words = self._events.popleft()
            self._clock.passed = max(self._clock.passed, float(at))
            getattr(self, verb)(*words)

    def _wake(self) -> None:
        self._is_woken = True

    def _note_and_send(self, message: Message, *args: Any, **options: Any) -> Receipt:
        attempt = f"{message.message_id.strip('<>').partition('@')[0]}@{self._clock.passed:.0f}"
        self.tried.append(f"{attempt}!")
        receipt: Receipt = self._send(message, *args, **options)
        self.tried[-1] = attempt
        return receipt

    def rounds(self, seconds: str) -> None:
        """Rounds come this far apart, so that days do not take long."""
        self._patch.setattr(module, "INTERVAL", float(seconds))

    def due(self, messages: str) -> None:
        keep_due(self._mail_dir, int(messages))

    def keep(self, local_part: str, *state: str) -> None:
        keep(self._mail_dir, letter(local_part), " ".join(state))

    def form(self, *local_parts: str) -> None:
        for local_part in local_parts:
            with suppress(DeliveryError):
                self._mailer.deliver(letter(local_part))

    def passes(self, *, passes: bool = True) -> None:
        self._clock.passed += 0.125
        self._redelivery.server_checked(passes)

    def fails(self) -> None:
        self.passes(passes=False)

    def server(self, stage: str = "", *reply: str) -> None:
        assert stage in {"", "MAIL:", "RCPT:", "message:", "DATA:", "connect:"}, "no stage: it would change nothing"
        does: str | Act = Act.DROP if reply == ("DROP",) else " ".join(reply)
        self._server.replies = {stage.rstrip(":"): does} if stage else {}

    def up(self) -> None:
        self._up.enter_context(self._server)

    def down(self) -> None:
        self._up.close()

    def wall(self, seconds: str) -> None:
        self._clock.wall = float(seconds)

    def forbid(self) -> None:
        """Nothing in MAIL_DIR can be renamed or removed. Root would be allowed to."""
        self._patch.setattr(os, "access", lambda *_: False)

    def spoil(self) -> None:
        """The oldest message is cut off, as a copy on a full disk is."""
        path = self._mail_dir / kept(self._mail_dir)[0].path
        path.write_bytes(path.read_bytes().rstrip())

    def mend(self) -> None:
        path = self._mail_dir / kept(self._mail_dir)[0].path
        path.write_bytes(path.read_bytes() + b"\n")

    def queue(self, forms: str) -> None:
        self._mailer.bulkhead.waiting = int(forms)

    def end(self) -> None:
        self._redelivery.loop.wind_down()


def keep_due(mail_dir: Path, messages: int) -> None:
    """Puts messages into MAIL_DIR whose turn has come."""
    for number in range(messages):
        keep(mail_dir, letter(number), age=200 - number)


Play = Callable[[str], tuple[str, str]]


@pytest.fixture
def play(make_mailer: MakeMailer, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays a story and returns the attempts and what is left."""
    Spool(mail_dir).prepare()

    def play(events: str) -> tuple[str, str]:
        server = SmtpServer()
        story = Story(make_mailer(server), mail_dir, clock, server, monkeypatch)
        story.tell(events)
        left = (f"{it.local_part} {it.state} {it.tries} {it.last_code}".strip() for it in kept(mail_dir))
        return " ".join(story.tried), "; ".join(left)

    return play


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS)
def test_day(play: Play, day: Day) -> None:
    assert play(day.events) == (day.tried, day.left)


@pytest.mark.parametrize(("form_type", "recipient"), [("demo", "a@example.com"), ("", "b@example.com")])
def test_what_waits_goes_whole_to_whom_the_settings_name_for_its_kind_by_now(
    make_mailer: MakeMailer, mail_dir: Path, form_type: str, recipient: str
) -> None:
    large = letter(1).content + b"0123456789\r\n" * 50_000
    keep(mail_dir, Message("<1@example.com>", large), f",tries=1,last=1700000000.000,waiting=451.{form_type}", age=100)

    with SmtpServer() as server:
        mailer = make_mailer(server, SALES_EMAIL="b@example.com", SALES_EMAIL_DEMO="a@example.com")
        Redelivery(mailer, Spool(mail_dir), patience=10).work()

    assert [(arrival.recipients, arrival.content) for arrival in server.arrivals] == [([recipient], large)]


def test_of_two_processes_one_makes_rounds_and_the_other_when_its_check_fails(
    make_mailer: MakeMailer, mail_dir: Path
) -> None:
    keep_due(mail_dir, 2)
    with SmtpServer({"RCPT": "450 4.2.0 later"}) as server:
        first, second = (Redelivery(make_mailer(server), Spool(mail_dir), patience=10) for _ in range(2))
        first.work()
        second.work()
        tries = [message.tries for message in kept(mail_dir)]
        first.server_checked(False)
        first.work()
        second.work()

    assert (tries, [message.tries for message in kept(mail_dir)]) == ([1, 0], [1, 1])


def test_a_large_store_is_read_less_often(
    make_mailer: MakeMailer, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_slowly(_: Spool) -> list[Kept]:
        clock.passed += 2
        return []

    monkeypatch.setattr(Spool, "kept", read_slowly)

    assert Redelivery(make_mailer(), Spool(mail_dir), patience=10).work() == 398


def test_a_fault_ends_nothing_and_is_named_without_its_words(
    make_mailer: MakeMailer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mail_dir: Path
) -> None:
    def fail(_: Spool) -> None:
        raise LookupError("maria@example.com")

    monkeypatch.setattr(Spool, "kept", fail)
    Redelivery(make_mailer(), Spool(mail_dir), patience=10).work()

    assert caplog.messages == ["redelivery failed: LookupError"]
