"""Messages that were kept arrive by themselves, each once, whatever becomes of the real gunicorn meanwhile.

KILLS says how often processes are killed at a random moment; KILL_SEED chooses the moments.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from email.parser import BytesHeaderParser
from email.utils import parseaddr
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.mail.cli import create_mail_commands
from app.mail.kept import Kept
from app.mail.mailer import create_mailer
from app.mail.spool import Spool, create_spool
from tests.factories import contact_body, make_settings
from tests.mail.conftest import letter
from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import PATIENCE, Server, newest_worker, serving
from tests.waiting import wait_until

KILLS = int(os.environ.get("KILLS", "8"))
KILL_SEED = int(os.environ.get("KILL_SEED", "1"))

HURRIED = "--config tests/server/hurried_gunicorn.py"
THREADS = 4
SMTP_TIMEOUT = 20
MESSAGES = 20

WELL: dict[str, str] = {}
BUSY = {"connect": "421 4.3.2 busy"}
LATER = {"RCPT": "451 4.3.0 later"}
FULL = {"message": "452 4.3.1 full"}
GONE = {"message": Act.DROP}


def settings(relay: SmtpServer, **changes: str) -> dict[str, str]:
    usual = {"TRUSTED_PROXIES": "1", "THREADS": str(THREADS), "SMTP_TIMEOUT": str(SMTP_TIMEOUT)}
    return relay.environ | usual | {"GUNICORN_CMD_ARGS": HURRIED, "RETRY_SECONDS": "1"} | changes


def store(mail_dir: Path, messages: int = MESSAGES) -> None:
    """Leave messages as a process does that is killed before the first attempts."""
    spool = Spool(mail_dir)
    for number in range(messages):
        spool.store(letter(number)).release()


def files(mail_dir: Path) -> list[Path]:
    return [path for path in mail_dir.rglob("*") if path.is_file()]


def kept(mail_dir: Path) -> list[Kept]:
    return Spool(mail_dir).kept()


def field(name: str, content: bytes) -> str:
    return str(BytesHeaderParser().parsebytes(content)[name])


def local_part(content: bytes) -> str:
    """The local part of the Message-ID."""
    return field("Message-ID", content).strip("<>").partition("@")[0]


def taken(relay: SmtpServer) -> Counter[str]:
    """How often the relay took each message, by its local part. What it could not answer any more counts, too."""
    arrived, refused = (
        Counter(local_part(arrival.content) for arrival in arrivals) for arrivals in (relay.arrivals, relay.refused)
    )
    return arrived - refused


class Visitors:
    """Each sends one form, from an address of its own."""

    def __init__(self, service: Server) -> None:
        self.service = service
        self.answers: dict[str, int | None] = {}
        """The status that each visitor was answered, by the email address; None where the connection broke."""
        self._numbers = itertools.count()
        self._enough = threading.Event()

    def send(self) -> int | None:
        number = next(self._numbers)
        email = f"visitor{number}@example.com"
        body = json.dumps(contact_body(email=email)).encode()
        address = f"198.51.{number // 250}.{number % 250}"
        headers = {"Content-Type": "application/json", "X-Forwarded-For": address}
        try:
            status = self.service.request("POST", "/api/v1/contact", body, headers)[0].status
        except (OSError, http.client.HTTPException):
            self.answers[email] = None
        else:
            self.answers[email] = status
        return self.answers[email]

    @contextmanager
    def coming(self) -> Iterator[None]:
        """They come one after the other, until this ends."""
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self._keep_coming)
            try:
                yield
            finally:
                self._enough.set()
                sending.result()

    def _keep_coming(self) -> None:
        while not self._enough.wait(0.05):
            self.send()


def test_forms_of_an_outage_arrive_once_when_it_ends_although_their_turn_is_later(tmp_path: Path) -> None:
    with SmtpServer() as relay:
        pass
    with serving(tmp_path, **settings(relay, RETRY_SECONDS="3600")) as service, ExitStack() as stack:
        visitors = Visitors(service)
        with visitors.coming():
            wait_until(lambda: len(visitors.answers) >= 10)
            stack.enter_context(relay)
            wait_until(lambda: 200 in list(visitors.answers.values()))
        wait_until(lambda: not files(service.mail_dir))

    assert set(visitors.answers.values()) == {500, 200}
    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == len(visitors.answers)


@pytest.mark.parametrize(("instances", "workers"), [(2, 1), (1, 2)], ids=["two instances", "two workers"])
def test_of_two_processes_one_hands_over_at_any_moment_and_no_message_goes_twice(
    tmp_path: Path, instances: int, workers: int
) -> None:
    inside, were_alone = threading.Semaphore(1), []

    def come_in() -> None:
        were_alone.append(inside.acquire(blocking=False))
        time.sleep(0.05)
        if were_alone[-1]:
            inside.release()

    mail_dir = tmp_path / "mail"
    store(mail_dir)
    with SmtpServer(on_message=come_in, replies=BUSY) as relay, ExitStack() as stack:
        environ = settings(relay, MAIL_DIR=str(mail_dir), GUNICORN_CMD_ARGS=f"{HURRIED} --workers {workers}")
        for instance in range(instances):
            directory = tmp_path / str(instance)
            directory.mkdir()
            stack.enter_context(serving(directory, **environ))
        relay.replies = WELL
        wait_until(lambda: not files(mail_dir))

    assert all(were_alone)
    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == MESSAGES


def test_a_resend_by_hand_takes_what_the_service_is_not_sending(tmp_path: Path) -> None:
    held, released = threading.Event(), threading.Event()

    def hold_the_first() -> None:
        if len(relay.arrivals) == 1:
            held.set()
            released.wait(SMTP_TIMEOUT)

    mail_dir = tmp_path / "mail"
    store(mail_dir, 5)
    with SmtpServer(on_message=hold_the_first) as relay, serving(tmp_path, **settings(relay)):
        assert held.wait(PATIENCE)
        by_hand = make_settings(mail_dir, **relay.environ)
        spool = create_spool(by_hand)
        commands = create_mail_commands(by_hand, create_mailer(by_hand, spool), spool)
        output = CliRunner().invoke(commands, ["resend"]).stdout
        left = len(files(mail_dir))
        released.set()
        wait_until(lambda: not files(mail_dir))

    assert output.count("skipped") == left == 1
    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == 5


def test_forms_have_all_their_places_while_a_redelivery_is_at_work(tmp_path: Path) -> None:
    at_work, answered, inside = threading.Event(), threading.Event(), threading.Barrier(THREADS // 2)

    def hold() -> None:
        if len(relay.arrivals) == 1:
            at_work.set()
            assert answered.wait(SMTP_TIMEOUT)
        elif len(relay.arrivals) <= 1 + inside.parties:
            inside.wait(SMTP_TIMEOUT)

    store(tmp_path / "mail")
    with SmtpServer(on_message=hold) as relay, serving(tmp_path, **settings(relay)) as service:
        visitors = Visitors(service)
        assert at_work.wait(PATIENCE)
        with ThreadPoolExecutor(inside.parties) as pool:
            answers = [pool.submit(visitors.send) for _ in range(inside.parties)]
        answered.set()
        wait_until(lambda: not files(service.mail_dir))

    assert [answer.result() for answer in answers] == [200] * inside.parties
    assert relay.refused == []


@contextmanager
def in_the_middle_of_a_redelivery(directory: Path, signal_number: int) -> Iterator[tuple[Server, SmtpServer]]:
    """A service whose worker is told to end while the relay holds the first message, until only that is left to do."""
    held, released = threading.Event(), threading.Event()

    def hold_the_first() -> None:
        if len(relay.arrivals) == 1:
            held.set()
            released.wait(SMTP_TIMEOUT)

    store(directory / "mail")
    with SmtpServer(on_message=hold_the_first) as relay, serving(directory, **settings(relay)) as service:
        assert held.wait(PATIENCE)
        worker = newest_worker(service.log)
        service.process.send_signal(signal_number)
        service.wait_for(rf"Worker exiting \(pid: {worker}\)")
        released.set()
        yield service, relay


def test_an_attempt_ends_before_the_service_stops_and_no_other_begins(tmp_path: Path) -> None:
    with in_the_middle_of_a_redelivery(tmp_path, signal.SIGTERM) as (service, relay):
        exit_code = service.process.wait(SMTP_TIMEOUT + 10)

    assert exit_code == 0
    assert [message.is_untaken for message in kept(service.mail_dir)] == [True] * (MESSAGES - 1)
    assert len(relay.arrivals) == 1


def test_an_attempt_ends_before_a_worker_is_replaced_and_the_next_worker_goes_on(tmp_path: Path) -> None:
    with in_the_middle_of_a_redelivery(tmp_path, signal.SIGHUP) as (service, relay):
        wait_until(lambda: not files(service.mail_dir))

    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == MESSAGES


class Operator:
    """Starts the service, kills its processes, and starts it again."""

    def __init__(self, directory: Path, relay: SmtpServer, stack: ExitStack) -> None:
        self._directory = directory
        self._environ = settings(relay, MAIL_DIR=str(directory / "mail"))
        self._stack = stack
        self._starts = itertools.count()
        self._orphans: list[tuple[Server, int]] = []

    def start(self) -> Server:
        directory = self._directory / str(next(self._starts))
        directory.mkdir()
        return self._stack.enter_context(serving(directory, **self._environ))

    def kill_worker(self, service: Server) -> Server:
        os.kill(newest_worker(service.log), signal.SIGKILL)
        return service

    def kill_arbiter(self, service: Server) -> Server:
        self._orphans.append((service, newest_worker(service.log)))
        service.process.kill()
        service.process.wait()
        return self.start()

    def has_no_orphans(self) -> bool:
        """Workers without their arbiter have ended, as they do by themselves."""
        return all(f"Worker exiting (pid: {worker})" in service.log for service, worker in self._orphans)

    def kill_both(self, service: Server) -> Server:
        worker = newest_worker(service.log)
        service.process.kill()
        os.kill(worker, signal.SIGKILL)
        service.process.wait()
        return self.start()


def abandoned(mail_dir: Path) -> set[str]:
    """The local parts of what is in doubt, unless somebody is handing it over now."""
    spool, found = Spool(mail_dir), set()
    for message in kept(mail_dir):
        if message.is_doubtful:
            with spool.claim(message) as claim:
                if claim is not None:
                    found.add(message.local_part)
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [KILL_SEED])
def test_whatever_is_killed_nothing_is_lost_and_nothing_goes_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - it protects nothing
    arriving = threading.Event()

    def hesitate() -> None:
        arriving.set()
        time.sleep(0.03)

    mail_dir = tmp_path / "mail"
    with SmtpServer(on_message=hesitate) as relay, ExitStack() as stack:
        operator = Operator(tmp_path, relay, stack)
        visitors = Visitors(operator.start())
        with visitors.coming():
            for _ in range(KILLS):
                relay.replies = chance.choice([WELL, BUSY, LATER, FULL, GONE])
                visitors.service.wait_until_it_answers()
                time.sleep(chance.uniform(0, 0.5))
                if relay.replies in (WELL, FULL, GONE):
                    arriving.clear()
                    arriving.wait(PATIENCE)
                    time.sleep(chance.uniform(0, 0.06))
                kill = chance.choice([operator.kill_worker, operator.kill_arbiter, operator.kill_both])
                visitors.service = kill(visitors.service)
            relay.replies = LATER
            wait_until(operator.has_no_orphans)
        in_doubt = abandoned(mail_dir)
        relay.replies = WELL
        wait_until(lambda: {message.local_part for message in kept(mail_dir)} == abandoned(mail_dir))

    sent = taken(relay)
    contents = [arrival.content for arrival in relay.arrivals]
    contents += [(mail_dir / message.path).read_bytes() for message in kept(mail_dir)]
    sender = {local_part(content): parseaddr(field("Reply-To", content))[1] for content in contents}
    left = abandoned(mail_dir)
    answered = {status: {email for email, got in visitors.answers.items() if got == status} for status in (200, 500)}
    counts = {status: len(emails) for status, emails in answered.items()}
    print(f"{KILLS} kills, {len(visitors.answers)} forms, {counts}, {len(sent)} taken, {len(left)} in doubt")  # noqa: T201
    assert max(sent.values()) == 1
    assert in_doubt <= left
    assert answered[200] <= {sender[message] for message in sent}
    assert answered[500] <= {sender[message] for message in {*sent, *left}}
