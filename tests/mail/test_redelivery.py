"""The attempts that the service makes by itself: when, in which states, and by whom."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from app.mail import redelivery as module
from app.mail.kept import State
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.redelivery import GAP, Redelivery
from app.mail.spool import Spool
from tests.mail.conftest import NAMES, MakeMailer, arrived, keep, keep_in_state, kept, letter
from tests.mail.server import Act, Replies, SmtpServer
from tests.mail.service import DAY, Clock, Serve

MINUTE, HOUR = 60, 3600
TWO = "primera@example.com,segunda@example.com"


class Way(NamedTuple):
    """A way in which a hand-over fails: the server's replies, the service's settings, and what is noted."""

    replies: Replies
    environ: dict[str, str]
    state: State
    word: str


WAYS = {
    "greeting refused": Way({"connect": "554 5.3.2 no service"}, {}, State.WAITING, "554"),
    "client refused": Way({"EHLO": "550 5.7.1 no"}, {}, State.WAITING, "550"),
    "credentials refused": Way(
        {"EHLO": "250-mail.example.com\r\n250 AUTH PLAIN", "AUTH": "535 5.7.8 no"},
        {"SMTP_USERNAME": "web", "SMTP_PASSWORD": "wrong"},
        State.WAITING,
        "535",
    ),
    "no STARTTLS": Way({}, {"SMTP_SECURITY": "starttls"}, State.WAITING, "SMTPNotSupportedError"),
    "no answer": Way({"EHLO": Act.HANG}, {"SMTP_TIMEOUT": "0.3"}, State.WAITING, "TimeoutError"),
    "connection closed": Way({"RCPT": "421 4.3.2 busy"}, {}, State.WAITING, "421"),
    "connection dropped": Way({"MAIL": Act.DROP}, {}, State.WAITING, "SMTPServerDisconnected"),
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
    "outcome unknown": Way({"message": Act.DROP}, {}, State.IN_DOUBT, ""),
    "outcome unknown, no answer": Way({"message": Act.HANG}, {"SMTP_TIMEOUT": "3"}, State.IN_DOUBT, ""),
}


@pytest.fixture(autouse=True)
def _usual_gap(_kept_messages_are_handed_over_without_pauses: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GAP", GAP)


def fail_to_deliver(mailer: Mailer, *messages: Message) -> None:
    for message in messages:
        with pytest.raises(DeliveryError):
            mailer.deliver(message)


def keep_due(mail_dir: Path, messages: int) -> None:
    """Puts messages into MAIL_DIR whose turn has come."""
    for number in range(messages):
        keep(mail_dir, letter(number), age=100)


def facts(mail_dir: Path) -> list[tuple[State, int, str]]:
    """State, tries and last word of each message."""
    return [(message.state, message.tries, message.last_code) for message in kept(mail_dir)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_way_of_failing_has_its_state_and_only_what_waits_is_tried_again(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message, way: Way
) -> None:
    with SmtpServer(replies=way.replies) as server:
        service = serve(make_mailer(server, **way.environ))
        fail_to_deliver(service.mailer, message)
        service.run(55)
        early = facts(mail_dir)
        service.run(20)

    assert early == [(way.state, 1, way.word)]
    assert facts(mail_dir) == [(way.state, 2 if way.state is State.WAITING else 1, way.word)]


def test_what_waits_is_delivered_the_oldest_first_under_its_message_id(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path
) -> None:
    with SmtpServer() as server:
        service = serve(make_mailer(server))
    letters = [letter(number) for number in range(3)]
    fail_to_deliver(service.mailer, *letters)

    with server:
        service.run(75)

    assert arrived(server) == [message.message_id for message in letters]
    assert [arrival.content.splitlines() for arrival in server.arrivals] == [
        message.content.splitlines() for message in letters
    ]
    assert kept(mail_dir) == []


@pytest.mark.parametrize(
    ("form_type", "recipient"), [("demo", "a@example.com"), ("ventas", "b@example.com"), ("", "b@example.com")]
)
def test_what_waits_goes_to_whom_the_settings_name_for_its_kind_by_now(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, form_type: str, recipient: str
) -> None:
    keep(mail_dir, letter(1), f",tries=1,last={time.time() - 100:.3f},waiting=451.{form_type}", age=100)

    with SmtpServer() as server:
        serve(make_mailer(server, SALES_EMAIL="b@example.com", SALES_EMAIL_DEMO="a@example.com")).run(MINUTE)

    assert [arrival.recipients for arrival in server.arrivals] == [[recipient]]


def test_a_large_message_is_delivered_whole(make_mailer: MakeMailer, serve: Serve, mail_dir: Path) -> None:
    small = letter(1)
    large = Message(small.message_id, small.content + b"0123456789\r\n" * 50_000)
    keep(mail_dir, large, age=100)

    with SmtpServer() as server:
        serve(make_mailer(server)).run(MINUTE)

    assert [arrival.content for arrival in server.arrivals] == [large.content]


def test_each_pause_is_as_long_as_the_message_has_waited_until_it_is_given_up_after_five_days(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
) -> None:
    with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
        service = serve(make_mailer(server))
        fail_to_deliver(service.mailer, message)
        ages = []
        for _ in range(40):
            (waiting,) = kept(mail_dir)
            ages.append(waiting.last_at - waiting.stored_at)
            if waiting.next_try is None:
                break
            service.run(waiting.next_try - time.time() + 10.1)
        service.run(DAY)

    waits_for_its_round = [later - age - min(max(age, MINUTE), 4 * HOUR) for age, later in pairwise(ages)]
    assert 0 <= min(waits_for_its_round) <= max(waits_for_its_round) <= 10.1
    assert 0 <= ages[-1] - 5 * DAY < 4 * HOUR
    assert facts(mail_dir) == [(State.GIVEN_UP, len(ages), "450")]


def test_a_clock_that_was_wrong_at_boot_gives_nothing_up(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, clock: Clock
) -> None:
    with SmtpServer() as server:
        service = serve(make_mailer(server))
    clock.wall = -36 * 365 * DAY
    fail_to_deliver(service.mailer, *map(letter, range(5)))
    service.run(5)
    clock.wall = 0
    service.run(HOUR)

    states = Counter(state for state, _, _ in facts(mail_dir))
    with server:
        service.check(passes=True)
        service.run(MINUTE)

    assert states == {State.WAITING: 5}
    assert len(server.arrivals) == 5


def test_a_clock_that_is_set_back_keeps_nothing_waiting(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message, clock: Clock
) -> None:
    with SmtpServer() as server:
        service = serve(make_mailer(server))
    clock.wall = 365 * DAY
    fail_to_deliver(service.mailer, message)
    clock.wall = 0

    with server:
        service.run(15)

    assert kept(mail_dir) == []


def test_a_clock_that_is_set_back_after_a_return_makes_nothing_due_all_the_time(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, clock: Clock
) -> None:
    with SmtpServer(replies={"demo@example.com": "452 4.2.2 mailbox full"}) as server:
        service = serve(make_mailer(server, SALES_EMAIL_DEMO="demo@example.com"))
        clock.wall = DAY
        service.check(passes=True)
        service.run(1)
        clock.wall = 0
        keep(mail_dir, letter(1), age=200)
        keep(mail_dir, letter(2), NAMES["new"].replace("demo", "ventas"), age=100)
        service.run(30)

    assert arrived(server) == ["<2@example.com>"]
    assert facts(mail_dir) == [(State.WAITING, 1, "452")]


class TestReturn:
    def test_once_the_server_is_back_all_that_waits_is_due(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
            service = serve(make_mailer(server))
            fail_to_deliver(service.mailer, letter(1), letter(2))
            for passes in (False, True):
                service.check(passes=passes)
            service.run(15)

        assert facts(mail_dir) == [(State.WAITING, 2, "450")] * 2

    @pytest.mark.parametrize("state", ["in doubt", "refused", "given up"])
    def test_what_only_the_operator_can_end_is_not_tried(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message, state: str
    ) -> None:
        keep_in_state(mail_dir, message, state)
        with SmtpServer() as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(HOUR)

        assert server.arrivals == []

    def test_after_a_restart_the_first_check_that_passes_is_a_return(
        self, make_mailer: MakeMailer, serve: Serve, message: Message
    ) -> None:
        with SmtpServer(replies={"connect": "554 5.3.2 no service"}) as server:
            fail_to_deliver(make_mailer(server), message)
            server.replies = {}
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(1)

        assert arrived(server) == [message.message_id]

    def test_a_check_that_passes_again_and_again_is_no_return(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
    ) -> None:
        with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            fail_to_deliver(service.mailer, message)
            service.run(55, meanwhile=lambda: service.check(passes=True), every=15)

        assert facts(mail_dir) == [(State.WAITING, 1, "450")]

    def test_a_relay_that_comes_and_goes_for_six_days_ends_nothing(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
    ) -> None:
        with SmtpServer(replies={"RCPT": "421 4.3.2 closing"}) as server:
            service = serve(make_mailer(server))
            fail_to_deliver(service.mailer, message)
            for _ in range(70):
                service.check(passes=False)
                service.run(25)
                service.check(passes=True)
                service.run(25)
            (waiting,) = kept(mail_dir)
            server.replies = {}
            service.check(passes=False)
            service.run(6 * DAY)
            service.check(passes=True)
            service.run(1)

        assert waiting.state is State.WAITING
        assert 40 < waiting.tries <= 1 + 70  # the gap lets some returns pass
        assert arrived(server) == [message.message_id]

    def test_a_return_in_the_pause_after_a_round_begins_the_next_one(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep(mail_dir, letter(1), age=100)
        keep(mail_dir, letter(2))
        with SmtpServer(replies={"connect": "554 5.3.2 no service"}) as server:
            service = serve(make_mailer(server))
            service.run(1)
            server.replies = {}
            service.check(passes=True)
            service.run(2)

        assert len(server.arrivals) == 2


SIX = 6
UNUSED = (State.WAITING, 0, "")
ONE_A_ROUND = {
    "sender deferred": ("MAIL", "452 4.3.1 full", State.WAITING, "452"),
    "recipient deferred": ("RCPT", "450 4.2.0 later", State.WAITING, "450"),
    "connection closed": ("MAIL", "421 4.7.0 too many messages", State.WAITING, "421"),
    "greeting refused": ("connect", "554 5.3.2 no service", State.WAITING, "554"),
    "connection dropped": ("MAIL", Act.DROP, State.WAITING, "SMTPServerDisconnected"),
    "outcome unknown": ("message", Act.DROP, State.IN_DOUBT, ""),
}
"""Failures that are not the message's own: the stage and the reply, the state of the message and the code."""
ITS_OWN = {
    "sender refused": ("MAIL", "550 5.7.1 no", "550"),
    "recipient refused": ("RCPT", "550 5.1.1 no", "550"),
    "content refused": ("message", "554 5.6.0 no", "554"),
}


class TestRound:
    @pytest.mark.parametrize(("stage", "reply", "state", "code"), ONE_A_ROUND.values(), ids=ONE_A_ROUND)
    def test_a_failure_that_is_not_the_message_s_own_ends_it_and_costs_the_others_nothing(
        self,
        make_mailer: MakeMailer,
        serve: Serve,
        mail_dir: Path,
        stage: str,
        reply: str,
        state: State,
        code: str,
    ) -> None:
        keep_due(mail_dir, SIX)
        with SmtpServer(replies={stage: reply}) as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(21)

        assert facts(mail_dir) == [(state, 1, code)] * 3 + [UNUSED] * 3

    def test_two_processes_make_no_more_attempts_than_one(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, SIX)
        with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
            services = [serve(make_mailer(server)) for _ in range(2)]
            for _ in range(21):
                for service in services:
                    service.check(passes=True)
                    service.run(0.49)

        assert facts(mail_dir) == [(State.WAITING, 1, "450")] * 3 + [UNUSED] * 3

    @pytest.mark.parametrize(("stage", "reply", "code"), ITS_OWN.values(), ids=ITS_OWN)
    def test_a_failure_that_is_the_message_s_own_does_not(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, stage: str, reply: str, code: str
    ) -> None:
        keep_due(mail_dir, SIX)
        with SmtpServer(replies={stage: reply}) as server:
            serve(make_mailer(server)).run(SIX)

        assert facts(mail_dir) == [(State.REFUSED, 1, code)] * SIX

    @pytest.mark.parametrize("stage", ["message", "MAIL"], ids=["a message that hangs", "a reset"])
    @pytest.mark.parametrize("failures", [1, 2])
    def test_each_such_failure_holds_up_the_others_for_a_round(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, stage: str, failures: int
    ) -> None:
        keep_due(mail_dir, SIX)
        with SmtpServer(replies={stage: Act.DROP}) as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(10 * failures - 9)
            server.replies = {}
            service.run(9 + SIX - failures)

        assert [tries for _, tries, _ in facts(mail_dir)] == [1] * failures
        assert arrived(server)[-(SIX - failures) :] == [f"<{number}@example.com>" for number in range(failures, SIX)]

    def test_another_process_makes_them_when_the_check_of_the_first_one_fails(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        with SmtpServer() as server:
            first, second = (serve(make_mailer(server)) for _ in range(2))
            first.run(1)
            second.run(1)
            first.check(passes=False)
            keep_due(mail_dir, SIX)
            first.run(10)
            assert server.arrivals == []
            second.run(10 + SIX)

        assert len(server.arrivals) == SIX

    def test_an_unreadable_folder_of_unfinished_messages_holds_up_none(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, SIX)
        (mail_dir / "tmp").rmdir()
        (mail_dir / "tmp").touch()  # root could read a folder without any rights
        with SmtpServer() as server:
            serve(make_mailer(server)).run(SIX)

        assert len(server.arrivals) == SIX

    def test_a_mail_dir_that_is_missing_for_a_round_is_no_failure(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with SmtpServer() as server:
            service = serve(make_mailer(server))
            service.run(1)
            assert caplog.messages == []
            Spool(mail_dir).prepare()
            service.run(10)
            mail_dir.rename(mail_dir.with_name("old"))
            service.run(10)
            keep_due(mail_dir, SIX)
            service.run(10 + SIX)

        assert len(server.arrivals) == SIX
        assert not Spool(mail_dir).leads(willing=True)

    def test_a_message_that_somebody_else_sends_costs_no_gap(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, SIX)
        spool = Spool(mail_dir)
        with SmtpServer() as server, ExitStack() as stack:
            for message in kept(mail_dir)[:3]:
                stack.enter_context(spool.claim(message))
            serve(make_mailer(server)).run(2.5)

        assert len(server.arrivals) == 3

    def test_there_is_none_while_the_check_fails(self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path) -> None:
        keep_due(mail_dir, 20)
        with SmtpServer() as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(4.5, meanwhile=lambda: service.check(passes=False), every=2.5)
            taken = len(server.arrivals)
            service.run(HOUR)

        assert (taken, len(server.arrivals)) == (3, 3)

    def test_messages_go_a_second_apart_from_one_round_to_the_next(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, 30)
        taken = []
        with SmtpServer() as server:
            service = serve(make_mailer(server))
            service.run(29.5, meanwhile=lambda: taken.append(len(server.arrivals)), every=5.3)

        assert taken == [6, 11, 16, 22, 27]

    @pytest.mark.parametrize("replies", [{"RCPT": "450 4.2.0 later"}, {"connect": "421 4.3.2 busy"}])
    def test_the_gap_doubles_after_each_4xx_to_a_minute_until_nothing_is_waiting(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, replies: Replies
    ) -> None:
        keep_due(mail_dir, 200)
        with SmtpServer(replies=replies) as server:
            service = serve(make_mailer(server))
            service.run(HOUR)
            tries = sum(message.tries for message in kept(mail_dir))
            server.replies = {}
            service.run(10 * MINUTE)
            taken = len(server.arrivals)
            service.run(DAY)
            keep_due(mail_dir, SIX)
            service.run(10 + SIX)

        assert tries == 64  # after 0, 10, 20, 30, 46 and 78 s, then once a minute
        assert taken == 10
        assert len(server.arrivals) == 200 + SIX

    def test_a_form_in_its_first_attempt_keeps_no_gap_long(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, SIX)
        with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
            service = serve(make_mailer(server))
            service.run(5 * MINUTE)
            server.replies = {}
            for message in kept(mail_dir):
                (mail_dir / message.path).unlink()
            form = Spool(mail_dir).store(letter(SIX))
            service.run(10)
            keep_due(mail_dir, SIX)
            service.run(10 + SIX)
            form.release()

        assert len(server.arrivals) == SIX

    @pytest.mark.parametrize("stage", ["message", "MAIL"])
    def test_another_failure_leaves_the_gap_as_it_is(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, stage: str
    ) -> None:
        keep_due(mail_dir, SIX)
        with SmtpServer(replies={stage: Act.DROP}) as server:
            service = serve(make_mailer(server))
            service.run(25)
            server.replies = {}
            service.run(5 + 3)

        assert len(server.arrivals) == (SIX if stage == "message" else 3)


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


class TestLiveForms:
    @pytest.mark.parametrize(
        ("messages", "minutes"), [(100, 30), pytest.param(3000, 3 * 60, marks=pytest.mark.nightly)], ids=["100", "3000"]
    )
    def test_they_keep_half_of_a_relay_that_takes_30_a_minute(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, messages: int, minutes: int
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

    def test_of_20_at_once_each_has_arrived_within_five_minutes_over_three_connections(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
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

    def test_a_live_form_goes_first(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
    ) -> None:
        keep(mail_dir, message, age=100)
        with SmtpServer() as server:
            service = serve(make_mailer(server))
            service.mailer.bulkhead.waiting = 1
            service.run(MINUTE)
            meanwhile = len(server.arrivals)
            service.mailer.bulkhead.waiting = 0
            service.run(15)

        assert (meanwhile, len(server.arrivals)) == (0, 1)


def test_what_a_live_form_is_sending_is_left_to_it(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
) -> None:
    claim = Spool(mail_dir).store(message)

    with SmtpServer() as server:
        service = serve(make_mailer(server))
        service.run(75)
        while_sending = len(server.arrivals)
        claim.release()  # as the kernel does for a process that was killed
        service.run(15)

    assert (while_sending, arrived(server)) == (0, [message.message_id])


def test_of_all_processes_one_makes_a_round_and_hands_over_each_message(
    make_mailer: MakeMailer, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GAP", 0)
    keep_due(mail_dir, 40)
    inside, most = threading.Semaphore(1), []

    def come_in() -> None:
        most.append(inside.acquire(blocking=False))
        time.sleep(0.005)
        if most[-1]:
            inside.release()

    def hand_over(mailer: Mailer) -> None:
        redelivery = Redelivery(mailer, Spool(mail_dir), patience=10)
        while kept(mail_dir):
            redelivery.work()

    with SmtpServer(on_message=come_in) as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(hand_over, [make_mailer(server) for _ in range(4)]))

    assert sorted(arrived(server)) == sorted(letter(number).message_id for number in range(40))
    assert all(most)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_message_that_cannot_be_opened_stands_in_no_other_s_way_and_is_tried_later(
    make_mailer: MakeMailer,
    serve: Serve,
    mail_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    broken, sound = (keep(mail_dir, letter(n), age=100 - n) for n in range(2))
    open_file = os.open

    def refuse(path: str, *arguments: int) -> int:
        if path.endswith(broken.path):
            raise OSError(number, os.strerror(number), path)
        return open_file(path, *arguments)

    with SmtpServer() as server:
        service = serve(make_mailer(server))
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            service.run(5)
            first = arrived(server)
            service.run(10 * MINUTE)
        service.run(10 * MINUTE)

    assert first == [f"<{sound.local_part}@example.com>"]
    assert caplog.text.count("was not delivered") == 1
    assert arrived(server)[1:] == [f"<{broken.local_part}@example.com>"]


def test_a_message_that_cannot_be_renamed_is_not_sent_and_stands_in_no_other_s_way(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path
) -> None:
    unfit = keep(mail_dir, letter("1" * 185), age=200)  # there is no room for an attempt in the name of its file
    other = letter(2)
    keep(mail_dir, other, age=100)

    with SmtpServer() as server:
        service = serve(make_mailer(server))
        service.run(MINUTE)

    assert arrived(server) == [other.message_id]
    assert kept(mail_dir) == [unfit]


def test_from_a_disk_that_keeps_what_was_delivered_nothing_is_sent(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(mail_dir, message, age=100)
    monkeypatch.setattr(os, "access", lambda *_: False)

    with SmtpServer() as server:
        serve(make_mailer(server)).run(MINUTE)

    assert server.arrivals == []


def test_a_large_store_is_scanned_less_often(
    make_mailer: MakeMailer, serve: Serve, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan, times = Spool.kept, []

    def scan_slowly(spool: Spool) -> object:
        times.append(clock.passed)
        clock.passed += 2
        return scan(spool)

    monkeypatch.setattr(Spool, "kept", scan_slowly)
    serve(make_mailer()).run(1000)

    assert [round(moment) for moment in times] == [0, 400, 800]


def test_messages_are_counted_anew_while_they_leave(make_mailer: MakeMailer, serve: Serve, mail_dir: Path) -> None:
    keep_due(mail_dir, 30)
    with SmtpServer() as server:
        service = serve(make_mailer(server))
        service.run(1)
        before = service.redelivery.census.counts.total()
        service.run(11)

    assert before == 30
    assert service.redelivery.census.counts.total() == 20


def test_messages_are_counted_anew_while_a_long_gap_passes(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path
) -> None:
    keep_due(mail_dir, 20)
    with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
        service = serve(make_mailer(server))
        service.run(10 * MINUTE)
        keep(mail_dir, letter("new"))
        service.run(11)

    assert service.redelivery.census.counts.total() == 21


def test_what_nobody_finished_is_removed_and_the_log_says_how_much(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message, caplog: pytest.LogCaptureFixture
) -> None:
    service = serve(make_mailer())
    path = mail_dir / keep(mail_dir, message).path
    left = path.rename(mail_dir / "tmp" / path.name)
    service.run(35 * HOUR)
    young = left.exists()
    service.run(3 * HOUR)

    assert (young, left.exists()) == (True, False)
    assert "1 abandoned temporary files are removed" in caplog.text


class TestCensus:
    def test_it_counts_each_state_and_knows_the_oldest(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        states = ["waiting", "in doubt", "refused", "given up", "waiting", "in doubt, then deferred"]
        messages = [keep_in_state(mail_dir, letter(number), state) for number, state in enumerate(states)]
        with SmtpServer() as server:
            service = serve(make_mailer(server))
        service.run(1)

        census = service.redelivery.census
        assert census.counts == {State.WAITING: 2, State.IN_DOUBT: 2, State.REFUSED: 1, State.GIVEN_UP: 1}
        assert census.oldest[State.GIVEN_UP] == messages[3].stored_at

    def test_what_is_being_sent_is_not_in_doubt_yet(
        self, make_mailer: MakeMailer, serve: Serve, message: Message
    ) -> None:
        counts: list[dict[State, int]] = []

        def count() -> None:
            service.redelivery.work()
            counts.append(dict(service.redelivery.census.counts))

        with SmtpServer(on_message=count) as server:
            service = serve(make_mailer(server))
            service.mailer.deliver(message)

        assert counts == [{State.WAITING: 1}]

    def test_without_a_server_nothing_is_tried(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
    ) -> None:
        service = serve(make_mailer())
        service.mailer.deliver(message)
        service.run(5 * HOUR)

        assert facts(mail_dir) == [(State.WAITING, 0, "")]


class TestThread:
    def test_it_works_by_itself_and_at_once_when_the_server_is_back(
        self, make_mailer: MakeMailer, mail_dir: Path, message: Message
    ) -> None:
        with SmtpServer() as server:
            mailer = make_mailer(server)
        fail_to_deliver(mailer, message)
        redelivery = Redelivery(mailer, Spool(mail_dir), patience=10)
        redelivery.loop.start()
        assert redelivery.loop.first_done.wait(30)
        counted = redelivery.census.counts.total()
        taken = Event()
        server.on_message = taken.set

        with server:
            redelivery.server_checked(True)
            assert taken.wait(30)
            redelivery.loop.stop()

        assert counted == 1
        assert kept(mail_dir) == []

    def test_it_goes_on_after_a_fault_and_says_so(
        self, make_mailer: MakeMailer, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        scans = []

        def fail(_: Spool) -> None:
            scans.append(1)
            raise PermissionError("maria@example.com")

        monkeypatch.setattr(Spool, "kept", fail)
        serve(make_mailer()).run(2.5 * module.INTERVAL)

        assert len(scans) == 3
        assert "PermissionError" in caplog.text
        assert "maria" not in caplog.text

    def test_a_stop_waits_for_the_attempt_that_is_being_made_and_begins_no_other(
        self, make_mailer: MakeMailer, mail_dir: Path
    ) -> None:
        for number in range(2):
            keep(mail_dir, letter(number), age=100 - number)
        taken = Event()

        def tell_to_stop() -> None:
            redelivery.loop.wind_down()
            taken.set()

        with SmtpServer(on_message=tell_to_stop) as server:
            redelivery = Redelivery(make_mailer(server), Spool(mail_dir), patience=10)
            redelivery.loop.start()
            assert taken.wait(30)
            redelivery.loop.stop()

        assert arrived(server) == ["<0@example.com>"]
        assert [message.local_part for message in kept(mail_dir)] == ["1"]
