"""The attempts that the service makes by itself: when, in which states, and by whom. No second of its days passes."""

import math
import os
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from operator import attrgetter
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
from tests.timeline import assert_went, steps

HOUR = 3600
LATER = "server RCPT: 450 4.2.0 later"
SILENT = "server message: DROP"

PAUSES = [0, 60, 120, 240, 480, 960, 1920, 3840, *range(3840 + HOUR, 5 * DAY, HOUR)]
"""The times of a message that is deferred for five days."""


def tries(message: str, seconds: Iterable[int]) -> str:
    """The same message fails in each of these seconds."""
    return "; ".join(f"{second} tries {message} -> fails" for second in seconds)


DAYS = {
    "the oldest first, a second apart": (
        f"0 due {' '.join(f'm{number}' for number in range(30))}; {'; '.join(f'{second} tries m{second} -> sent' for second in range(30))}; 30 end -> nothing left"
    ),
    "those with fewer attempts before older ones": (
        "0 keep m1 tried 9 times; 0 keep m2 tried 2 times; 0 keep m3 tried 3 times; 0 due m0;"
        " 0 tries m0 -> sent; 1 tries m2 -> sent; 2 tries m3 -> sent; 3 tries m1 -> sent; 5 end -> nothing left"
    ),
    "what another process sends takes no time": (
        "0 due m0 m1 m2; 0 another process sends the oldest; 0 tries m1 -> sent; 1 tries m2 -> sent; 2 end -> m0 waiting after 0"
    ),
    "pauses as long as the message has waited, and after five days it is given up": (
        f"0 rounds every 60; 0 {LATER}; 0 form m1; {tries('m1', PAUSES[:5])}; 960 rounds every 240;"
        f" {tries('m1', PAUSES[5:])}; {5 * DAY + 5 * HOUR} end -> m1 given up after {len(PAUSES)} (450)"
    ),
    "a relay that is away for six days ends nothing": (
        "0 server down; 0 form m1; 0 tries m1 -> fails; 0 check fails; 0 rounds every 3600;"
        f" {6 * DAY} server up; {6 * DAY} check passes; {6 * DAY} tries m1 -> sent; {6 * DAY + 1} end -> nothing left"
    ),
    "a clock that was wrong at boot ends nothing": (
        f"0 server down; 0 clock ahead {-36 * 365 * DAY}; 0 form m0 m1; {tries('m0', [0])}; {tries('m1', [0])};"
        f" 5 clock ahead 0; {tries('m0', [10])}; {tries('m1', [20])}; 1800 server up; 1800 check passes;"
        " 1800 tries m0 -> sent; 1801 tries m1 -> sent; 1810 end -> nothing left"
    ),
    "a clock that is set back keeps nothing waiting": (
        f"0 server down; 0 clock ahead {DAY}; 0 form m1; 0 tries m1 -> fails; 0 clock ahead 0; 0 server up;"
        " 0 tries m1 -> sent; 15 end -> nothing left"
    ),
    "a clock that was a little ahead hurries nothing": (
        "0 server down; 0 clock ahead 30; 0 form m1; 0 tries m1 -> fails; 0 clock ahead 0; 0 server up;"
        " 15 end -> m1 waiting after 1 (connection)"
    ),
    "what only the operator can end is left to him": (
        f"0 keep m1 in doubt; 0 keep m2 refused; 0 keep m3 given up; 0 check passes; {HOUR} end ->"
        " m3 given up after 35 (451), m1 in doubt after 1, m2 refused after 1 (550)"
    ),
    # returns of the mail server
    "a return makes all due that waits": (
        f"0 {LATER}; 0 form m1 m2; {tries('m1', [0])}; {tries('m2', [0])}; 0 check fails; 0 check passes;"
        f" {tries('m1', [0])}; {tries('m2', [10])}; 15 end -> m1 waiting after 2 (450), m2 waiting after 2 (450)"
    ),
    "the first check that passes is a return": (
        "0 keep m1 waiting; 0 check passes; 0 tries m1 -> sent; 1 end -> nothing left"
    ),
    "a check that passes again is no return": (
        f"0 {LATER}; 0 check passes; 0 form m1; 0 tries m1 -> fails; 15 check passes; 30 check passes;"
        " 55 end -> m1 waiting after 1 (450)"
    ),
    "a return in the pause after a round begins the next one": (
        "0 check fails; 0 keep m1 waiting; 1 check passes; 1 tries m1 -> sent; 3 end -> nothing left"
    ),
    "no round while the check fails": (
        "0 due m0 m1 m2; 0 check passes; 0 tries m0 -> sent; 1 tries m1 -> sent; 1.5 check fails;"
        " 3600 end -> m2 waiting after 0"
    ),
    # forms
    "live forms go first": "0 due m0; 0 forms wait 1; 60 forms wait 0; 60 tries m0 -> sent; 75 end -> nothing left",
    # a stop, and failures
    "a stop begins no other attempt": "0 due m0 m1; 0 tries m0 -> sent; 0.5 end -> m1 waiting after 0",
    "a failure makes the gap ten seconds, and one second less after each half minute": (
        f"0 due m0 m1 m2 m3 m4 m5 m6 m7; 0 {LATER}; 0 tries m0 -> fails; 5 server well; 10 tries m1 -> sent; 20 tries m2 -> sent;"
        " 29 tries m3 -> sent; 38 tries m4 -> sent; 47 tries m5 -> sent; 55 tries m6 -> sent; 63 tries m7 -> sent;"
        " 71 end -> m0 waiting after 1 (450)"
    ),
    "after five minutes it is one second again": (
        f"0 {LATER}; 0 due m0; 0 tries m0 -> fails; 5 server well; 200 tries m0 -> sent; 300 due m0 m1 m2 m3; 300 tries m0 -> sent;"
        " 301 tries m1 -> sent; 302 tries m2 -> sent; 303 tries m3 -> sent; 304 end -> nothing left"
    ),
    "from a disk that keeps what was delivered nothing is sent": (
        "0 disk keeps everything; 0 due m0; 60 end -> m0 waiting after 0"
    ),
    "a message that is cut off is tried a quarter of an hour later": (
        "0 due m0 m1; 0 oldest is cut off; 1 tries m1 -> sent; 600 oldest is whole; 910 tries m0 -> sent;"
        " 1200 end -> nothing left"
    ),
    **{
        f"the others of the round wait after {reply}": (
            f"0 due m0 m1 m2; 0 server {stage}: {reply}; 0 check passes; {tries('m0', [0])}; {tries('m1', [10])};"
            f" 11 end -> m0 waiting after 1 ({code}), m1 waiting after 1 ({code}), m2 waiting after 0"
        )
        for stage, reply, code in (
            ("RCPT", "450 4.2.0 later", "450"),
            ("MAIL", "421 4.7.0 too many", "421"),
            ("connect", "554 5.3.2 no service", "554"),
            ("DATA", "DROP", "lost"),
        )
    },
    "a message left in doubt stops the rounds for eight minutes": (
        f"0 due m0 m1 m2; 0 {SILENT}; {tries('m0', [0])}; {tries('m1', [480])}; 500 server well; 960 tries m2 -> sent;"
        " 961 end -> m0 in doubt after 1, m1 in doubt after 1"
    ),
    "a live form that is left in doubt does not stop the rounds": (
        f"0 due m0 m1; 0 {SILENT}; 0 form m9; 0 tries m9 -> fails; 0 server well; 0 tries m0 -> sent; 1 tries m1 -> sent;"
        " 5 end -> m9 in doubt after 1"
    ),
    "the rounds go on after 550": (
        f"0 due m0 m1; 0 server RCPT: 550 5.1.1 no; {tries('m0', [0])}; {tries('m1', [1])};"
        " 5 end -> m0 refused after 1 (550), m1 refused after 1 (550)"
    ),
}
"""Timelines. ``tries`` are what the service does. All else happens to it, and is a method of World. At the end messages
may be left, each in its state after so many attempts, the last of which had this code."""


FULL, SLOW = "demo@example.com", "onboarding@example.com"
"""The recipients of two kinds of form."""


class Situation(NamedTuple):
    """What DECISIONS, section 6, promises of the rounds. A message of ``wait`` has been tried once an hour."""

    timeline: str
    most: Mapping[str, int] = MappingProxyType({})
    """The messages that may be left, by their form type and state; how many per cent of live forms may be refused."""


def limited(seconds: int, waiting: int, relay: str, left: int) -> Situation:
    """A relay that takes 30 messages a minute, while visitors send 15."""
    timeline = f"0 {relay}; 0 wait {waiting} ventas 10800; 0 client ventas 4; {seconds} end"
    return Situation(timeline, {"% refused": 5, "ventas waiting": left})


SITUATIONS = {
    "(a) a full mailbox among 300 messages delays them by ten minutes at most": Situation(
        f"0 server {FULL}: 452 4.2.2 full; 0 check fails; 0 wait 300 ventas 1800; 0 wait 1 demo 900; 1 check passes; 601 end",
        {"demo waiting": 1},
    ),
    "(b) and one that is full for days delays no others": Situation(
        f"0 wait 450 demo {3 * DAY}; 0 server MAIL: 421 4.7.0 too many; 0 forms send 10 ventas; 0 server {FULL}: 452 4.2.2"
        " full; 600 end",
        {"demo waiting": 450, "% refused": 100},
    ),
    # Forty minutes' share of 3,000 in seven hours.
    "(c) a bucket of messages a minute, whatever waits": limited(2400, 400, "limit bucket 421 4.7.0 too many", 114),
    "(c) so many in each minute, whatever waits": limited(2400, 400, "limit minute 450 4.7.1 too many", 114),
    "(d) a client that posts what is deferred delays no others": Situation(
        f"0 server message to {SLOW}: 451 4.3.0 later; 0 client onboarding 30; 3600 server MAIL: 421 4.7.0 too many;"
        f" 3600 forms send 10 ventas; 3600 server message to {SLOW}: 451 4.3.0 later; 5400 end",
        {"onboarding waiting": 181, "% refused": 100},
    ),
    "(e) a relay that is silent for an hour leaves few in doubt": Situation(
        f"0 {SILENT}; 0 wait 300 ventas 1800; 3600 server well; 4500 end", {"ventas in doubt": 10}
    ),
    "(f) a night without a mail server": Situation("0 check fails; 0 wait 300 ventas 28800; 1 check passes; 601 end"),
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


class World:
    """All that can happen to a service, whose mail server is up at first.

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
        self.went: list[str] = []
        self.forms_sent = self.forms_refused = 0
        sender: Any = mailer.sender
        self._send = sender.send
        sender.send = self._note_and_send

    def play(self, timeline: str) -> None:
        """Let each thing happen in its second; the last one ends it."""
        self._coming = [step for step in steps(timeline) if not step.event.startswith("tries ")]
        with self._up:  # one that fails leaves no server behind
            self.server("up")
            self._pause(0)
            while self._coming:
                self._is_woken = False
                self._pause(self._redelivery.work(), between_rounds=True)

    def _pause(self, seconds: float, *, between_rounds: bool = False) -> None:
        end = self._clock.passed + seconds
        while not (between_rounds and self._is_woken):
            if not self._coming or self._coming[0].second > end:
                self._clock.passed = max(self._clock.passed, end)
                return
            step = self._coming.pop(0)
            self._clock.passed = max(self._clock.passed, step.second)
            verb, *words = step.event.split()
            self.went.append(step.text)
            getattr(self, verb)(*words)

    def _wake(self) -> None:
        self._is_woken = True

    def _note_and_send(self, message: Message, *args: Any, **options: Any) -> Receipt:
        attempt = f"{self._clock.passed:.0f} tries {message.message_id.strip('<>').partition('@')[0]}"
        self.went.append(f"{attempt} -> fails")
        number = len(self.went)
        receipt: Receipt = self._send(message, *args, **options)
        self.went[number - 1] = f"{attempt} -> sent"
        return receipt

    def rounds(self, _every: str, seconds: str) -> None:
        """So that days do not take long."""
        self._patch.setattr(module, "INTERVAL", float(seconds))

    def due(self, *local_parts: str) -> None:
        """The oldest first."""
        keep_due(self._mail_dir, *local_parts)

    def keep(self, local_part: str, *state: str) -> None:
        """In one of the states, or tried so often; those that were tried more often have waited longer since."""
        match state:
            case ("tried", times, "times"):
                name = f",tries={times},last={1_700_000_000 - int(times)}.000,waiting=451.demo"
            case _:
                name = " ".join(state)
        keep(self._mail_dir, numbered(local_part), name)

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

    def forms(self, what: str, number: str, form_type: str = "") -> None:
        """Visitors send forms, or wait for a slot."""
        if what == "wait":
            self._mailer.bulkhead.waiting = int(number)
        for _ in range(int(number) if what == "send" else 0):
            self.form(f"{form_type}-live-{self.forms_sent}", form_type=form_type)

    def client(self, form_type: str, seconds: str) -> None:
        """Somebody posts a form every so many seconds from now on."""
        self.forms("send", "1", form_type)
        (again,) = steps(f"{self._clock.passed + float(seconds)} client {form_type} {seconds}")
        insort(self._coming, again, key=attrgetter("second"))

    def limit(self, kind: str, *reply: str) -> None:
        self._server.replies = Limited(self._clock, kind, " ".join(reply))

    def check(self, verdict: str) -> None:
        """Of the mail server."""
        self._clock.passed += 0.125
        self._redelivery.server_checked(verdict == "passes")

    def server(self, *words: str) -> None:
        """It is up or down, answers a stage so, or all of them well."""
        match words:
            case ("up",):
                self._up.enter_context(self._server)
            case ("down",):
                self._up.close()
            case ("well",):
                self._server.replies = {}
            case _:
                stage, _, reply = " ".join(words).partition(": ")
                stages = {"MAIL", "RCPT", FULL, "message", f"message to {SLOW}", "DATA", "connect"}
                assert stage in stages, "no stage: it would change nothing"
                self._server.replies = {stage: Act.DROP if reply == "DROP" else reply}

    def clock(self, _ahead: str, seconds: str) -> None:
        self._clock.wall = float(seconds)

    def another(self, *_process_sends_the_oldest: str) -> None:
        claim = Spool(self._mail_dir).claim(kept(self._mail_dir)[0])
        assert self._up.enter_context(claim)

    def disk(self, *_keeps_everything: str) -> None:
        """Nothing in MAIL_DIR can be renamed or removed. Root would be allowed to."""
        self._patch.setattr(os, "access", lambda *_: False)

    def oldest(self, _is: str, *how: str) -> None:
        """Cut off, as a copy on a full disk is, or whole again."""
        path = self._mail_dir / kept(self._mail_dir)[0].path
        path.write_bytes(path.read_bytes().rstrip() + b"\n" * (how == ("whole",)))

    def end(self) -> None:
        self._redelivery.loop.stop()
        self._coming.clear()


def keep_due(mail_dir: Path, *local_parts: str) -> None:
    """Puts messages into MAIL_DIR whose turn has come, the oldest first."""
    for number, local_part in enumerate(local_parts):
        keep(mail_dir, numbered(local_part), age=200 - number)


Play = Callable[[str], World]


@pytest.fixture
def play(make_mailer: MakeMailer, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays a timeline."""
    Spool(mail_dir).create()

    def play(timeline: str) -> World:
        server = SmtpServer()
        mailer = make_mailer(server, SALES_EMAIL_DEMO=FULL, SALES_EMAIL_ONBOARDING=SLOW)
        world = World(mailer, mail_dir, clock, server, monkeypatch)
        world.play(timeline)
        return world

    return play


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS)
def test_day(play: Play, mail_dir: Path, day: str) -> None:
    went = play(day).went

    left = [f"{it.local_part} {it.state} after {it.attempts} ({it.last_code})" for it in kept(mail_dir)]
    *_, end = steps(day)
    assert end.outcome, "the last step says what is left"
    went[went.index(end.text)] = end.as_it_went(", ".join(left).replace(" ()", "") or "nothing left")
    assert_went(day.split("; "), went)


@pytest.mark.parametrize(
    "situation",
    [
        *(pytest.param(each, id=name) for name, each in SITUATIONS.items()),
        *(pytest.param(each, id=f"(c) {name}, 3,000", marks=pytest.mark.nightly) for name, each in NIGHTS.items()),
    ],
)
def test_no_message_starves_in_the_rounds(play: Play, mail_dir: Path, situation: Situation) -> None:
    world = play(situation.timeline)

    found = Counter[str](f"{it.form_type} {it.state}" for it in kept(mail_dir))
    found["% refused"] = math.ceil(100 * world.forms_refused / max(1, world.forms_sent))
    most = {what: situation.most.get(what, 0) for what in found}
    assert [f"{found[what]} {what}, not {most[what]} at most" for what in found if found[what] > most[what]] == []


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
    keep_due(mail_dir, "m0", "m1")
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
