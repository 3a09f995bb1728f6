"""deploy/watch.sh with the real `mail status`; what tells the operator is played by the test."""

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
from tests.programs import run, write_program
from tests.receiver import Receiver, receiving
from tests.server.gunicorn import ROOT
from tests.timeline import Step, play

IN_ITS_RELEASE = "/opt/public-web-interface/current && .venv/bin"
HOST = os.uname().nodename
MAIL = f"-i -- ops@example.com\nTo: ops@example.com\nSubject: public-web-interface on {HOST}\n\n{HOST}: "
"""The arguments of sendmail and the head of a mail."""
BY_MAIL = {"WATCH_MAIL": "ops@example.com"}


class Machine:
    """One with a program sendmail, on which this clone is the release in use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mails, self.mail_dir, self.run = (directory / name for name in ("mails", "mail", "run"))
        self.environ = BY_MAIL
        for folder in (self.mail_dir, self.run, directory / "bin"):
            folder.mkdir()
        self.program("sendmail", f'printf "%s\\n" "$*" >> {self.mails}; cat >> {self.mails}')
        self.program("sleep", "")
        script = (DEPLOY / "watch.sh").read_text()
        assert IN_ITS_RELEASE in script
        write_program(directory / "watch.sh", script.replace(IN_ITS_RELEASE, f"{ROOT} && {sys.prefix}/bin"))

    def program(self, name: str, script: str) -> None:
        """Let this happen in place of that program."""
        write_program(self.directory / "bin" / name, script)

    def watch(self, arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        kept = {"PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", "MAIL_DIR": str(self.mail_dir)}
        environ = kept | {"RUNTIME_DIRECTORY": str(self.run)} | self.environ
        return run(self.directory / "watch.sh", *arguments.split(), env=environ)

    def told(self, arguments: str) -> list[str]:
        """The mails of one run that succeeds."""
        self.mails.write_text("")
        watched = self.watch(arguments)
        assert watched.returncode == 0, watched.stderr
        first, *found = self.mails.read_text().split(MAIL)
        assert not first
        return [mail.rstrip("\n") for mail in found]

    def pass_time(self, seconds: float, remembered: str = "*") -> None:
        """Let what is remembered become older."""
        for file in self.run.glob(remembered):
            earlier = file.stat().st_mtime - seconds
            os.utime(file, (earlier, earlier))


def refuse(mail_dir: Path, number: int) -> None:
    """Leave a message that the mail server has refused."""
    (mail_dir / "new").mkdir(exist_ok=True)
    (mail_dir / f"new/{time.time_ns()}.1.{number},tries=1,last={time.time():.3f},refused=550.demo").touch()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def webhook() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


NEEDS_A_HAND = "the mail of public-web-interface needs attention: "
SEE = "; see public-web-interface mail list"
AWAY = f"{NEEDS_A_HAND}CRITICAL - MAIL_DIR='{{mail_dir}}' does not exist{SEE}"
FINE = "the mail of public-web-interface is fine again: OK - SMTP_HOST is not set; no messages"
FAILED = (
    "public-web-interface@0 does not come up; see journalctl -u public-web-interface@0 -n 20, and public-web-interface"
    " check"
)
TEXTS = {"away": AWAY, "fine": FINE, "@0 is down": FAILED, "@1 is down": FAILED.replace("@0", "@1")}
DAY, LATER = 86_400, 90_000
STORIES = {
    "a fault, once a day, and its end": (
        f"0 MAIL_DIR is away; 0 watch mail -> away; {DAY - 300} watch mail -> nothing; {DAY} watch mail -> away;"
        f" {DAY} MAIL_DIR is back; {DAY} watch mail -> fine; {DAY} watch mail -> nothing"
    ),
    "an instance that stays down, once a day": (
        "0 watch failure 0 -> @0 is down; 1740 watch failure 0 -> nothing; 3480 watch failure 0 -> nothing;"
        f" {LATER} @0 was down all day; {LATER} watch failure 0 -> @0 is down;"
        f" {LATER} watch failure 0 -> nothing"
    ),
    "each instance": (
        "0 watch failure 0 -> @0 is down; 0 watch failure 1 -> @1 is down; 0 watch failure 0 -> nothing;"
        " 0 watch failure 1 -> nothing"
    ),
    "an instance that came up and fails again": "0 watch failure 0 -> @0 is down; 1860 watch failure 0 -> @0 is down",
}
"""Timelines of what happens, and of runs of the script with these arguments, each with what the operator is told."""


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_operator_is_told(machine: Machine, story: str) -> None:
    names = {text.format(mail_dir=machine.mail_dir): name for name, text in TEXTS.items()}
    now = 0.0

    def happen(step: Step) -> str:
        nonlocal now
        # What the instance has failed at meanwhile is younger.
        machine.pass_time(step.second - now, "told-*" if "all day" in step.event else "*")
        now = step.second
        match step.event.split():
            case ["watch", *arguments]:
                return ", ".join(names.get(text, text) for text in machine.told(" ".join(arguments))) or "nothing"
            case ["MAIL_DIR", "is", "away"]:
                machine.mail_dir.rmdir()
            case ["MAIL_DIR", "is", "back"]:
                machine.mail_dir.mkdir()
            case ["@0", "was", "down", "all", "day"]:
                pass
            case _:
                pytest.fail(f"no such event: {step.event}")
        return ""

    play(story, happen)


def test_a_fault_that_is_over_after_a_minute_is_not_told(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    machine.program("sleep", f"test $1 = 60 && mkdir {machine.mail_dir}")

    assert machine.told("mail") == []
    assert machine.mail_dir.exists()


def test_another_fault_is_told_and_other_words_or_numbers_are_not(machine: Machine) -> None:
    with SmtpServer({"connect": "554 5.3.2 Down, ask for 4711"}) as mail_server:
        machine.environ = BY_MAIL | mail_server.environ
        (first,) = machine.told("mail")
        mail_server.replies = {"connect": "554 5.3.2 Down, ask for 4712abc"}
        assert machine.told("mail") == []
        mail_server.replies = {}
        refuse(machine.mail_dir, 1)
        assert machine.told("mail") == [f"{NEEDS_A_HAND}WARNING - 1 refused{SEE}"]
        refuse(machine.mail_dir, 2)
        assert machine.told("mail") == []

    assert first.startswith(f"{NEEDS_A_HAND}CRITICAL - the mail server refused the connection: 554 5.3.2 Down")


def test_a_webhook_is_told_a_text_of_any_length(machine: Machine, webhook: Receiver) -> None:
    machine.environ = {"WATCH_WEBHOOK": f"{webhook.address}/secret", "MAIL_FROM": "x" * 131_000}

    assert machine.watch("mail").returncode == 0

    (sent,) = webhook.sent
    assert (sent.path, sent.content_type) == ("/secret", "application/json")
    body = json.loads(sent.content)
    assert body.keys() == {"text"}
    assert body["text"].startswith(f"{HOST}: {NEEDS_A_HAND}CRITICAL - invalid settings: MAIL_FROM=")
    assert body["text"].endswith(SEE)
    assert machine.environ["MAIL_FROM"] in body["text"]  # no argument of a program may be as long


def test_one_way_that_works_is_enough(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    machine.environ = BY_MAIL | {"WATCH_WEBHOOK": f"http://127.0.0.1:{free_port()}"}

    assert [machine.told("mail") for _ in range(2)] == [[AWAY.format(mail_dir=machine.mail_dir)], []]


@pytest.mark.parametrize(("arguments", "way"), [("mail", "none"), ("failure 0", "a webhook that refuses")])
def test_what_nobody_was_told_is_an_error_and_is_told_later(
    machine: Machine, webhook: Receiver, arguments: str, way: str
) -> None:
    machine.mail_dir.rmdir()
    webhook.status = HTTPStatus.INTERNAL_SERVER_ERROR
    machine.environ = {"WATCH_WEBHOOK": "" if way == "none" else webhook.address, "WATCH_MAIL": ""}
    watched = machine.watch(arguments)
    machine.environ = BY_MAIL

    assert (watched.returncode, "nobody was told" in watched.stderr) == (1, True)
    assert len(machine.told(arguments)) == 1
