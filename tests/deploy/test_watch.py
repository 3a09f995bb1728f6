"""deploy/watch.sh with the real `mail status`; what tells the operator is played by the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.deploy.site import DEPLOY
from tests.mail.server import SmtpServer
from tests.ports import free_port
from tests.programs import write_program
from tests.server.gunicorn import ROOT

HOME = "/opt/public-web-interface/current"
SENDMAIL = 'printf "%s\\n" "$*" >> "{0}/mails"; cat >> "{0}/mails"'
PAUSE = '"{0}/meanwhile" "$@"'
MINUTE, DAY = 60, 24 * 60 * 60


@dataclass
class Machine:
    """One with a release in use and a program sendmail."""

    directory: Path
    environ: dict[str, str] = field(default_factory=lambda: {"WATCH_MAIL": "ops@example.com"})

    def __post_init__(self) -> None:
        current = self.directory / "current"
        (self.directory / "run").mkdir()
        (current / ".venv" / "bin").mkdir(parents=True)
        for name in ("app", "static", "wsgi.py"):
            (current / name).symlink_to(ROOT / name)
        write_program(current / ".venv" / "bin" / "flask", f'exec {sys.executable} -m flask "$@"')
        (self.directory / "bin").mkdir()
        write_program(self.directory / "bin" / "sendmail", SENDMAIL.format(self.directory))
        write_program(self.directory / "bin" / "sleep", PAUSE.format(self.directory))
        self.meanwhile("")
        script = (DEPLOY / "watch.sh").read_text()
        assert HOME in script
        write_program(self.directory / "watch.sh", script.replace(HOME, str(current)))
        self.mail_dir.mkdir()

    def meanwhile(self, script: str) -> None:
        """Let this happen in the minute after `mail status` was not OK."""
        write_program(self.directory / "meanwhile", script)

    @property
    def mail_dir(self) -> Path:
        return self.directory / "mail"

    def watch(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {"PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", "MAIL_DIR": str(self.mail_dir)}
        return subprocess.run(
            [self.directory / "watch.sh", *arguments],
            env=kept | {"RUNTIME_DIRECTORY": str(self.directory / "run")} | self.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def told(self, *arguments: str) -> list[str]:
        """The mails of one run."""
        mails = self.directory / "mails"
        mails.unlink(missing_ok=True)
        run = self.watch(*arguments)
        assert run.returncode == 0, run.stderr
        text = mails.read_text() if mails.exists() else ""
        host = os.uname().nodename
        head = f"-i -- ops@example.com\nTo: ops@example.com\nSubject: public-web-interface on {host}\n\n{host}: "
        first, *found = text.split(head)
        assert not first
        return [mail.rstrip("\n") for mail in found]

    def age(self, seconds: float) -> None:
        """Let so much time pass."""
        for file in (self.directory / "run").iterdir():
            earlier = file.stat().st_mtime - seconds
            os.utime(file, (earlier, earlier))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@contextmanager
def webhook() -> Iterator[tuple[str, list[bytes]]]:
    """The address of one, and what it was told."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/secret", bodies
        server.shutdown()


def refuse(mail_dir: Path, number: int) -> None:
    """Leave a message that the mail server has refused."""
    file = mail_dir / f"new/{time.time_ns()}.1.{number},tries=1,last={time.time():.3f},refused=550.demo"
    file.parent.mkdir(exist_ok=True)
    file.touch()


NEEDS_A_HAND = "the mail of public-web-interface needs a hand: "
SEE = "; see public-web-interface mail list"
AWAY = f"{NEEDS_A_HAND}CRITICAL - MAIL_DIR='{{}}' does not exist{SEE}"


def test_a_fault_of_the_mail_is_told_once_and_so_is_its_end(machine: Machine) -> None:
    assert machine.told("mail") == []
    machine.mail_dir.rmdir()
    assert machine.told("mail") == [AWAY.format(machine.mail_dir)]
    assert machine.told("mail") == []
    machine.mail_dir.mkdir()
    assert machine.told("mail") == [
        "the mail of public-web-interface is fine again: OK - SMTP_HOST is not set; nothing is kept"
    ]
    assert machine.told("mail") == []


def test_the_same_fault_is_told_once_a_day(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    machine.told("mail")

    machine.age(DAY - 5 * MINUTE)
    assert machine.told("mail") == []
    machine.age(5 * MINUTE)
    assert machine.told("mail") == [AWAY.format(machine.mail_dir)]
    assert machine.told("mail") == []


def test_a_fault_that_is_over_after_a_minute_is_not_told(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    machine.meanwhile(f"test $1 = 60 && mkdir {machine.mail_dir}")

    assert machine.told("mail") == []
    assert machine.mail_dir.exists()


def test_another_fault_is_told_and_other_words_or_numbers_are_not(machine: Machine) -> None:
    with SmtpServer() as server:
        machine.environ |= server.environ
        server.replies = {"connect": "554 5.3.2 Down, ask for 4711"}
        (first,) = machine.told("mail")
        server.replies = {"connect": "554 5.3.2 Down, ask for 4712abc"}
        assert machine.told("mail") == []
        server.replies = {}
        refuse(machine.mail_dir, 1)
        (second,) = machine.told("mail")
        refuse(machine.mail_dir, 2)
        assert machine.told("mail") == []

    assert first.startswith(f"{NEEDS_A_HAND}CRITICAL - the mail server refused the connection: 554 5.3.2 Down")
    assert second == f"{NEEDS_A_HAND}WARNING - 1 refused{SEE}"


def test_a_webhook_is_told_the_same_and_no_program_is_given_its_address(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    with webhook() as (address, bodies):
        machine.environ = {"WATCH_WEBHOOK": address}
        run = machine.watch("mail")

    assert run.returncode == 0, run.stderr
    assert [json.loads(body) for body in bodies] == [
        {"text": f"{os.uname().nodename}: {AWAY.format(machine.mail_dir)}"}
    ]


def test_of_the_longest_reply_of_the_mail_server_a_webhook_is_told_300_characters(machine: Machine) -> None:
    """Each of its octets that is no UTF-8 becomes a character of three: an argument of a program may not be as long."""
    with SmtpServer({"connect": "554 " + "\udcf1" * 65_000}) as server, webhook() as (address, bodies):
        machine.environ = server.environ | {"WATCH_WEBHOOK": address}
        run = machine.watch("mail")

    assert run.returncode == 0, run.stderr
    quoted = "554 " + "\N{REPLACEMENT CHARACTER}" * 296 + "\N{HORIZONTAL ELLIPSIS}"
    told = f"{NEEDS_A_HAND}CRITICAL - the mail server refused the connection: {quoted}; nothing is kept{SEE}"
    assert [json.loads(body) for body in bodies] == [{"text": f"{os.uname().nodename}: {told}"}]


def test_a_webhook_is_told_a_text_of_any_length(machine: Machine) -> None:
    value = "x" * 131_000  # a variable cannot have many more
    with webhook() as (address, bodies):
        machine.environ = {"WATCH_WEBHOOK": address, "MAIL_FROM": value}
        run = machine.watch("mail")

    assert run.returncode == 0, run.stderr
    (text,) = (json.loads(body)["text"] for body in bodies)
    assert f"{NEEDS_A_HAND}MAIL_FROM='{value}': expected " in text
    assert text.endswith(SEE)


def test_nothing_is_posted_without_its_text(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    write_program(machine.directory / "bin" / "jq", "exit 1")
    with webhook() as (address, bodies):
        machine.environ = {"WATCH_WEBHOOK": address}
        run = machine.watch("mail")

    assert bodies == []
    assert (run.returncode, "nobody was told" in run.stderr) == (1, True)


def test_one_way_that_works_is_enough(machine: Machine) -> None:
    machine.mail_dir.rmdir()
    machine.environ["WATCH_WEBHOOK"] = f"http://127.0.0.1:{free_port()}"

    assert machine.told("mail") == [AWAY.format(machine.mail_dir)]
    assert machine.told("mail") == []


@pytest.mark.parametrize("command", [["mail"], ["failure", "0"]], ids=["mail", "failure"])
@pytest.mark.parametrize("webhook", ["", "closed"])
def test_what_nobody_was_told_is_an_error_and_is_told_later(machine: Machine, command: list[str], webhook: str) -> None:
    machine.mail_dir.rmdir()
    machine.environ = {"WATCH_WEBHOOK": webhook and f"http://127.0.0.1:{free_port()}", "WATCH_MAIL": ""}
    for _ in range(2):
        run = machine.watch(*command)
        assert run.returncode == 1
        assert "nobody was told" in run.stderr
    machine.environ = {"WATCH_MAIL": "ops@example.com"}

    assert len(machine.told(*command)) == 1


FAILED = (
    "public-web-interface@0 does not come up; see journalctl -u public-web-interface@0 -n 20, and public-web-interface"
    " check"
)


def test_an_instance_that_does_not_come_up_is_told_once_a_day(machine: Machine) -> None:
    def half_an_hour_later() -> list[str]:
        machine.age(29 * MINUTE)
        return machine.told("failure", "0")

    assert machine.told("failure", "0") == [FAILED]
    assert [half_an_hour_later() for _ in range(49)] == [[]] * 49
    assert half_an_hour_later() == [FAILED]
    assert half_an_hour_later() == []
    assert machine.told("failure", "1") == [FAILED.replace("@0", "@1")]


def test_an_instance_that_came_up_and_fails_again_is_told_again(machine: Machine) -> None:
    machine.told("failure", "0")
    machine.age(31 * MINUTE)

    assert machine.told("failure", "0") == [FAILED]
