"""The attempts that the service makes by itself: when, in which states, and by whom. No second of its days passes."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import pytest

from app.mail import redelivery as module
from app.mail.kept import State
from app.mail.mailer import DeliveryError
from app.mail.message import Message
from app.mail.redelivery import GAP, Redelivery
from app.mail.smtp import Receipt
from app.mail.spool import Spool
from tests.mail.conftest import NAMES, MakeMailer, arrived, keep, keep_in_state, kept, letter
from tests.mail.server import Act, SmtpServer
from tests.mail.service import DAY, Clock, Serve, Service

MINUTE, HOUR = 60, 3600
LATER = "server RCPT: 450 4.2.0 later"

PAUSES = [0, 60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, *range(29_760, 5 * DAY + 4 * HOUR, 4 * HOUR)]
"""The times of a message that is deferred for five days."""

UNFIT = "1" * 185
"""The local part of a message in whose file's name there is no room for another attempt."""


class Day(NamedTuple):
    events: str
    """What happens in which second."""
    tried: str = ""
    """The attempts as ``ID@SECOND``, with a ``!`` when they failed."""
    left: str = ""


DAYS = {
    "the oldest first, a second apart": Day("0 down; 0 form 0 1 2; 1 up; 75 end", "0@0! 1@0! 2@0! 0@60 1@61 2@62"),
    "a second passes from one round to the next": Day("0 due 12; 13 end", " ".join(f"{n}@{n}" for n in range(12))),
    "pauses as long as the message has waited, and after five days it is given up": Day(
        f"0 rounds 60; 0 {LATER}; 0 form 1; 960 rounds 240; {5 * DAY + 5 * HOUR} end",
        " ".join(f"1@{at}!" for at in PAUSES),
        f"1 given up {len(PAUSES)} 450",
    ),
    # clocks
    "a clock that was wrong at boot gives nothing up": Day(
        f"0 down; 0 wall {-36 * 365 * DAY}; 0 form 0 1; 5 wall 0; 1800 up; 1800 passes; 1810 end",
        "0@0! 1@0! 0@10! 1@20! 0@1800 1@1801",
    ),
    "one set back keeps nothing waiting": Day(f"0 down; 0 wall {DAY}; 0 form 1; 0 wall 0; 0 up; 15 end", "1@0! 1@0"),
    "one set back after a return makes nothing due all the time": Day(
        f"0 server RCPT: 452 full; 0 wall {DAY}; 0 passes; 1 wall 0; 1 keep 1 waiting; 60 end",
        "1@10!",
        "1 waiting 2 452",
    ),
    # returns of the mail server
    "a return makes all due that waits": Day(
        f"0 {LATER}; 0 form 1 2; 0 fails; 0 passes; 15 end", "1@0! 2@0! 1@0! 2@10!", "1 waiting 2 450; 2 waiting 2 450"
    ),
    "but not what only the operator can end": Day(
        f"0 keep 1 in doubt; 0 keep 2 refused; 0 keep 3 given up; 0 passes; {HOUR} end",
        left="3 given up 35 451; 1 in doubt 1; 2 refused 1 550",
    ),
    "the first check that passes is a return": Day("0 keep 1 waiting; 0 passes; 1 end", "1@0"),
    "one that passes again and again is none": Day(
        f"0 {LATER}; 0 passes; 0 form 1; 15 passes; 30 passes; 45 passes; 55 end", "1@0!", "1 waiting 1 450"
    ),
    "a return in the pause after a round begins the next one": Day(
        "0 server connect: 554 no service; 0 keep 1 waiting; 0 keep 2 new; 1 server; 1 passes; 3 end", "1@0! 1@1 2@2"
    ),
    "no round while the check fails": Day("0 due 3; 0 passes; 1.5 fails; 3600 end", "0@0 1@1", "2 waiting 0"),
    # what others send
    "what somebody else sends costs no gap": Day("0 due 3; 0 hold 0 1; 5 end", "2@0", "0 waiting 0; 1 waiting 0"),
    "what a form sends is left to it, until its process dies": Day(
        "0 keep 1 new; 0 hold 1; 75 release; 90 end", "1@80"
    ),
    "live forms go first": Day("0 due 1; 0 queue 1; 60 queue 0; 75 end", "0@60"),
    "a form in its first attempt keeps no gap long": Day(
        f"0 due 3; 0 {LATER}; 300 remove; 300 server; 300 keep 3 new; 300 hold 3; 310 due 3; 325 end",
        "0@0! 1@10! 2@20! 0@200! 1@220! 2@252! 0@310 1@311 2@312",
        "3 waiting 0",
    ),
    # failures
    "two failures hold up the others for two rounds": Day(
        "0 due 4; 0 server message: DROP; 0 passes; 11 server; 30 end",
        "0@0! 1@10! 2@20 3@21",
        "0 in doubt 1; 1 in doubt 1",
    ),
    "a failure that is no 4xx leaves the gap as it is": Day(
        "0 due 6; 0 server MAIL: DROP; 25 server; 34 end",
        "0@0! 1@10! 2@20! 3@30 4@31 5@32",
        "; ".join(f"{n} waiting 1 SMTPServerDisconnected" for n in range(3)),
    ),
    "a message that cannot be renamed is not sent and stands in no other's way": Day(
        f"0 keep {UNFIT} waiting; 0 keep 2 waiting; 60 end", f"{UNFIT}@0! 2@1", f"{UNFIT} waiting 1 451"
    ),
    "from a disk that keeps what was delivered nothing is sent": Day("0 forbid; 0 due 1; 60 end", left="0 waiting 0"),
    "a folder of unfinished messages that cannot be read holds up none": Day("0 due 2; 0 spoil; 5 end", "0@0 1@1"),
    "a MAIL_DIR that is missing for a round": Day("10 lose; 20 due 3; 30 leads; 30 end", "0@20 1@21 2@22"),
    **{
        f"the others of the round wait after {reply}": Day(
            f"0 due 4; 0 server {stage}: {reply}; 0 passes; 21 end",
            "0@0! 1@10! 2@20!",
            f"0 {left}; 1 {left}; 2 {left}; 3 waiting 0",
        )
        for stage, reply, left in (
            ("MAIL", "452 4.3.1 full", "waiting 1 452"),
            ("RCPT", "450 4.2.0 later", "waiting 1 450"),
            ("MAIL", "421 4.7.0 too many", "waiting 1 421"),
            ("connect", "554 5.3.2 no service", "waiting 1 554"),
            ("MAIL", "DROP", "waiting 1 SMTPServerDisconnected"),
            ("message", "DROP", "in doubt 1"),
        )
    },
    **{
        f"but not after {reply}": Day(
            f"0 due 3; 0 server {stage}: {reply}; 5 end", "0@0! 1@1! 2@2!", f"0 {left}; 1 {left}; 2 {left}"
        )
        for stage, reply, left in (
            ("MAIL", "550 5.7.1 no", "refused 1 550"),
            ("RCPT", "550 5.1.1 no", "refused 1 550"),
            ("message", "554 5.6.0 no", "refused 1 554"),
        )
    },
}


@pytest.fixture(autouse=True)
def _usual_gap(_kept_messages_are_handed_over_without_pauses: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GAP", GAP)


def keep_due(mail_dir: Path, messages: int) -> None:
    """Puts messages into MAIL_DIR whose turn has come."""
    for number in range(messages):
        keep(mail_dir, letter(number), age=200 - number)


class Story:
    """A service and all that can happen to it, with a mail server that is up at first."""

    def __init__(
        self, service: Service, server: SmtpServer, mail_dir: Path, clock: Clock, patch: pytest.MonkeyPatch
    ) -> None:
        self._service, self._server, self._mail_dir, self._clock = service, server, mail_dir, clock
        self._patch = patch
        self._held, self._up = ExitStack(), ExitStack()
        self.tried: list[str] = []
        sender: Any = service.mailer.sender
        self._send = sender.send
        sender.send = self._note_and_send

    def play(self, events: str) -> None:
        with self._held, self._up:  # a story that fails leaves no server behind
            self.up()
            for event in events.split("; "):
                at, verb, *words = event.split()
                self._service.run(max(0, float(at) - self._clock.passed))
                getattr(self, verb)(*words)

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
        keep_in_state(self._mail_dir, letter(local_part), " ".join(state))

    def form(self, *local_parts: str) -> None:
        for local_part in local_parts:
            with suppress(DeliveryError):
                self._service.mailer.deliver(letter(local_part))

    def passes(self) -> None:
        self._service.check(passes=True)

    def fails(self) -> None:
        self._service.check(passes=False)

    def server(self, stage: str = "", *reply: str) -> None:
        does: str | Act = Act.DROP if reply == ("DROP",) else " ".join(reply)
        self._server.replies = {stage.rstrip(":"): does} if stage else {}

    def up(self) -> None:
        self._up.enter_context(self._server)

    def down(self) -> None:
        self._up.close()

    def wall(self, seconds: str) -> None:
        self._clock.wall = float(seconds)

    def hold(self, *local_parts: str) -> None:
        for message in kept(self._mail_dir):
            if message.local_part in local_parts:
                self._held.enter_context(Spool(self._mail_dir).claim(message))

    def release(self) -> None:
        self._held.close()

    def remove(self) -> None:
        for message in kept(self._mail_dir):
            (self._mail_dir / message.path).unlink()

    def forbid(self) -> None:
        """Nothing in MAIL_DIR can be renamed or removed. Root would be allowed to."""
        self._patch.setattr(os, "access", lambda *_: False)

    def spoil(self) -> None:
        """The folder tmp/ cannot be read. Root could read one without any rights."""
        (self._mail_dir / "tmp").rmdir()
        (self._mail_dir / "tmp").touch()

    def lose(self) -> None:
        self._mail_dir.rename(self._mail_dir.with_name("lost"))

    def leads(self) -> None:
        """No other process can make rounds."""
        assert not Spool(self._mail_dir).leads(willing=True)

    def counted(self, messages: str) -> None:
        assert self._service.redelivery.census.counts.total() == int(messages)

    def queue(self, forms: str) -> None:
        self._service.mailer.bulkhead.waiting = int(forms)

    def end(self) -> None:
        """The story goes on until then."""


Play = Callable[[str], tuple[str, str]]


@pytest.fixture
def play(make_mailer: MakeMailer, serve: Serve, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays a story and returns the attempts and what is left."""
    Spool(mail_dir).prepare()

    def play(events: str) -> tuple[str, str]:
        server = SmtpServer()
        story = Story(serve(make_mailer(server)), server, mail_dir, clock, monkeypatch)
        story.play(events)
        left = (f"{it.local_part} {it.state} {it.tries} {it.last_code}".strip() for it in kept(mail_dir))
        return " ".join(story.tried), "; ".join(left)

    return play


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS)
def test_day(play: Play, day: Day, caplog: pytest.LogCaptureFixture) -> None:
    assert play(day.events) == (day.tried, day.left)
    assert ("redelivery failed" in caplog.text) == ("spoil" in day.events)


def test_a_relay_that_comes_and_goes_for_an_hour_and_is_away_for_six_days_ends_nothing(play: Play) -> None:
    returns = "; ".join(f"{50 * n} fails; {50 * n + 25} passes" for n in range(72))

    away = f"3600 server; 3600 fails; 3600 rounds 3600; {6 * DAY} passes; {6 * DAY + 1} end"
    tried, left = play(f"0 server RCPT: 421 closing; 0 form 1; {returns}; {away}")

    *before, last = tried.split()
    assert 40 < len(before) <= 1 + 72  # the gap lets some returns pass
    assert (last, left) == (f"1@{6 * DAY}", "")


@pytest.mark.parametrize("reply", ["RCPT: 450 4.2.0 later", "connect: 421 4.3.2 busy"])
def test_the_gap_doubles_after_each_4xx_to_a_minute_until_nothing_is_waiting(play: Play, reply: str) -> None:
    tried, _ = play(f"0 due 20; 0 server {reply}; 900 server; 900 passes; 3000 due 6; 3020 end")

    at = [int(attempt.rstrip("!").partition("@")[2]) for attempt in tried.split()]
    assert at[:19] == [0, 10, 20, 30, 46, *range(78, 900, MINUTE)]
    assert [later - earlier for earlier, later in pairwise(at[19:39])] == [MINUTE] * 19
    assert at[39:] == [3000 + n for n in range(6)]


class Busy(SmtpServer):
    """A relay that takes so many messages in any minute and answers 450 to RCPT beyond that."""

    def __init__(self, most: int) -> None:
        super().__init__(on_message=lambda: self._times.append(time.monotonic()))
        self._most = most
        self._times: deque[float] = deque()

    def reply_to(self, stage: str) -> str | Act | None:
        while self._times and self._times[0] <= time.monotonic() - MINUTE:
            self._times.popleft()
        return "450 4.7.1 too many" if stage == "RCPT" and len(self._times) >= self._most else None


@pytest.mark.parametrize(
    ("messages", "minutes"), [(45, 15), pytest.param(3000, 3 * 60, marks=pytest.mark.nightly)], ids=["45", "3000"]
)
def test_live_forms_keep_half_of_a_relay_that_takes_30_a_minute(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, messages: int, minutes: int
) -> None:
    for number in range(messages):
        keep(mail_dir, letter(number), age=messages + 100 - number)
    answers: Counter[bool] = Counter()

    def send() -> None:
        number = answers.total()
        try:
            service.mailer.deliver(letter(f"live{number}"))
        except DeliveryError:
            answers[False] += 1
        else:
            answers[True] += 1

    with Busy(30) as server:
        service = serve(make_mailer(server))
        service.check(passes=True)
        service.run(minutes * MINUTE, meanwhile=send, every=4)

    sent = [message for message in arrived(server) if "live" not in message]
    assert answers[False] <= 10  # those from which the service learned of the limit
    assert min(messages, 3 * minutes) <= len(sent) == len(set(sent))


class OfThreeConnections(SmtpServer):
    """A relay that takes messages over three connections at a time, as Office 365 does."""

    def __init__(self) -> None:
        self.has_refused = Event()
        super().__init__(on_message=self._keep_the_connection)

    def reply_to(self, stage: str) -> str | Act | None:
        if stage != "MAIL" or self.connected() <= 3:
            return None
        self.has_refused.set()
        return "432 4.3.2 concurrent connections limit exceeded"

    def _keep_the_connection(self) -> None:
        assert self.has_refused.wait(30)


def test_of_20_live_forms_at_once_each_has_arrived_within_five_minutes_over_three_connections(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path
) -> None:
    def send(number: int) -> None:
        with suppress(DeliveryError):
            service.mailer.deliver(letter(number))

    with OfThreeConnections() as server, ThreadPoolExecutor(20) as pool:
        service = serve(make_mailer(server))
        service.check(passes=True)
        list(pool.map(send, range(20)))
        refused = len(kept(mail_dir))
        service.run(5 * MINUTE)

    assert refused > 0
    assert kept(mail_dir) == []
    assert sorted(arrived(server)) == sorted(letter(number).message_id for number in range(20))


@pytest.mark.parametrize(
    ("form_type", "recipient"), [("demo", "a@example.com"), ("ventas", "b@example.com"), ("", "b@example.com")]
)
def test_what_waits_goes_whole_to_whom_the_settings_name_for_its_kind_by_now(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, form_type: str, recipient: str
) -> None:
    large = letter(1).content + b"0123456789\r\n" * 50_000
    keep(mail_dir, Message("<1@example.com>", large), f",tries=1,last=1700000000.000,waiting=451.{form_type}", age=100)

    with SmtpServer() as server:
        serve(make_mailer(server, SALES_EMAIL="b@example.com", SALES_EMAIL_DEMO="a@example.com")).run(MINUTE)

    assert [(arrival.recipients, arrival.content) for arrival in server.arrivals] == [([recipient], large)]


def test_two_processes_make_no_more_attempts_than_one(make_mailer: MakeMailer, serve: Serve, mail_dir: Path) -> None:
    keep_due(mail_dir, 6)
    with SmtpServer({"RCPT": "450 4.2.0 later"}) as server:
        services = [serve(make_mailer(server)) for _ in range(2)]
        for service in services * 21:
            service.check(passes=True)
            service.run(0.49)

    assert [message.tries for message in kept(mail_dir)] == [1] * 3 + [0] * 3


def test_another_process_goes_on_when_the_check_of_the_first_one_fails(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path
) -> None:
    with SmtpServer() as server:
        first, second = (serve(make_mailer(server)) for _ in range(2))
        first.run(1)
        second.run(1)
        first.check(passes=False)
        keep_due(mail_dir, 6)
        first.run(10)
        assert server.arrivals == []
        second.run(16)

    assert len(server.arrivals) == 6


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_message_that_cannot_be_opened_stands_in_no_other_s_way_and_is_tried_a_quarter_of_an_hour_later(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, clock: Clock, number: int
) -> None:
    open_file = os.open

    def refuse(path: str, *arguments: int) -> int:
        if clock.passed < 600 and ".0,tries=0" in path and path.endswith(".demo"):
            raise OSError(number, os.strerror(number), path)
        return open_file(path, *arguments)

    monkeypatch.setattr(os, "open", refuse)

    assert play("0 due 2; 1200 end") == ("1@0 0@910", "")
    assert caplog.text.count("was not delivered") == 1


def test_a_large_store_is_scanned_less_often(
    make_mailer: MakeMailer, serve: Serve, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan, times = Spool.kept, []

    def scan_slowly(spool: Spool) -> object:
        times.append(round(clock.passed))
        clock.passed += 2
        return scan(spool)

    monkeypatch.setattr(Spool, "kept", scan_slowly)
    serve(make_mailer()).run(1000)

    assert times == [0, 400, 800]


def test_what_nobody_finished_is_removed_and_the_log_says_how_much(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    service, path = serve(make_mailer()), mail_dir / keep(mail_dir, letter(1)).path
    left, was_there = path.rename(mail_dir / "tmp" / path.name), []
    for hours in (35, 3):
        clock.passed += hours * HOUR
        service.run(20)
        was_there.append(left.exists())

    assert was_there == [True, False]
    assert "1 abandoned temporary files are removed" in caplog.text


def test_each_state_is_counted_and_the_oldest_known(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, absent_server: SmtpServer
) -> None:
    messages = {state: keep_in_state(mail_dir, letter(number), state) for number, state in enumerate(NAMES)}
    service = serve(make_mailer(absent_server))
    service.run(0.1)

    census = service.redelivery.census
    assert census.counts == {State.WAITING: 2, State.IN_DOUBT: 2, State.REFUSED: 1, State.GIVEN_UP: 1}
    assert census.oldest[State.WAITING] == messages["waiting"].stored_at


COUNTS = {
    "while they leave": "0 due 30; 1 counted 30; 12 counted 20; 12 end",
    "while a long gap passes": f"0 due 30; 0 {LATER}; 600 counted 30; 600 keep new new; 611 counted 31; 611 end",
}


@pytest.mark.parametrize("events", COUNTS.values(), ids=COUNTS)
def test_messages_are_counted_anew(play: Play, events: str) -> None:
    play(events)


def test_what_is_being_sent_is_not_in_doubt_yet(make_mailer: MakeMailer, serve: Serve, message: Message) -> None:
    counts: list[dict[State, int]] = []

    def count() -> None:
        service.redelivery.work()
        counts.append(dict(service.redelivery.census.counts))

    with SmtpServer(on_message=count) as server:
        service = serve(make_mailer(server))
        service.mailer.deliver(message)

    assert counts == [{State.WAITING: 1}]


def test_without_a_server_nothing_is_tried(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
) -> None:
    service = serve(make_mailer())
    service.mailer.deliver(message)
    service.run(HOUR)

    assert [message.tries for message in kept(mail_dir)] == [0]


def test_a_fault_ends_nothing_and_is_named_without_its_words(
    make_mailer: MakeMailer, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Spool) -> None:
        raise PermissionError("maria@example.com")

    monkeypatch.setattr(Spool, "kept", fail)
    serve(make_mailer()).run(2.5 * module.INTERVAL)

    assert caplog.messages == ["redelivery failed: PermissionError"] * 3


def test_the_thread_works_by_itself_and_at_once_when_the_server_is_back(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    taken = Event()
    server = SmtpServer(on_message=taken.set)
    mailer = make_mailer(server)
    with pytest.raises(DeliveryError):
        mailer.deliver(message)
    redelivery = Redelivery(mailer, Spool(mail_dir), patience=10)
    redelivery.loop.start()
    assert redelivery.loop.first_done.wait(30)
    counted = redelivery.census.counts.total()

    with server:
        redelivery.server_checked(True)
        assert taken.wait(30)
        redelivery.loop.stop()

    assert (counted, kept(mail_dir)) == (1, [])


def test_a_stop_waits_for_the_attempt_that_is_being_made_and_begins_no_other(
    make_mailer: MakeMailer, mail_dir: Path
) -> None:
    keep_due(mail_dir, 2)
    taken = Event()

    def tell_to_stop() -> None:
        redelivery.loop.wind_down()
        taken.set()
        time.sleep(0.1)  # for a stop that does not wait to be noticed

    with SmtpServer(on_message=tell_to_stop) as server:
        redelivery = Redelivery(make_mailer(server), Spool(mail_dir), patience=10)
        redelivery.loop.start()
        assert taken.wait(30)
        redelivery.loop.stop()
        left = [message.local_part for message in kept(mail_dir)]

    assert (arrived(server), left) == (["<0@example.com>"], ["1"])
