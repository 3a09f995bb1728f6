"""flask mail drop: what it deletes, what it asks, and what it leaves alone."""

from __future__ import annotations

import logging
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from app.mail.spool import Spool
from tests.mail import disks
from tests.mail.command import FLASK_MAIL, run
from tests.mail.conftest import NAMES, REQUEST, MailCommand, keep, keep_in_state, kept, letter
from tests.mail.server import SmtpServer
from tests.mail.service import DAY

DROP = [*FLASK_MAIL, "drop"]


@pytest.fixture
def dropped(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the log tells of dropped messages."""
    caplog.set_level(logging.INFO, logger="app.mail.cli")
    return lambda: caplog.messages


def left(mail_dir: Path) -> list[str]:
    return [message.local_part for message in kept(mail_dir)]


def answer(words: bytes, mail_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a terminal into which somebody types."""
    typing, terminal = pty.openpty()
    try:
        os.write(typing, words)
        return run([*DROP, *arguments], mail_dir, stdin=terminal)
    finally:
        os.close(typing)
        os.close(terminal)


@pytest.mark.parametrize("name", ["<1@example.com>", "1@example.com", "1"])
def test_only_the_named_message_is_deleted_and_the_log_names_it_and_no_more(
    mail: MailCommand, mail_dir: Path, dropped: Callable[[], list[str]], name: str
) -> None:
    keep(mail_dir, letter(1))
    keep(mail_dir, letter(2))

    result = mail("drop", "--yes", name)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 dropped\n")
    assert left(mail_dir) == ["2"]
    assert dropped() == ["message 1 dropped"]


def test_several_can_be_named_in_any_way_and_twice(mail: MailCommand, mail_dir: Path) -> None:
    keep(mail_dir, letter(f"{REQUEST}.0123456789abcdef"))
    keep(mail_dir, letter(2))
    keep(mail_dir, letter(3))

    result = mail("drop", "--yes", "3f0c9a1b", REQUEST, "<2@example.com>")

    assert (result.exit_code, result.stderr) == (0, "2 dropped\n")
    assert left(mail_dir) == ["3"]


@pytest.mark.parametrize(
    ("state", "numbers"),
    [
        ("waiting", "01"),
        ("in-doubt", "23"),
        ("refused", "4"),
        ("given-up", "5"),
        ("Given-Up", "5"),
        ("stored", ""),
    ],
)
def test_all_in_a_state_are_deleted_and_no_other(
    mail: MailCommand,
    absent_server: SmtpServer,
    mail_dir: Path,
    dropped: Callable[[], list[str]],
    state: str,
    numbers: str,
) -> None:
    for number, its_state in enumerate(NAMES):
        keep_in_state(mail_dir, letter(number), its_state)

    result = mail("drop", "--yes", "--state", state, server=absent_server)

    assert (result.exit_code, result.stderr) == (0, f"{len(numbers)} dropped\n")
    assert set(dropped()) == {f"message {number} dropped" for number in numbers}
    assert set(left(mail_dir)) == set("012345").difference(numbers)


def test_without_a_mail_server_they_are_all_stored(mail: MailCommand, mail_dir: Path) -> None:
    for number, state in enumerate(NAMES):
        keep_in_state(mail_dir, letter(number), state)

    assert mail("drop", "--yes", "--state", "refused").stderr == "0 dropped\n"
    assert mail("drop", "--yes", "--state", "stored").stderr == f"{len(NAMES)} dropped\n"
    assert left(mail_dir) == []


@pytest.mark.parametrize(
    ("age", "seconds"), [("45s", 45), ("90m", 5_400), ("12h", 43_200), ("30d", 30 * DAY), ("0s", 0)]
)
def test_only_what_is_older_is_deleted(mail: MailCommand, mail_dir: Path, age: str, seconds: int) -> None:
    keep(mail_dir, letter(1), age=seconds + 60)
    keep(mail_dir, letter(2), age=seconds - 60)

    result = mail("drop", "--yes", "--state", "stored", "--older-than", age)

    assert result.stderr == ("2 dropped\n" if seconds == 0 else "1 dropped\n")
    assert left(mail_dir) == ([] if seconds == 0 else ["2"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either IDs or --state"),
        (["--yes"], "give either IDs or --state"),
        (["--older-than", "1d"], "give either IDs or --state"),
        (["--state", "stored", "1@example.com"], "give either IDs or --state"),
        (["--older-than", "1d", "1@example.com"], "--older-than needs --state"),
        (
            ["--state", "lost"],
            "Invalid value for '--state': 'lost' is not one of 'waiting', 'in-doubt', 'refused', 'given-up', 'stored'.",
        ),
        *(
            (
                ["--state", "stored", "--older-than", age],
                f"Invalid value for '--older-than': '{age}' is not an age such as 30d, 12h, 90m or 45s",
            )
            for age in ("30", "d", "-1d", "1.5h", "1 d", "1w", "1d2h", "٣d", "")
        ),
    ],
)
def test_what_is_not_clear_is_a_usage_error_that_deletes_nothing(
    mail: MailCommand, mail_dir: Path, arguments: list[str], said: str
) -> None:
    keep(mail_dir, letter(1), age=90 * DAY)

    result = mail("drop", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"\nError: {said}\n")
    assert left(mail_dir) == ["1"]


@pytest.mark.parametrize("arguments", [["<1@example.com>", "<2@example.com>"], ["--state", "stored"]])
def test_without_a_terminal_the_answer_is_no(mail: MailCommand, mail_dir: Path, arguments: list[str]) -> None:
    keep(mail_dir, letter(1), age=7_300)
    keep(mail_dir, letter(2), age=60)

    result = mail("drop", *arguments)

    assert result.exit_code == 1
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["MESSAGE-ID", "1", "2", "[y/N]:"]
    assert result.stderr == "Aborted!\n"
    assert left(mail_dir) == ["1", "2"]


@pytest.mark.parametrize("words", [b"n\n", b"\n", b"\x04"], ids=["no", "nothing", "end of file"])
def test_a_no_in_the_terminal_deletes_nothing(mail_dir: Path, words: bytes) -> None:
    keep(mail_dir, letter(1))

    result = answer(words, mail_dir, "1@example.com")

    assert result.returncode == 1
    assert result.stdout.endswith("Delete permanently (1)? [y/N]: ")
    assert result.stderr.splitlines()[-1] == "Aborted!"
    assert left(mail_dir) == ["1"]


def test_a_yes_in_the_terminal_deletes_what_was_shown(mail_dir: Path) -> None:
    for number in range(13):
        keep(mail_dir, letter(number), age=1_000 - number)

    result = answer(b"y\n", mail_dir, "--state", "stored")

    assert result.returncode == 0
    shown = [line.split()[-1] for line in result.stdout.splitlines()[1:-1]]
    assert shown == [str(number) for number in range(13)]
    assert result.stdout.endswith("Delete permanently (13)? [y/N]: ")
    assert result.stderr.endswith("13 dropped\n")
    assert left(mail_dir) == []


def test_a_name_that_is_not_there_leaves_all_where_they_are(mail: MailCommand, mail_dir: Path) -> None:
    keep(mail_dir, letter(1))

    result = mail("drop", "--yes", "<1@example.com>", "<9@example.com>", "dead-beef")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: 9 is not in MAIL_DIR\n"
    assert left(mail_dir) == ["1"]


def test_so_does_a_name_of_several(mail: MailCommand, mail_dir: Path) -> None:
    for number in range(2):
        keep(mail_dir, letter(f"{REQUEST}.{number:016x}"))
    keep(mail_dir, letter(1))

    result = mail("drop", "--yes", "<1@example.com>", "3F0C-9A1B")

    assert result.exit_code == 1
    assert result.stderr.startswith("Error: 3F0C-9A1B stands for several messages. Name one of them:\n")
    assert len(left(mail_dir)) == 3


@pytest.mark.parametrize("arguments", [["1@example.com"], ["--state", "stored"]])
def test_what_is_being_handed_over_is_skipped(
    mail: MailCommand, mail_dir: Path, dropped: Callable[[], list[str]], arguments: list[str]
) -> None:
    claim = Spool(mail_dir).store(letter(1))

    result = mail("drop", "--yes", *arguments)
    claim.release()

    assert result.exit_code == 1
    assert result.stderr == ("1 is skipped: the service is sending it or has just tried\n0 dropped\n")
    assert (left(mail_dir), dropped()) == (["1"], [])


def test_a_message_that_cannot_be_removed_is_told_in_one_line(
    mail: MailCommand, mail_dir: Path, monkeypatch: pytest.MonkeyPatch, dropped: Callable[[], list[str]]
) -> None:
    keep(mail_dir, letter(1))

    def refuse(_: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refuse)
    result = mail("drop", "--yes", "1@example.com")

    assert result.exit_code == 1
    assert result.stderr == "1 stays: Operation not permitted\n0 dropped\n"
    assert dropped() == []


def test_it_deletes_nothing_on_a_read_only_disk(undelivered: Callable[..., None], tmp_path: Path) -> None:
    undelivered(letter(1))

    result = disks.run(disks.READ_ONLY, tmp_path, [*DROP, "--yes", "1@example.com"])

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Error: MAIL_DIR cannot be written, so no message could be removed\n"
