"""deploy/watch.sh with the real `mail status`; what tells the operator is played by the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.deploy.site import DEPLOY
from tests.mail.server import SmtpServer
from tests.ports import free_port
from tests.programs import write_program
from tests.receiver import Receiver, receiving
from tests.server.gunicorn import ROOT

HOME = "/opt/public-web-interface/current"
HOST = os.uname().nodename
MAIL = f"-i -- ops@example.com\nTo: ops@example.com\nSubject: public-web-interface on {HOST}\n\n{HOST}: "
"""The arguments of sendmail and the head of a mail."""


class Machine:
    """One with a release in use and a program sendmail."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mails, self.mail_dir, self.run = (directory / name for name in ("mails", "mail", "run"))
        self.environ = {"WATCH_MAIL": "ops@example.com"}
        current = directory / "current"
        for folder in (self.mail_dir, self.run, directory / "bin", current / ".venv" / "bin"):
            folder.mkdir(parents=True)
        for name in ("app", "static", "wsgi.py"):
            (current / name).symlink_to(ROOT / name)
        write_program(current / ".venv" / "bin" / "flask", f'exec {sys.executable} -m flask "$@"')
        self.program("sendmail", f'printf "%s\\n" "$*" >> {self.mails}; cat >> {self.mails}')
        self.program("sleep", "")
        script = (DEPLOY / "watch.sh").read_text()
        assert HOME in script
        write_program(directory / "watch.sh", script.replace(HOME, str(current)))

    def program(self, name: str, script: str) -> None:
        """Let this happen in place of that program."""
        write_program(self.directory / "bin" / name, script)

    def watch(self, arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        kept = {"PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", "MAIL_DIR": str(self.mail_dir)}
        return subprocess.run(
            [self.directory / "watch.sh", *arguments.split()],
            env=kept | {"RUNTIME_DIRECTORY": str(self.run)} | self.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def told(self, arguments: str) -> list[str]:
        """The mails of one run that succeeds."""
        self.mails.write_text("")
        run = self.watch(arguments)
        assert run.returncode == 0, run.stderr
        first, *found = self.mails.read_text().split(MAIL)
        assert not first
        return [mail.rstrip("\n") for mail in found]

    def pass_time(self, minutes: float) -> None:
        """Let what is remembered become older."""
        for file in self.run.iterdir():
            earlier = file.stat().st_mtime - minutes * 60
            os.utime(file, (earlier, earlier))


def refuse(mail_dir: Path, number: int) -> None:
    """Leave a message that the mail server has refused."""
    (mail_dir / "new").mkdir(exist_ok=True)
    (mail_dir / f"new/{time.time_ns()}.1.{number},tries=1,last={time.time():.3f},refused=550.demo").touch()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def webhook(machine: Machine) -> Iterator[Receiver]:
    """The only one to whom the machine tells what it finds."""
    with receiving() as receiver:
        machine.environ = {"WATCH_WEBHOOK": f"{receiver.address}/secret"}
        yield receiver


def texts_of(webhook: Receiver) -> list[str]:
    bodies = [json.loads(sent.content) for sent in webhook.sent]
    assert {sent.content_type for sent in webhook.sent} <= {"application/json"}
    assert all(body.keys() == {"text"} for body in bodies)
    return [body["text"] for body in bodies]


@pytest.fixture
def mail_server(machine: Machine) -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        machine.environ |= server.environ
        yield server


NEEDS_A_HAND = "the mail of public-web-interface needs a hand: "
REFUSED_CONNECTION = f"{NEEDS_A_HAND}CRITICAL - the mail server refused the connection: "
SEE = "; see public-web-interface mail list"
AWAY = f"{NEEDS_A_HAND}CRITICAL - MAIL_DIR='{{mail_dir}}' does not exist{SEE}"
FINE = "the mail of public-web-interface is fine again: OK - SMTP_HOST is not set; nothing is kept"
FAILED = (
    "public-web-interface@0 does not come up; see journalctl -u public-web-interface@0 -n 20, and public-web-interface"
    " check"
)
FAILED_1 = FAILED.replace("@0", "@1")
A_DAY = 24 * 60

Story = list[str | int | tuple[str, ...]]
"""What happens: minutes pass, the folder of the messages goes "away" or comes "back", or the script is run with these
arguments and tells this."""

A_ROUND: Story = [29, ("failure 0",)]
STORIES: dict[str, Story] = {
    "a fault once, and its end": [("mail",), "away", ("mail", AWAY), ("mail",), "back", ("mail", FINE), ("mail",)],
    "a fault that lasts, once a day": ["away", ("mail", AWAY), A_DAY - 5, ("mail",), 5, ("mail", AWAY), ("mail",)],
    "an instance that stays down, once a day": [
        ("failure 0", FAILED),
        *A_ROUND * 49,
        29,
        ("failure 0", FAILED),
        *A_ROUND,
    ],
    "each instance": [("failure 0", FAILED), ("failure 1", FAILED_1), ("failure 0",), ("failure 1",)],
    "an instance that came up and fails again": [("failure 0", FAILED), 31, ("failure 0", FAILED)],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_operator_is_told(machine: Machine, story: Story) -> None:
    for event in story:
        match event:
            case int(minutes):
                machine.pass_time(minutes)
            case "away":
                machine.mail_dir.rmdir()
            case "back":
                machine.mail_dir.mkdir()
            case (arguments, *expected):
                assert machine.told(arguments) == [text.format(mail_dir=machine.mail_dir) for text in expected]


def test_a_fault_that_is_over_after_a_minute_is_not_told(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    machine.program("sleep", f"test $1 = 60 && mkdir {machine.mail_dir}")

    assert machine.told("mail") == []
    assert machine.mail_dir.exists()


def test_another_fault_is_told_and_other_words_or_numbers_are_not(machine: Machine, mail_server: SmtpServer) -> None:
    mail_server.replies = {"connect": "554 5.3.2 Down, ask for 4711"}
    (first,) = machine.told("mail")
    mail_server.replies = {"connect": "554 5.3.2 Down, ask for 4712abc"}
    assert machine.told("mail") == []
    mail_server.replies = {}
    refuse(machine.mail_dir, 1)
    assert machine.told("mail") == [f"{NEEDS_A_HAND}WARNING - 1 refused{SEE}"]
    refuse(machine.mail_dir, 2)
    assert machine.told("mail") == []

    assert first.startswith(f"{REFUSED_CONNECTION}554 5.3.2 Down")


LONG = "x" * 131_000  # a variable cannot have many more


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [("MAIL_DIR", "/missing", "CRITICAL - MAIL_DIR='/missing' does not exist"), ("MAIL_FROM", LONG, LONG)],
    ids=["a fault of the mail", "a text of any length"],
)
def test_a_webhook_is_told_the_same(machine: Machine, webhook: Receiver, name: str, value: str, fault: str) -> None:
    machine.environ[name] = value
    run = machine.watch("mail")

    assert run.returncode == 0, run.stderr
    (text,) = texts_of(webhook)
    assert text.startswith(f"{HOST}: {NEEDS_A_HAND}")
    assert fault in text
    assert text.endswith(SEE)


def test_of_the_longest_reply_of_the_mail_server_a_webhook_is_told_300_characters(
    machine: Machine, webhook: Receiver, mail_server: SmtpServer
) -> None:
    """Each of its octets that is no UTF-8 becomes a character of three: an argument of a program may not be as long."""
    mail_server.replies = {"connect": "554 " + "\udcf1" * 65_000}
    run = machine.watch("mail")

    assert run.returncode == 0, run.stderr
    quoted = "554 " + "\N{REPLACEMENT CHARACTER}" * 296 + "\N{HORIZONTAL ELLIPSIS}"
    assert texts_of(webhook) == [f"{HOST}: {REFUSED_CONNECTION}{quoted}; nothing is kept{SEE}"]


def test_nothing_is_posted_without_its_text(machine: Machine, webhook: Receiver) -> None:
    machine.mail_dir.rmdir()
    machine.program("jq", "exit 1")
    run = machine.watch("mail")

    assert webhook.sent == []
    assert (run.returncode, "nobody was told" in run.stderr) == (1, True)


def test_a_webhook_that_refuses_what_it_is_told_was_told_nothing(machine: Machine, webhook: Receiver) -> None:
    machine.mail_dir.rmdir()
    webhook.status = HTTPStatus.INTERNAL_SERVER_ERROR
    runs = [machine.watch("mail") for _ in range(2)]

    assert len(webhook.sent) == 2
    assert [(run.returncode, "nobody was told" in run.stderr) for run in runs] == [(1, True)] * 2


def test_one_way_that_works_is_enough(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    machine.environ["WATCH_WEBHOOK"] = f"http://127.0.0.1:{free_port()}"

    assert [machine.told("mail") for _ in range(2)] == [[AWAY.format(mail_dir=machine.mail_dir)], []]


@pytest.mark.parametrize("arguments", ["mail", "failure 0"])
@pytest.mark.parametrize("webhook", ["", "closed"])
def test_what_nobody_was_told_is_an_error_and_is_told_later(machine: Machine, arguments: str, webhook: str) -> None:
    machine.mail_dir.rmdir()
    machine.environ = {"WATCH_WEBHOOK": webhook and f"http://127.0.0.1:{free_port()}", "WATCH_MAIL": ""}
    runs = [machine.watch(arguments) for _ in range(2)]
    machine.environ = {"WATCH_MAIL": "ops@example.com"}

    assert [(run.returncode, "nobody was told" in run.stderr) for run in runs] == [(1, True)] * 2
    assert len(machine.told(arguments)) == 1
