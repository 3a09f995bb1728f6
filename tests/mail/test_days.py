"""The attempts that the service makes by itself: when, in which states, and by whom. No second of its days passes."""

from __future__ import annotations

import os
from bisect import insort
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from app.mail import redelivery as module
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.queued import QueuedMessage
from app.mail.redelivery import Redelivery
from app.mail.smtp import Receipt
from app.mail.spool import Spool
from tests.mail.conftest import DAY, Clock, MakeMailer, keep, kept, numbered
from tests.mail.server import Act, SmtpServer

HOUR = 3600
LATER = "server RCPT: 450 4.2.0 later"
SILENT = "server message: DROP"
TRIED = ",tries={},last=170000000{}.000,waiting=451.demo"

PAUSES = [0, 60, 120, 240, 480, 960, 1920, 3840, *range(3840 + HOUR, 5 * DAY, HOUR)]
"""The times of a message that is deferred for five days."""


class Day(NamedTuple):
    events: str
    """What happens in which second."""
    tried: str = ""
    """The attempts as ``ID@SECOND``, with a ``!`` when they failed."""
    left: str = ""
    """The messages that are left, each as ``ID STATE ATTEMPTS CODE``."""


DAYS = {
    "the oldest first, a second apart": Day("0 due 30; 30 end", " ".join(f"{it}@{it}" for it in range(30))),
    "but before them those with fewer attempts": Day(
        f"0 keep 1 {TRIED.format(9, 1)}; 0 keep 2 {TRIED.format(2, 3)}; 0 keep 3 {TRIED.format(3, 2)}; 0 due 1; 5 end",
        "0@0 2@1 3@2 1@3",
    ),
    "what another process sends takes no time": Day("0 due 3; 0 hold; 2 end", "1@0 2@1", "0 waiting 0"),
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
        "0 down; 0 wall 30; 0 form 1; 0 wall 0; 0 up; 15 end", "1@0!", "1 waiting 1 connection"
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
    "a return in the pause after a round begins the next one": Day("0 fails; 0 keep 1 waiting; 1 passes; 3 end", "1@1"),
    "no round while the check fails": Day("0 due 3; 0 passes; 1.5 fails; 3600 end", "0@0 1@1", "2 waiting 0"),
    # forms
    "live forms go first": Day("0 due 1; 0 queue 1; 60 queue 0; 75 end", "0@60"),
    # a stop, and failures
    "a stop begins no other attempt": Day("0 due 2; 0.5 end", "0@0", "1 waiting 0"),
    "a failure makes the gap ten seconds, and one second less after each half minute": Day(
        f"0 due 8; 0 {LATER}; 5 server; 71 end", "0@0! 1@10 2@20 3@29 4@38 5@47 6@55 7@63", "0 waiting 1 450"
    ),
    "after five minutes it is one second again": Day(
        f"0 {LATER}; 0 due 1; 5 server; 300 due 4; 304 end", "0@0! 0@200 0@300 1@301 2@302 3@303"
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
            ("DATA", "DROP", "waiting 1 lost"),
        )
    },
    "a message left in doubt stops the rounds for eight minutes": Day(
        f"0 due 3; 0 {SILENT}; 500 server; 961 end", "0@0! 1@480! 2@960", "0 in doubt 1; 1 in doubt 1"
    ),
    "but a live form does not": Day(f"0 due 2; 0 {SILENT}; 0 form 9; 0 server; 5 end", "9@0! 0@0 1@1", "9 in doubt 1"),
    "but not after 550": Day(
        "0 due 2; 0 server RCPT: 550 5.1.1 no; 5 end", "0@0! 1@1!", "0 refused 1 550; 1 refused 1 550"
    ),
}


FULL, SLOW = "demo@example.com", "onboarding@example.com"
"""The recipients of two kinds of form."""


class Situation(NamedTuple):
    """What DECISIONS, section 6, promises of the rounds. A message of ``wait`` has been tried once an hour."""

    events: str
    left: Mapping[str, float] = MappingProxyType({})
    """The most messages that may be left, by their form type and state; and of live forms, how many per cent may be
    refused."""


def limited(seconds: int, waiting: int, relay: str, left: int) -> Situation:
    """A relay that takes 30 messages a minute, while visitors send 15."""
    events = f"0 {relay}; 0 wait {waiting} ventas 10800; 0 client ventas 4; {seconds} end"
    return Situation(events, {"refused": 5, "ventas waiting": left})


SITUATIONS = {
    "(a) a full mailbox among 300 messages delays them by ten minutes at most": Situation(
        f"0 server {FULL}: 452 4.2.2 full; 0 fails; 0 wait 300 ventas 1800; 0 wait 1 demo 900; 1 passes; 601 end",
        {"demo waiting": 1},
    ),
    "(b) and one that is full for days delays no others": Situation(
        f"0 wait 450 demo {3 * DAY}; 0 server MAIL: 421 4.7.0 too many; 0 forms 10 ventas; 0 server {FULL}: 452 4.2.2"
        " full; 600 end",
        {"demo waiting": 450, "refused": 100},
    ),
    # Forty minutes' share of 3,000 in seven hours.
    "(c) a bucket of messages a minute, whatever waits": limited(2400, 400, "limit bucket 421 4.7.0 too many", 114),
    "(c) so many in each minute, whatever waits": limited(2400, 400, "limit minute 450 4.7.1 too many", 114),
    "(d) a client that posts what is deferred delays no others": Situation(
        f"0 server message to {SLOW}: 451 4.3.0 later; 0 client onboarding 30; 3600 server MAIL: 421 4.7.0 too many;"
        f" 3600 forms 10 ventas; 3600 server message to {SLOW}: 451 4.3.0 later; 5400 end",
        {"onboarding waiting": 181, "refused": 100},
    ),
    "(e) a relay that is silent for an hour leaves few in doubt": Situation(
        f"0 {SILENT}; 0 wait 300 ventas 1800; 3600 server; 4500 end", {"ventas in doubt": 10}
    ),
    "(f) a night without a mail server": Situation("0 fails; 0 wait 300 ventas 28800; 1 passes; 601 end"),
}
NIGHTS = {relay: limited(7 * HOUR, 3000, f"limit {relay} 450 4.7.1 too many", 20) for relay in ("bucket", "minute")}
"""The same for 3,000 messages. Some live forms of the last minutes may wait still."""


class Limited(dict[str, "str | bytes | Act"]):
    """Replies of a relay that takes 30 messages a minute: of each whole one, or from a bucket that fills evenly."""

    def __init__(self, clock: Clock, kind: str, reply: str) -> None:
        self._clock, self._is_bucket, self._reply = clock, kind == "bucket", reply
        self._tokens, self._at = 30.0, 0.0

    def get(self, stage: str, default: Any = None) -> Any:
        if stage != "MAIL":
            return default
        before, self._at = self._at, self._clock.passed
        more = (self._at - before) / 2 if self._is_bucket else 30 * (self._at // 60 - before // 60)
        self._tokens = min(30, self._tokens + more)
        if self._tokens < 1:
            return self._reply
        self._tokens -= 1
        return None


class Story:
    """All that can happen to a service, whose mail server is up at first. Events are the names of methods.

    Its redelivery has no thread: while it pauses, the clock moves on and things happen.
    """

    def __init__(
        self, mailer: Mailer, mail_dir: Path, clock: Clock, server: SmtpServer, patch: pytest.MonkeyPatch
    ) -> None:
        self._mailer, self._mail_dir, self._server, self._patch = mailer, mail_dir, server, patch
        self._redelivery = Redelivery(mailer, Spool(mail_dir), timeout=10)
        self._redelivery.loop.sleep = self._pause  # type: ignore[method-assign]
        self._redelivery.loop.wake = self._wake  # type: ignore[method-assign]
        self._clock = clock
        self._is_woken = False
        self._up = ExitStack()
        self.tried: list[str] = []
        self.forms_sent = self.forms_refused = 0
        sender: Any = mailer.sender
        self._send = sender.send
        sender.send = self._note_and_send

    def tell(self, events: str) -> None:
        """Let each thing happen in its second; the last one ends it."""
        self._events = [event.split() for event in events.split(";")]
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
            at, verb, *words = self._events.pop(0)
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
        keep(self._mail_dir, numbered(local_part), " ".join(state))

    def wait(self, messages: str, form_type: str, oldest: str) -> None:
        """Each was tried once an hour since its form was posted, the last one as many seconds ago, and a minute."""
        for number in range(int(messages)):
            age = 60 + int(oldest) * (number + 1) // int(messages)
            tries, last = 1 + age // HOUR, self._clock.start - age % HOUR
            keep(
                self._mail_dir,
                numbered(f"{form_type}-{number}", form_type),
                f",tries={tries},last={last:.3f},waiting=451.{form_type}",
                age=age,
            )

    def form(self, *local_parts: str, form_type: str = "demo") -> None:
        for local_part in local_parts:
            self.forms_sent += 1
            try:
                self._mailer.deliver(numbered(local_part, form_type))
            except DeliveryError:
                self.forms_refused += 1

    def forms(self, forms: str, form_type: str) -> None:
        for _ in range(int(forms)):
            self.form(f"{form_type}-live-{self.forms_sent}", form_type=form_type)

    def client(self, form_type: str, seconds: str) -> None:
        """Somebody posts a form every so many seconds from now on."""
        self.forms("1", form_type)
        event = [str(self._clock.passed + float(seconds)), "client", form_type, seconds]
        insort(self._events, event, key=lambda event: float(event[0]))

    def limit(self, kind: str, *reply: str) -> None:
        self._server.replies = Limited(self._clock, kind, " ".join(reply))

    def passes(self, *, passes: bool = True) -> None:
        self._clock.passed += 0.125
        self._redelivery.server_checked(passes)

    def fails(self) -> None:
        self.passes(passes=False)

    def server(self, *words: str) -> None:
        stage, _, reply = " ".join(words).partition(": ")
        stages = {"", "MAIL", "RCPT", FULL, "message", f"message to {SLOW}", "DATA", "connect"}
        assert stage in stages, "no stage: it would change nothing"
        self._server.replies = {stage: Act.DROP if reply == "DROP" else reply} if stage else {}

    def up(self) -> None:
        self._up.enter_context(self._server)

    def down(self) -> None:
        self._up.close()

    def wall(self, seconds: str) -> None:
        self._clock.wall = float(seconds)

    def hold(self) -> None:
        """Another process sends the oldest message."""
        claim = Spool(self._mail_dir).claim(kept(self._mail_dir)[0])
        assert self._up.enter_context(claim)

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
        self._redelivery.loop.stop()
        self._events.clear()


def keep_due(mail_dir: Path, messages: int) -> None:
    """Puts messages into MAIL_DIR whose turn has come."""
    for number in range(messages):
        keep(mail_dir, numbered(number), age=200 - number)


Play = Callable[[str], Story]


@pytest.fixture
def play(make_mailer: MakeMailer, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays a story."""
    Spool(mail_dir).create()

    def play(events: str) -> Story:
        server = SmtpServer()
        mailer = make_mailer(server, SALES_EMAIL_DEMO=FULL, SALES_EMAIL_ONBOARDING=SLOW)
        story = Story(mailer, mail_dir, clock, server, monkeypatch)
        story.tell(events)
        return story

    return play


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS)
def test_day(play: Play, mail_dir: Path, day: Day) -> None:
    tried = play(day.events).tried

    left = (f"{it.local_part} {it.state} {it.attempts} {it.last_code}".strip() for it in kept(mail_dir))
    assert (" ".join(tried), "; ".join(left)) == (day.tried, day.left)


@pytest.mark.parametrize(
    "situation",
    [
        *(pytest.param(each, id=name) for name, each in SITUATIONS.items()),
        *(pytest.param(each, id=f"(c) {name}, 3,000", marks=pytest.mark.nightly) for name, each in NIGHTS.items()),
    ],
)
def test_no_message_starves_in_the_rounds(play: Play, mail_dir: Path, situation: Situation) -> None:
    story = play(situation.events)

    left = Counter(f"{it.form_type} {it.state}" for it in kept(mail_dir))
    found = {**left, "refused": 100 * story.forms_refused / max(1, story.forms_sent)}
    assert {what: most for what, most in found.items() if most > situation.left.get(what, 0)} == {}


@pytest.mark.parametrize(("form_type", "recipient"), [("demo", "a@example.com"), ("", "b@example.com")])
def test_what_waits_goes_whole_to_whom_the_settings_name_for_its_kind_by_now(
    make_mailer: MakeMailer, mail_dir: Path, form_type: str, recipient: str
) -> None:
    large = numbered(1).content + b"0123456789\r\n" * 50_000
    keep(mail_dir, Message("<1@example.com>", large), f",tries=1,last=1700000000.000,waiting=451.{form_type}", age=100)

    with SmtpServer() as server:
        mailer = make_mailer(server, SALES_EMAIL="b@example.com", SALES_EMAIL_DEMO="a@example.com")
        Redelivery(mailer, Spool(mail_dir), timeout=10).work()

    assert [(arrival.recipients, arrival.content) for arrival in server.arrivals] == [([recipient], large)]


def test_of_two_processes_one_makes_rounds_and_the_other_when_its_check_fails(
    make_mailer: MakeMailer, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.2)
    keep_due(mail_dir, 2)
    with SmtpServer({"RCPT": "450 4.2.0 later"}) as server:
        first, second = (Redelivery(make_mailer(server), Spool(mail_dir), timeout=10) for _ in range(2))
        first.work()
        second.work()
        tries = [message.attempts for message in kept(mail_dir)]
        first.server_checked(False)
        first.work()
        second.work()

    assert (tries, [message.attempts for message in kept(mail_dir)]) == ([1, 0], [1, 1])


def test_a_large_store_is_read_less_often(
    make_mailer: MakeMailer, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_slowly(_: Spool) -> list[QueuedMessage]:
        clock.passed += 2
        return []

    monkeypatch.setattr(Spool, "messages", read_slowly)

    assert Redelivery(make_mailer(), Spool(mail_dir), timeout=10).work() == 398


def test_a_fault_ends_nothing_and_is_named_without_its_words(
    make_mailer: MakeMailer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mail_dir: Path
) -> None:
    def fail(_: Spool) -> None:
        raise LookupError("maria@example.com")

    monkeypatch.setattr(Spool, "messages", fail)
    Redelivery(make_mailer(), Spool(mail_dir), timeout=10).work()

    assert caplog.messages == ["redelivery failed: LookupError"]
