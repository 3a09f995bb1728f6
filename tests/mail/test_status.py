"""flask mail status: one line and an exit status, as Nagios reads them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import Result
from freezegun import freeze_time

from app.mail.smtp import SmtpSender
from app.mail.spool import Spool
from tests.mail import disks
from tests.mail.command import FLASK_MAIL
from tests.mail.conftest import AGES, NAMES, MailCommand, keep, keep_in_state, letter
from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import ROOT

MINUTE, HOUR = 60, 3600

STATUS = [*FLASK_MAIL, "status"]

NEW = NAMES["new"]
BEING_SENT = ",tries=1,last={stored},waiting=.demo.sending"

Messages = list[tuple[str, int]]
"""The end of each message's name, and its age in seconds."""

CASES: dict[str, tuple[Messages, int, str]] = {
    "nothing": ([], 0, "OK - nothing is kept"),
    "one that waits": ([(NEW, 14 * MINUTE)], 0, "OK - 1 waiting; the oldest waits for 14 min"),
    "on the first threshold": ([(NEW, 15 * MINUTE)], 0, "OK - 1 waiting; the oldest waits for 15 min"),
    "above the first threshold": (
        [(NEW, 15 * MINUTE + 1), (NEW, 1)],
        1,
        "WARNING - 2 waiting; the oldest waits for 15 min",
    ),
    "on the second threshold": ([(NEW, HOUR)], 1, "WARNING - 1 waiting; the oldest waits for 1 h"),
    "above the second threshold": ([(NEW, HOUR + 1)], 2, "CRITICAL - 1 waiting; the oldest waits for 1 h"),
    "refused": ([(NAMES["refused"], 0)], 1, "WARNING - 1 refused"),
    "in doubt": ([(NAMES["in doubt"], 0)], 1, "WARNING - 1 in doubt"),
    "being sent by a process that died": ([(BEING_SENT, 5)], 1, "WARNING - 1 in doubt"),
    "given up": ([(NAMES["given up"], AGES["given up"])], 2, "CRITICAL - 1 given up"),
    "some of each": (
        [*((NAMES[state], AGES.get(state, 0)) for state in ("given up", "refused", "in doubt")), (NEW, 1200), (NEW, 1)],
        2,
        "CRITICAL - 2 waiting, 1 in doubt, 1 refused, 1 given up; the oldest waits for 20 min",
    ),
}


def outcome(result: Result) -> tuple[int, str, str]:
    return result.exit_code, result.stdout, result.stderr


@freeze_time("2026-11-22 08:00:00")
@pytest.mark.parametrize(("messages", "level", "line"), CASES.values(), ids=CASES)
def test_the_thresholds(
    mail: MailCommand,
    absent_server: SmtpServer,
    mail_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    messages: Messages,
    level: int,
    line: str,
) -> None:
    for number, (name, age) in enumerate(messages):
        keep(mail_dir, letter(number), name, age=age)
    monkeypatch.setattr(SmtpSender, "check", lambda _: None)

    assert outcome(mail("status", server=absent_server)) == (level, f"{line}\n", "")


def test_the_mail_server_is_asked(mail: MailCommand) -> None:
    with SmtpServer(security="starttls", account=("web", "right")) as server:
        result = mail("status", server=server)

    assert outcome(result) == (0, "OK - nothing is kept\n", "")
    assert server.arrivals == []


def test_wrong_credentials_are_critical(mail: MailCommand) -> None:
    with SmtpServer(security="starttls", account=("web", "right")) as server:
        result = mail("status", server=server, SMTP_PASSWORD="wrong")

    assert result.exit_code == 2
    assert result.stdout.startswith("CRITICAL - the mail server refused SMTP_USERNAME with SMTP_PASSWORD: 535 ")
    assert result.stdout.endswith("; nothing is kept\n")


def test_a_mail_server_that_is_down_is_critical_whatever_is_kept(
    mail: MailCommand, absent_server: SmtpServer, mail_dir: Path
) -> None:
    keep_in_state(mail_dir, letter(1), "refused")

    result = mail("status", server=absent_server)

    assert outcome(result) == (
        2,
        "CRITICAL - the mail server cannot be reached: Connection refused; 1 refused\n",
        "",
    )


def test_a_mail_server_that_hangs_is_critical_within_the_time_allowed(mail: MailCommand) -> None:
    with SmtpServer(replies={"EHLO": Act.HANG}) as server:
        result = mail("status", server=server, SMTP_TIMEOUT="0.3")

    assert outcome(result) == (
        2,
        "CRITICAL - the mail server did not answer within SMTP_TIMEOUT; nothing is kept\n",
        "",
    )


def test_without_a_mail_server_it_counts_what_is_stored(mail: MailCommand, mail_dir: Path) -> None:
    for number, state in enumerate(NAMES):
        keep_in_state(mail_dir, letter(number), state)

    assert outcome(mail("status")) == (0, f"OK - SMTP_HOST is not set; {len(NAMES)} stored\n", "")


@pytest.mark.parametrize("with_server", [False, True])
def test_a_directory_that_is_not_there_is_critical_and_not_made(
    mail: MailCommand, absent_server: SmtpServer, mail_dir: Path, *, with_server: bool
) -> None:
    for folder in mail_dir.iterdir():
        folder.rmdir()
    mail_dir.rmdir()

    result = mail("status", server=absent_server if with_server else None)

    assert outcome(result) == (2, f"CRITICAL - MAIL_DIR='{mail_dir}' does not exist\n", "")
    assert not mail_dir.exists()


def test_a_directory_that_no_service_has_used_is_well_and_stays_empty(mail: MailCommand, mail_dir: Path) -> None:
    for folder in mail_dir.iterdir():
        folder.rmdir()

    assert outcome(mail("status")) == (0, "OK - SMTP_HOST is not set; nothing is kept\n", "")
    assert list(mail_dir.iterdir()) == []


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        pytest.param(disks.READ_ONLY, "cannot be written", id="read-only"),
        pytest.param(disks.FULL, "takes no message: No space left on device", id="full"),
    ],
)
def test_a_disk_that_takes_no_message_is_critical(mail_dir: Path, tmp_path: Path, disk: str, said: str) -> None:
    result = disks.run(disk, tmp_path, STATUS)

    assert (result.returncode, result.stderr) == (2, "")
    assert result.stdout == f"CRITICAL - MAIL_DIR='{mail_dir}' {said}\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (ZeroDivisionError("secret"), "ZeroDivisionError"),
    ],
)
def test_what_nobody_foresaw_is_critical_in_one_line(
    mail: MailCommand, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(_: Spool) -> None:
        raise error

    monkeypatch.setattr(Spool, "kept", fail)

    assert outcome(mail("status")) == (2, f"CRITICAL - the mail cannot be checked: {said}\n", "")


def test_the_help_names_the_thresholds(mail: MailCommand) -> None:
    text = " ".join(mail("status", "--help").stdout.split())

    assert (
        "OK, exit status 0 none of the following"
        " WARNING, exit status 1 the oldest waiting message is older than 15 min, or a message is refused or in doubt"
        " CRITICAL, exit status 2 the oldest waiting message is older than 1 h, or a message is given up,"
        " or the mail server would take no message now, or MAIL_DIR does not exist, cannot be written or is full,"
    ) in text


def typed(command: list[str], **environ: str) -> tuple[int, str, str]:
    """The outcome of a command as an operator types it."""
    result = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False
    )
    return result.returncode, result.stdout, result.stderr


def test_it_is_one_line_as_an_operator_types_it(mail_dir: Path) -> None:
    keep(mail_dir, letter(1))

    assert typed(STATUS, MAIL_DIR=str(mail_dir)) == (0, "OK - SMTP_HOST is not set; 1 stored\n", "")
