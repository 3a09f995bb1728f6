"""The attempts that the service makes by itself: when, in which states, and by whom."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from app.mail import redelivery as module
from app.mail.failures import About
from app.mail.kept import PAUSES, State
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.pace import DOUBLING, FIRST, LONGEST, OUTAGE, Pace
from app.mail.redelivery import Redelivery
from app.mail.spool import Spool
from tests.mail.conftest import MakeMailer, arrived, keep, keep_in_state, kept, letter
from tests.mail.server import DROP, HANG, SmtpServer
from tests.mail.service import DAY, Clock, Serve

MINUTE, HOUR = 60, 3600
TWO = "primera@example.com,segunda@example.com"


class Way(NamedTuple):
    """A way in which a hand-over fails: the server's replies, the service's settings, and what is noted."""

    replies: dict[str, str]
    environ: dict[str, str]
    state: State
    word: str


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
    "outcome unknown": Way({"message": DROP}, {}, State.IN_DOUBT, ""),
    "outcome unknown, no answer": Way({"message": HANG}, {"SMTP_TIMEOUT": "3"}, State.IN_DOUBT, ""),
}


@pytest.fixture(autouse=True)
def _usual_pace(_kept_messages_are_handed_over_without_pauses: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.mail.pace.FIRST", FIRST)


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
    keep(mail_dir, letter(1), f",tries=1,last={time.time() - 100:.3f},waiting=451.{form_type}.0", age=100)

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


def test_a_server_that_is_down_is_tried_in_each_step_for_five_days(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
) -> None:
    with SmtpServer() as server:
        service = serve(make_mailer(server))
    fail_to_deliver(service.mailer, message)
    service.check(passes=False)

    tries = []
    for pause in (*PAUSES, 4 * HOUR, 4 * HOUR):
        service.run(pause + 15)
        tries.append(kept(mail_dir)[0].tries)
    service.run(5 * DAY)

    assert tries == [2, 3, 4, 5, 6, 7, 8]
    assert facts(mail_dir) == [(State.GIVEN_UP, 35, "ConnectionRefusedError")]
    with server:
        service.check(passes=True)
        service.run(DAY)
    assert server.arrivals == []


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


class TestReturn:
    def test_once_the_server_is_back_all_that_waits_is_tried_and_no_step_is_used(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
            service = serve(make_mailer(server))
            fail_to_deliver(service.mailer, letter(1), letter(2))
            for passes in (False, True):
                service.check(passes=passes)
            service.run(5)

        assert [(message.tries, message.steps) for message in kept(mail_dir)] == [(2, 0), (2, 0)]

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
            server.replies.clear()
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(1)

        assert arrived(server) == [message.message_id]

    def test_a_relay_that_comes_and_goes_moves_no_turn(
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

        # Out of turn after each return, and four times in its turn: after 1, 5, 15 and 30 minutes.
        assert waiting.steps == 4
        assert waiting.tries > 60

    def test_a_return_while_messages_are_queued_counts_for_those_behind_them(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep(mail_dir, letter(1), age=100)
        keep(mail_dir, letter(2))
        with SmtpServer(replies={"connect": "554 5.3.2 no service"}) as server:
            service = serve(make_mailer(server))
            service.run(1)
            server.replies.clear()
            service.check(passes=True)
            service.run(2)

        assert len(server.arrivals) == 2

    def test_a_return_during_a_scan_makes_the_next_one_due(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep(mail_dir, message)
        scan = Spool.kept

        def come_back(spool: Spool) -> object:
            service.redelivery.server_checked(True)
            return scan(spool)

        with SmtpServer() as server:
            service = serve(make_mailer(server))
            monkeypatch.setattr(Spool, "kept", come_back)
            service.run(2)

        assert arrived(server) == [message.message_id]

    def test_a_scan_that_fails_forgets_no_return(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep(mail_dir, message)
        with SmtpServer() as server:
            service = serve(make_mailer(server))
            with monkeypatch.context() as patch:
                patch.setattr(os, "scandir", lambda _: open("/dev/null/x"))  # noqa: PTH123, SIM115 - it raises
                service.check(passes=True)
                service.run(1)
            service.run(15)

        assert arrived(server) == [message.message_id]


class TestStateOfTheServer:
    def test_one_message_at_which_the_server_stalls_postpones_no_other(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, 20)
        with SmtpServer(replies={"message": DROP}) as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(0.5)
            server.replies.clear()
            service.run(MINUTE)

        assert facts(mail_dir) == [(State.IN_DOUBT, 1, "")]
        assert len(server.arrivals) == 20

    def test_two_lost_connections_delay_the_others_by_a_minute_at_most(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, 20)
        with SmtpServer(replies={"MAIL": DROP}) as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(1.5)
            server.replies.clear()
            service.run(2 * MINUTE)

        assert [message.steps for message in kept(mail_dir)] == [1, 1]  # these two await their next step

    @pytest.mark.parametrize(("passes", "attempts"), [(True, 2), (False, 1)])
    def test_a_server_that_is_down_is_not_asked_for_each_message_and_the_others_count_nothing(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, *, passes: bool, attempts: int
    ) -> None:
        keep_due(mail_dir, 20)
        with SmtpServer() as server:
            service = serve(make_mailer(server))
        service.check(passes=passes)
        service.run(30)

        assert sum(message.tries for message in kept(mail_dir)) == attempts
        assert service.mailer.pace.is_down

    def test_a_live_form_that_goes_through_ends_the_delay(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, 20)
        with SmtpServer(replies={"MAIL": DROP}) as server:
            service = serve(make_mailer(server))
            service.run(5)
            server.replies.clear()
            service.mailer.deliver(letter("live"))
            service.run(30)

        assert len(server.arrivals) == 1 + 18

    def test_a_server_that_falls_silent_after_each_content_brings_few_messages_into_doubt(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, 20)
        with SmtpServer(replies={"message": DROP}) as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            service.run(HOUR)

        assert Counter(state for state, _, _ in facts(mail_dir)) == {State.IN_DOUBT: 7, State.WAITING: 13}

    def test_a_server_that_says_421_is_busy(self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path) -> None:
        keep_due(mail_dir, 4)
        with SmtpServer(replies={"MAIL": "421 4.7.0 too many messages"}) as server:
            service = serve(make_mailer(server))
            service.run(5)

        assert [message.tries for message in kept(mail_dir)] == [1, 1, 0, 0]
        assert not service.mailer.pace.is_down


class Busy(SmtpServer):
    """A relay that takes so many messages in any minute and answers 450 to RCPT beyond that."""

    def __init__(self, most: int) -> None:
        super().__init__(on_message=self._count)
        self._most = most
        self._times: deque[float] = deque()
        self.replies = self  # type: ignore[assignment]  # asked for each reply

    def get(self, stage: str, usual: str = "") -> str:
        while self._times and self._times[0] <= time.monotonic() - MINUTE:
            self._times.popleft()
        return "450 4.7.1 too many" if stage == "RCPT" and len(self._times) >= self._most else usual

    def __contains__(self, stage: str) -> bool:
        return False

    def _count(self) -> None:
        self._times.append(time.monotonic())


class TestPace:
    def test_a_relay_of_100_a_minute_takes_all_that_waits_and_every_live_form(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        for number in range(500):
            keep(mail_dir, letter(number), age=500 - number)
        answers: Counter[bool] = Counter()

        def send() -> None:
            number = answers.total()
            try:
                service.mailer.deliver(letter(f"live{number}"))
            except DeliveryError:
                answers[False] += 1
            else:
                answers[True] += 1

        with Busy(100) as server:
            service = serve(make_mailer(server))
            service.check(passes=True)
            least = 500 / (100 - MINUTE / 4) * MINUTE
            service.run(2 * least, meanwhile=send, every=4)

        sent = [int(message[1:].partition("@")[0]) for message in arrived(server) if "live" not in message]
        assert answers[True] > 150
        assert answers[False] <= 3  # those from which the service learned of the limit
        assert kept(mail_dir) == []
        assert sum(later < earlier for earlier, later in pairwise(sent)) <= 4  # those refused once
        assert len(sent) == len(set(sent)) == 500

    def test_a_relay_that_takes_nothing_is_asked_less_and_less(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path
    ) -> None:
        keep_due(mail_dir, 200)
        with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
            service = serve(make_mailer(server))
            service.run(HOUR)

        tried = [message for message in kept(mail_dir) if message.tries]
        assert len(tried) == 64  # at 0, 2, 6, 14, 30 and 62 s, then once a minute
        assert {message.tries for message in tried} == {1}

    def test_a_live_form_that_is_refused_slows_what_waits(self, make_mailer: MakeMailer, message: Message) -> None:
        with SmtpServer(replies={"RCPT": "450 4.2.0 later"}) as server:
            mailer = make_mailer(server)
            fail_to_deliver(mailer, message)

        assert mailer.pace.pause == 2 * FIRST

    def test_while_a_live_form_waits_the_loop_comes_back_soon(
        self, make_mailer: MakeMailer, serve: Serve, mail_dir: Path, message: Message
    ) -> None:
        keep(mail_dir, message, age=100)
        with SmtpServer() as server:
            service = serve(make_mailer(server))
        for _ in range(10):
            service.mailer.pace.failed(About.SERVER)
        service.redelivery.work()
        service.mailer.bulkhead.waiting = 1

        assert service.redelivery.work() <= 1

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

    def test_it_doubles_each_minute_while_all_is_taken_and_stays_at_half_of_what_was_refused(self) -> None:
        pace, passed, taken = Pace(), 0.0, 0
        assert pace.pause == FIRST
        while passed < 3 * DOUBLING:
            passed += pace.pause
            taken += 1
            pace.taken()
        fast = pace.pause
        for _ in range(2):
            pace.failed(About.BUSY)
        slow = pace.pause
        for _ in range(1000):
            pace.taken()

        assert fast == pytest.approx(FIRST / 8, rel=0.02)
        assert taken == pytest.approx(606, rel=0.02)
        assert slow == 2 * FIRST
        assert pace.pause == pytest.approx(2 * fast, rel=0.1)

    def test_refusals_here_and_there_lie_at_their_messages(self) -> None:
        pace = Pace()
        for _ in range(200):
            pace.failed(About.BUSY)
            for _ in range(9):
                pace.taken()

        assert pace.pause < 10

    def test_what_has_been_refused_is_forgotten_in_the_end(self) -> None:
        pace = Pace()
        for _ in range(2):
            pace.failed(About.BUSY)
        for _ in range(10_000):
            pace.taken()

        assert pace.pause < FIRST

    @pytest.mark.parametrize("about", [About.MESSAGE, About.BUSY])
    def test_an_answer_between_two_failures_shows_that_the_server_is_there(self, about: About) -> None:
        pace = Pace()
        for failure in (About.SERVER, about, About.SERVER):
            pace.failed(failure)

        assert not pace.is_down

    def test_live_forms_do_not_excuse_a_server_that_is_silent_after_kept_messages(self) -> None:
        pace = Pace()
        for _ in range(10):
            pace.failed(About.IN_DOUBT)
            pace.served()

        assert pace.pause >= OUTAGE[0]

    def test_it_doubles_its_pause_while_it_is_refused(self) -> None:
        pace, pauses = Pace(), []
        for _ in range(8):
            pace.failed(About.BUSY)
            pauses.append(pace.pause)

        assert pauses == [2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST]

    def test_while_the_server_is_down_its_pause_grows_from_a_minute_to_an_hour(self) -> None:
        pace, pauses = Pace(), []
        for _ in range(20):
            pace.failed(About.SERVER)
            pauses.append(pace.pause)

        assert pauses[:4] == [FIRST, 60, 120, 240]
        assert pauses[-1] == OUTAGE[1]
        pace.served()
        assert pace.pause == FIRST


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


def test_of_all_that_look_after_the_store_one_hands_over_each_message(
    make_mailer: MakeMailer, mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.mail.pace.FIRST", 0)
    keep_due(mail_dir, 40)

    def hand_over(mailer: Mailer) -> None:
        redelivery = Redelivery(mailer, Spool(mail_dir), patience=10)
        while redelivery.work() == 0:
            pass

    with SmtpServer() as server, ThreadPoolExecutor(4) as pool:
        list(pool.map(hand_over, [make_mailer(server) for _ in range(4)]))

    assert sorted(arrived(server)) == sorted(letter(number).message_id for number in range(40))
    assert kept(mail_dir) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE])
def test_a_message_that_cannot_be_opened_stands_in_no_other_s_way_and_is_tried_later(
    make_mailer: MakeMailer, serve: Serve, mail_dir: Path, monkeypatch: pytest.MonkeyPatch, number: int
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
            service.run(10 * MINUTE)
        first = arrived(server)
        service.run(10 * MINUTE)

    assert first == [f"<{sound.local_part}@example.com>"]
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

    assert [round(moment) for moment in times] == [0, 402, 804]


def test_messages_are_counted_anew_while_they_leave(make_mailer: MakeMailer, serve: Serve, mail_dir: Path) -> None:
    keep_due(mail_dir, 30)
    with SmtpServer() as server:
        service = serve(make_mailer(server))
        service.run(1)
        before = service.redelivery.census.counts.total()
        service.run(11)

    assert before == 30
    assert service.redelivery.census.counts.total() == 19  # the pace quickens


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
