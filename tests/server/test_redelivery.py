"""Messages that were kept arrive by themselves, each once, whatever becomes of the real gunicorn meanwhile.

KILLS says how often processes are killed at a random moment; KILL_SEED chooses the moments.
"""

from __future__ import annotations

import http.client
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from email.parser import BytesHeaderParser
from email.utils import parseaddr
from pathlib import Path

import pytest

from app import create_app
from app.mail import cli
from app.mail.spool import Spool
from tests.factories import make_settings
from tests.mail.conftest import kept, letter
from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import PATIENCE, Server, newest_worker, serving
from tests.waiting import wait_until

KILLS = int(os.environ.get("KILLS", "8"))
KILL_SEED = int(os.environ.get("KILL_SEED", "1"))

HURRIED = "--config tests/server/hurried_gunicorn.py"
THREADS = 4
SMTP_TIMEOUT = 20
MESSAGES = 12

WELL: dict[str, str] = {}
BUSY = {"connect": "421 4.3.2 busy"}
LATER = {"RCPT": "451 4.3.0 later"}
FULL = {"message": "452 4.3.1 full"}
GONE = {"message": Act.DROP}


def settings(relay: SmtpServer, **changes: str) -> dict[str, str]:
    usual = {"THREADS": str(THREADS), "SMTP_TIMEOUT": str(SMTP_TIMEOUT)}
    return relay.environ | usual | {"GUNICORN_CMD_ARGS": HURRIED, "RETRY_SECONDS": "1"} | changes


def store(mail_dir: Path, messages: int = MESSAGES) -> None:
    """Leave messages as a process does that is killed before the first attempts."""
    spool = Spool(mail_dir)
    for number in range(messages):
        spool.store(letter(number)).release()


def files(mail_dir: Path) -> list[Path]:
    return [path for path in mail_dir.rglob("*") if path.is_file()]


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
        email = f"visitor{next(self._numbers)}@example.com"
        self.answers[email] = None
        with suppress(OSError, http.client.HTTPException):
            self.answers[email] = self.service.new_client().post_form(email=email)[0].status
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


class Holding(SmtpServer):
    """A relay that holds the first message until it is released."""

    def __init__(self) -> None:
        self.has_first, self.goes_on = threading.Event(), threading.Event()
        super().__init__(on_message=self._hold_the_first)

    def _hold_the_first(self) -> None:
        if len(self.arrivals) == 1:
            self.has_first.set()
            self.goes_on.wait(SMTP_TIMEOUT)


def test_forms_of_an_outage_arrive_once_when_it_ends_although_their_turn_is_later(tmp_path: Path) -> None:
    relay = SmtpServer()
    with serving(tmp_path, **settings(relay, RETRY_SECONDS="3600")) as service, ExitStack() as stack:
        visitors = Visitors(service)
        with visitors.coming():
            wait_until(lambda: len(visitors.answers) >= 5)
            stack.enter_context(relay)
            wait_until(lambda: 200 in list(visitors.answers.values()))
        wait_until(lambda: not files(service.mail_dir))

    assert set(visitors.answers.values()) == {500, 200}
    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == len(visitors.answers)


def test_of_all_workers_of_two_instances_one_hands_over_at_any_moment_and_no_message_goes_twice(tmp_path: Path) -> None:
    inside, were_alone = threading.Semaphore(1), []

    def come_in() -> None:
        were_alone.append(inside.acquire(blocking=False))
        time.sleep(0.02)
        if were_alone[-1]:
            inside.release()

    mail_dir = tmp_path / "mail"
    store(mail_dir)
    with SmtpServer(on_message=come_in, replies=BUSY) as relay, ExitStack() as stack:
        for workers in ("1", "2"):
            (tmp_path / workers).mkdir()
            arguments = f"{HURRIED} --workers {workers}"
            environ = settings(relay, MAIL_DIR=str(mail_dir), GUNICORN_CMD_ARGS=arguments)
            stack.enter_context(serving(tmp_path / workers, **environ))
        relay.replies = WELL
        wait_until(lambda: not files(mail_dir))

    assert all(were_alone)
    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == MESSAGES


def test_while_a_redelivery_is_at_work_forms_have_all_their_places_and_a_resend_takes_the_other_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = threading.Barrier(THREADS // 2)

    def wait_for_the_others() -> None:
        inside.wait(SMTP_TIMEOUT)

    monkeypatch.setattr(cli, "GAP", 0.0)
    store(tmp_path / "mail", 5)
    with Holding() as relay, serving(tmp_path, **settings(relay)) as service:
        assert relay.has_first.wait(PATIENCE)
        relay.on_message = wait_for_the_others
        visitors = Visitors(service)
        with ThreadPoolExecutor(inside.parties) as pool:
            answers = list(pool.map(lambda _: visitors.send(), range(inside.parties)))
        relay.on_message = lambda: None
        operator = create_app(make_settings(service.mail_dir, **relay.environ))
        output = operator.test_cli_runner().invoke(args=["mail", "resend"]).stdout
        left = len(files(service.mail_dir))
        relay.goes_on.set()
        wait_until(lambda: not files(service.mail_dir))

    assert answers == [200] * inside.parties
    assert relay.refused == []
    assert output.count("skipped") == left == 1
    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == 5 + inside.parties


@pytest.mark.parametrize(
    ("number", "goes_on"), [(signal.SIGTERM, False), (signal.SIGHUP, True)], ids=["stop", "replace"]
)
def test_an_attempt_ends_before_its_worker_does_and_only_the_next_worker_goes_on(
    tmp_path: Path, number: int, *, goes_on: bool
) -> None:
    store(tmp_path / "mail", 5)
    with Holding() as relay, serving(tmp_path, **settings(relay)) as service:
        assert relay.has_first.wait(PATIENCE)
        worker = newest_worker(service.log)
        service.process.send_signal(number)
        service.wait_for(rf"Worker exiting \(pid: {worker}\)")
        relay.goes_on.set()
        if goes_on:
            wait_until(lambda: not files(service.mail_dir))
        else:
            assert service.process.wait(SMTP_TIMEOUT + 10) == 0

    assert [message.is_untaken for message in kept(service.mail_dir)] == ([] if goes_on else [True] * 4)
    assert set(taken(relay).values()) == {1}
    assert len(relay.arrivals) == (5 if goes_on else 1)


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
