"""The attempts that the service makes by itself: when, in which states, and by whom."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from typing import NamedTuple
from unittest.mock import Mock

import pytest

from app.mail import redelivery as module
from app.mail.kept import State
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.redelivery import Redelivery
from app.mail.spool import Entry, Spool
from tests.mail.conftest import MakeMailer, arrived, keep, kept, letter
from tests.mail.server import DROP, HANG, SmtpServer

HOUR = 3600
TWO = "primera@example.com,segunda@example.com"


class Way(NamedTuple):
    """A way in which a hand-over fails: the server's replies, the service's settings, and what is noted."""

    replies: dict[str, str]
    environ: dict[str, str]
    state: State
    answer: str | None


WAYS = {
    "greeting refused": Way({"connect": "554 5.3.2 no service"}, {}, State.WAITING, "554"),
    "client refused": Way({"EHLO": "550 5.7.1 no"}, {}, State.WAITING, "550"),
    "credentials refused": Way({}, {"SMTP_USERNAME": "web", "SMTP_PASSWORD": "wrong"}, State.WAITING, "535"),
    "no STARTTLS": Way({}, {"SMTP_SECURITY": "starttls"}, State.WAITING, "SMTPNotSupportedError"),
    "no answer": Way({"EHLO": HANG}, {"SMTP_TIMEOUT": "0.3"}, State.WAITING, "TimeoutError"),
    "connection closed": Way({"RCPT": "421 4.3.2 busy"}, {}, State.WAITING, "421"),
    "connection dropped": Way({"MAIL": DROP}, {}, State.WAITING, "SMTPServerDisconnected"),
    "sender deferred": Way({"MAIL": "452 4.3.1 full"}, {}, State.WAITING, "452"),
    "sender refused": Way({"MAIL": "550 5.7.1 no"}, {}, State.REFUSED, "550"),
    "recipient deferred": Way({"RCPT": "450 4.2.0 later"}, {}, State.WAITING, "450"),
    "recipients refused": Way({"RCPT": "550 5.1.1 no"}, {"SALES_EMAIL": TWO}, State.REFUSED, "550"),
    "one recipient refused, one deferred": Way(
        {"primera@example.com": "550 5.1.1 no", "segunda@example.com": "450 4.2.0 later"},
        {"SALES_EMAIL": TWO},
        State.WAITING,
        "450",
    ),
    "no code of SMTP": Way({"MAIL": "999 what"}, {}, State.WAITING, "999"),
    "no code at all": Way({"RCPT": "what"}, {}, State.WAITING, "SMTPRecipientsRefused"),
    "one recipient refused, no code for one": Way(
        {"primera@example.com": "550 5.1.1 no", "segunda@example.com": "what"},
        {"SALES_EMAIL": TWO},
        State.WAITING,
        "SMTPRecipientsRefused",
    ),
    "a recipient named twice, deferred": Way(
        {"RCPT": "450 4.2.0 later"},
        {"SALES_EMAIL": "Ana <ventas@example.com>, ventas@example.com"},
        State.WAITING,
        "450",
    ),
    "data deferred": Way({"DATA": "451 4.3.0 later"}, {}, State.WAITING, "451"),
    "data refused": Way({"DATA": "554 5.5.1 no"}, {}, State.REFUSED, "554"),
    "content deferred": Way({"message": "451 4.3.0 later"}, {}, State.WAITING, "451"),
    "content refused": Way({"message": "554 5.6.0 no"}, {}, State.REFUSED, "554"),
    "outcome unknown": Way({"message": DROP}, {}, State.IN_DOUBT, None),
    "outcome unknown, no answer": Way({"message": HANG}, {"SMTP_TIMEOUT": "3"}, State.IN_DOUBT, None),
}


class Clock:
    """The wall clock, which a test puts forward. The time of a hand-over is measured by another one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        now, now_ns = time.time, time.time_ns
        patch.setattr(time, "time", lambda: now() + self.passed)
        patch.setattr(time, "time_ns", lambda: now_ns() + int(self.passed * 1e9))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    with monkeypatch.context() as patch:
        yield Clock(patch)


class Counted:
    """A mailer's hand-overs of kept messages, counted."""

    def __init__(self, mailer: Mailer, patch: pytest.MonkeyPatch) -> None:
        assert mailer.redeliver is not None
        self._redeliver = mailer.redeliver
        self.number = 0
        patch.setattr(mailer, "redeliver", self)

    def __call__(self, *args: object) -> None:
        self.number += 1
        self._redeliver(*args)  # type: ignore[arg-type]


@pytest.fixture
def look_after(mail_dir: Path) -> Callable[[Mailer], Redelivery]:
    return lambda mailer: Redelivery(mailer, Spool(mail_dir), sending_seconds=10)


LookAfter = Callable[[Mailer], Redelivery]


def fail_to_deliver(mailer: Mailer, *messages: Message) -> None:
    for message in messages:
        with pytest.raises(DeliveryError):
            mailer.deliver(message)


def facts(mail_dir: Path) -> list[tuple[State, int, str | None]]:
    return [(found.name.state, found.name.attempts, found.name.answer) for found in kept(mail_dir)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_way_of_failing_has_its_state_and_only_what_waits_is_tried_again(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    mail_dir: Path,
    message: Message,
    clock: Clock,
    way: Way,
) -> None:
    with SmtpServer(replies=way.replies) as server:
        mailer = make_mailer(server, **way.environ)
        fail_to_deliver(mailer, message)
        first = facts(mail_dir)
        clock.passed = 59
        look_after(mailer).look()
        early = facts(mail_dir)
        clock.passed = 62
        look_after(mailer).look()

    assert first == early == [(way.state, 1, way.answer)]
    assert facts(mail_dir) == [(way.state, 2 if way.state is State.WAITING else 1, way.answer)]


def test_a_server_that_is_down_is_tried_for_five_days_and_no_longer(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, message: Message, clock: Clock
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
    fail_to_deliver(mailer, message)
    redelivery = look_after(mailer)

    attempts = []
    for hour in range(24 * 7):
        clock.passed = hour * (HOUR + 1)  # the time of an attempt is rounded to milliseconds
        redelivery.look()
        attempts.append(kept(mail_dir)[0].name.attempts)

    # Of the first hour's attempts each look makes one.
    assert attempts[:12] == [1, 2, 3, 4, 5, 6, 6, 6, 6, 7, 7, 7]
    assert facts(mail_dir) == [(State.GIVEN_UP, 34, "ConnectionRefusedError")]
    with server:
        clock.passed += 5 * HOUR
        redelivery.server_is_there(after_outage=True)
        redelivery.look()
    assert server.arrivals == []


def test_what_waits_is_delivered_in_its_turn_under_the_same_message_id(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, clock: Clock
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
    fail_to_deliver(mailer, letter(1), letter(2))
    clock.passed = 62

    with server:
        look_after(mailer).look()

    assert arrived(server) == ["<1@example.com>", "<2@example.com>"]
    assert [arrival.content.splitlines() for arrival in server.arrivals] == [
        letter(number).content.splitlines() for number in (1, 2)
    ]
    assert kept(mail_dir) == []


def test_once_the_server_is_back_all_is_tried_at_once_and_then_in_its_turn(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, message: Message, clock: Clock
) -> None:
    with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
        mailer = make_mailer(server)
        fail_to_deliver(mailer, message)
        redelivery = look_after(mailer)
        clock.passed = 5
        redelivery.server_is_there(after_outage=True)
        redelivery.look()
        redelivery.look()

    assert facts(mail_dir) == [(State.WAITING, 2, "450")]


@pytest.mark.parametrize(
    ("environ", "replies", "arrives"),
    [
        pytest.param({"SMTP_USERNAME": "web", "SMTP_PASSWORD": "wrong"}, {}, True, id="the login was refused"),
        pytest.param({}, {"connect": "554 5.3.2 no service"}, True, id="the connection was refused"),
        pytest.param({}, {"RCPT": "421 4.3.2 busy"}, True, id="the connection was closed"),
        pytest.param({}, {"RCPT": "450 4.2.0 later"}, False, id="the message was put off"),
    ],
)
def test_after_a_restart_what_waits_because_of_the_server_is_tried_at_once_and_the_rest_in_its_turn(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    mail_dir: Path,
    message: Message,
    environ: dict[str, str],
    replies: dict[str, str],
    *,
    arrives: bool,
) -> None:
    with SmtpServer(replies=replies) as server:
        fail_to_deliver(make_mailer(server, **environ), message)
        server.replies.clear()
        redelivery = look_after(make_mailer(server))
        redelivery.server_is_there(after_outage=False)
        redelivery.look()
        redelivery.look()

    assert len(server.arrivals) == arrives
    assert len(kept(mail_dir)) == (not arrives)


def test_a_server_that_comes_back_during_an_attempt_is_tried_at_once(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
    fail_to_deliver(mailer, *map(letter, range(3)))
    redeliver = mailer.redeliver
    assert redeliver is not None

    def fail_and_come_back(message: Message, entry: Entry) -> object:
        clock.passed += 5
        redelivery.server_is_there(after_outage=True)
        return redeliver(message, entry)

    monkeypatch.setattr(mailer, "redeliver", fail_and_come_back)
    redelivery = look_after(mailer)
    clock.passed = 62
    redelivery.look()
    attempts = [attempts for _, attempts, _ in facts(mail_dir)]

    with server:
        redelivery.look()

    assert attempts == [2, 1, 1]
    assert kept(mail_dir) == []


def test_a_server_that_comes_back_while_attempts_are_noted_leaves_the_others_due(
    make_mailer: MakeMailer, look_after: LookAfter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
    fail_to_deliver(mailer, *map(letter, range(4)))
    redelivery = look_after(mailer)
    note, noted = Entry.note, []

    def note_and_come_back(entry: Entry, answer: str, *, refused: bool) -> None:
        note(entry, answer, refused=refused)
        noted.append(answer)
        if len(noted) == 2:
            clock.passed += 1
            redelivery.server_is_there(after_outage=True)
            clock.passed += 1

    monkeypatch.setattr(Entry, "note", note_and_come_back)
    clock.passed = 62
    redelivery.look()

    with server:
        redelivery.look()

    assert sorted(arrived(server)) == [letter(number).message_id for number in range(4)]


def test_a_clock_that_is_set_back_after_the_server_came_back_makes_nothing_due_for_ever(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, message: Message, clock: Clock
) -> None:
    with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
        mailer = make_mailer(server)
        redelivery = look_after(mailer)
        clock.passed = 365 * 24 * HOUR
        redelivery.server_is_there(after_outage=True)
        clock.passed = 0
        fail_to_deliver(mailer, message)
        for _ in range(3):
            redelivery.look()

    assert facts(mail_dir) == [(State.WAITING, 1, "450")]


def test_a_server_that_is_down_is_asked_once_for_all_that_is_due(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
    fail_to_deliver(mailer, *map(letter, range(3)))
    counted = Counted(mailer, monkeypatch)
    clock.passed = 62

    look_after(mailer).look()

    assert counted.number == 1
    assert facts(mail_dir) == [(State.WAITING, 2, "ConnectionRefusedError")] * 3


def test_a_server_that_goes_in_the_middle_is_tried_again_soon(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, undelivered: Callable[..., None], clock: Clock
) -> None:
    undelivered(*map(letter, range(4)))
    clock.passed = 62

    def go() -> None:
        server.replies = {"MAIL": "421 4.7.0 too many messages"}

    with SmtpServer(on_message=go) as server:
        redelivery = look_after(make_mailer(server))
        redelivery.look()
        attempts = [attempts for _, attempts, _ in facts(mail_dir)]
        server.on_message, server.replies = (lambda: None), {}
        redelivery.look()

    assert attempts == [1, 0, 0]
    assert [found.message_id for found in kept(mail_dir)] == ["<1@example.com>"]


@pytest.mark.parametrize("replies", [{"MAIL": "452 4.3.1 full"}, {"message": "451 4.3.0 later"}])
def test_each_message_is_offered_to_a_server_that_answers(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    mail_dir: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    replies: dict[str, str],
) -> None:
    with SmtpServer(replies=replies) as server:
        mailer = make_mailer(server)
        fail_to_deliver(mailer, *map(letter, range(3)))
        counted = Counted(mailer, monkeypatch)
        clock.passed = 62
        look_after(mailer).look()

    assert counted.number == 3
    assert [attempts for _, attempts, _ in facts(mail_dir)] == [2, 2, 2]


def test_a_server_that_falls_silent_after_the_content_brings_one_message_into_doubt_and_not_all(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, clock: Clock
) -> None:
    with SmtpServer(replies={"MAIL": "451 4.3.0 later"}) as server:
        mailer = make_mailer(server)
        fail_to_deliver(mailer, *map(letter, range(3)))
        server.replies = {"message": DROP}
        clock.passed = 62
        look_after(mailer).look()

    assert facts(mail_dir) == [(State.IN_DOUBT, 2, None), *[(State.WAITING, 2, "InDoubtError")] * 2]


def test_what_a_live_form_is_sending_is_left_to_it(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, message: Message, clock: Clock
) -> None:
    entry = Spool(mail_dir).store(message)
    clock.passed = 62

    with SmtpServer() as server:
        look_after(make_mailer(server)).look()
        while_sending = len(server.arrivals)
        entry.release()  # as the kernel does for a process that was killed
        look_after(make_mailer(server)).look()

    assert (while_sending, arrived(server)) == (0, ["<1@example.com>"])


def test_of_all_that_look_after_the_store_one_hands_over_each_message(
    make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, undelivered: Callable[..., None], clock: Clock
) -> None:
    undelivered(*map(letter, range(40)))
    clock.passed = 62

    with SmtpServer() as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: look_after(make_mailer(server)).look(), range(4)))

    assert sorted(arrived(server)) == sorted(letter(number).message_id for number in range(40))
    assert kept(mail_dir) == []


def test_a_file_that_is_no_message_is_opened_once_and_stops_nothing(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    mail_dir: Path,
    undelivered: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undelivered(*map(letter, range(3)))
    folder, cut, _ = sorted((mail_dir / "new").iterdir())
    folder.unlink()
    folder.mkdir()
    os.truncate(cut, 100)
    (mail_dir / "new" / "3.eml").touch()
    clock.passed = 62
    claim = Mock(side_effect=Spool(mail_dir).claim)
    monkeypatch.setattr(Spool, "claim", lambda _, place: claim(place))

    with SmtpServer() as server:
        redelivery = look_after(make_mailer(server))
        redelivery.look()
        redelivery.look()

    assert arrived(server) == ["<2@example.com>"]
    assert claim.call_count == 3
    assert redelivery.census.total == 0


def test_a_message_that_could_not_be_opened_once_is_not_forgotten(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    undelivered: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undelivered(letter(1))
    clock.passed = 62

    with SmtpServer() as server:
        redelivery = look_after(make_mailer(server))
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "claim", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
            redelivery.look()
        redelivery.look()

    assert arrived(server) == ["<1@example.com>"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_messages_that_cannot_be_read_stand_in_no_other_s_way_and_are_read_later(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    undelivered: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    undelivered(*map(letter, range(3)))
    clock.passed = 62
    claim = Spool.claim

    def refuse(spool: Spool, place: str) -> AbstractContextManager[Entry | None]:
        if place.endswith((".0", ".1")):
            raise OSError(number, os.strerror(number))
        return claim(spool, place)

    with SmtpServer() as server:
        redelivery = look_after(make_mailer(server))
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "claim", refuse)
            looks = [redelivery.look() for _ in range(3)]
        first = arrived(server)
        counted = redelivery.census.total
        monotonic = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + HOUR)
        redelivery.look()

    assert looks == [True, False, False]
    assert first == ["<2@example.com>"]
    assert counted == 2
    assert sorted(arrived(server)) == [letter(number).message_id for number in range(3)]


@pytest.mark.parametrize("is_down", [False, True])
def test_a_message_that_cannot_be_renamed_stands_in_no_other_s_way(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    mail_dir: Path,
    clock: Clock,
    *,
    is_down: bool,
) -> None:
    clock.passed = 300
    poison = keep(mail_dir, letter("1" * 232), age=300)  # there is no room for an attempt in the name of its file
    other = letter(2)
    Spool(mail_dir).store(other).release()
    clock.passed += 62

    with SmtpServer() as server:
        redelivery = look_after(make_mailer(server))
        if not is_down:
            redelivery.look()
    if is_down:
        redelivery.look()
    with server:
        redelivery.look()

    assert len(poison.unique) == 254
    assert arrived(server) == [other.message_id]


def test_from_a_disk_that_keeps_what_was_delivered_nothing_is_sent(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    undelivered: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undelivered(letter(1))
    clock.passed = 62
    monkeypatch.setattr(Spool, "is_writable", lambda _: False)

    with SmtpServer() as server:
        look_after(make_mailer(server)).look()

    assert server.arrivals == []


def test_a_message_that_cannot_be_marked_as_in_doubt_is_not_sent(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    mail_dir: Path,
    undelivered: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    undelivered(letter(1))
    clock.passed = 62

    def fail(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with SmtpServer() as server, monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        look_after(make_mailer(server)).look()

    assert server.arrivals == []
    assert facts(mail_dir) == [(State.WAITING, 0, None)]


def test_a_large_store_is_handed_over_in_pieces(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    undelivered: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    undelivered(*map(letter, range(3)))
    clock.passed = 62

    with SmtpServer() as server:
        redelivery = look_after(make_mailer(server))
        looks = [(redelivery.look(), len(server.arrivals)) for _ in range(3)]

    assert looks == [(True, 2), (False, 3), (False, 3)]


def test_messages_are_counted_anew_while_a_slow_server_takes_them(
    make_mailer: MakeMailer,
    look_after: LookAfter,
    undelivered: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0)
    monkeypatch.setattr(module, "SHARE", float("inf"))
    undelivered(*map(letter, range(3)))
    clock.passed = 62

    with SmtpServer() as server:
        redelivery = look_after(make_mailer(server))
        looks = [(redelivery.look(), redelivery.census.total, len(server.arrivals)) for _ in range(3)]

    assert looks == [(True, 3, 1), (True, 2, 2), (False, 1, 3)]


class TestCensus:
    def test_it_counts_each_state_and_knows_the_oldest_that_waits(
        self, make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, clock: Clock
    ) -> None:
        with SmtpServer() as server:
            mailer = make_mailer(server)
            for number, replies in enumerate(
                [{"RCPT": "450 no"}, {"RCPT": "550 no"}, {"message": DROP}, {"DATA": "451"}]
            ):
                server.replies = replies
                fail_to_deliver(mailer, letter(number))
        redelivery = look_after(mailer)
        clock.passed = 30
        redelivery.look()

        assert redelivery.census.counts == {State.WAITING: 2, State.REFUSED: 1, State.IN_DOUBT: 1}
        assert redelivery.census.oldest[State.WAITING] == kept(mail_dir)[0].name.stored_at

    def test_what_is_being_sent_is_not_in_doubt_yet(
        self, make_mailer: MakeMailer, look_after: LookAfter, message: Message
    ) -> None:
        counts = []
        with SmtpServer() as server:
            mailer = make_mailer(server)
            redelivery = look_after(mailer)
            server.on_message = lambda: counts.append((redelivery.look(), dict(redelivery.census.counts)))
            mailer.deliver(message)

        assert counts == [(False, {State.WAITING: 1})]

    def test_without_a_server_all_is_stored_and_nothing_is_tried(
        self, make_mailer: MakeMailer, look_after: LookAfter, mail_dir: Path, message: Message, clock: Clock
    ) -> None:
        mailer = make_mailer()
        mailer.deliver(message)
        redelivery = look_after(mailer)
        clock.passed = 5 * HOUR

        redelivery.look()

        assert redelivery.census.counts == {State.STORED: 1}
        assert facts(mail_dir) == [(State.WAITING, 0, None)]


class TestThread:
    def test_it_looks_by_itself_and_at_once_when_the_server_is_back(
        self,
        make_mailer: MakeMailer,
        look_after: LookAfter,
        mail_dir: Path,
        message: Message,
        clock: Clock,
    ) -> None:
        with SmtpServer() as server:
            mailer = make_mailer(server)
        fail_to_deliver(mailer, message)
        redelivery = look_after(mailer)
        redelivery.start()
        assert redelivery.first_census.wait(30)
        counted = redelivery.census.total
        taken = Event()
        server.on_message = taken.set

        with server:
            clock.passed = 2
            redelivery.server_is_there(after_outage=True)
            assert taken.wait(30)
            redelivery.stop()

        assert counted == 1
        assert kept(mail_dir) == []

    def test_it_goes_on_after_a_fault_and_says_so(
        self,
        make_mailer: MakeMailer,
        look_after: LookAfter,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        again = Event()

        def names(_: Spool) -> Iterator[tuple[str, None]]:
            if "PermissionError" in caplog.text:
                again.set()
            raise PermissionError("maria@example.com")

        monkeypatch.setattr(module, "INTERVAL", 0.01)
        monkeypatch.setattr(Spool, "names", names)
        redelivery = look_after(make_mailer())
        redelivery.start()

        assert again.wait(30)
        redelivery.stop()
        assert "maria" not in caplog.text

    def test_a_stop_waits_for_the_attempt_that_is_being_made_and_begins_no_other(
        self,
        make_mailer: MakeMailer,
        look_after: LookAfter,
        undelivered: Callable[..., None],
        mail_dir: Path,
        clock: Clock,
    ) -> None:
        undelivered(letter(1), letter(2))
        clock.passed = 62
        taken = Event()

        with SmtpServer() as server:
            redelivery = look_after(make_mailer(server))

            def tell_to_stop() -> None:
                redelivery.wind_down()
                taken.set()

            server.on_message = tell_to_stop
            redelivery.start()
            assert taken.wait(30)
            redelivery.stop()

        assert arrived(server) == ["<1@example.com>"]
        assert [found.message_id for found in kept(mail_dir)] == ["<2@example.com>"]
