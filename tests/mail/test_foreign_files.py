"""Files in MAIL_DIR that the service has not named, or that are no files: ignored and left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mail.conftest import NAMES, MailCommand, arrived, keep, kept, letter
from tests.mail.server import SmtpServer

NAME = f"1700000000000000000.7.3{NAMES['waiting']}"
"""The name of the message ``<3@example.com>``."""

CONTENT = letter(3).content


def holding_a_message(path: Path) -> None:
    path.write_bytes(CONTENT)


def a_link_to_a_message(path: Path) -> None:
    message = path.parents[2] / "elsewhere"
    message.write_bytes(CONTENT)
    path.symlink_to(message)


FOREIGN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a folder": (NAME, Path.mkdir),
    "a FIFO": (NAME, os.mkfifo),
    "a link to a message": (NAME, a_link_to_a_message),
    "a link to nothing": (NAME, lambda path: path.symlink_to("nothing")),
    **{
        f"the name {name!a}": (name, holding_a_message)
        for name in (
            ".probe-4711",
            "3.eml",
            "1700000000.M1P7Q1.host",
            "1700000000.4711.host",
            "1700000000000000000.7.3 \x1b[2J",
            "1700000000000000000.x.3",
            f"{NAME}~",
            f"{NAME}:2,F~",
            f"{NAME}:1,F",
            f"{NAME}\n",
            "\x1b[2Jü",
            os.fsdecode(b"\xff"),
        )
    },
}


@pytest.mark.parametrize("folder", ["new", "cur"])
@pytest.mark.parametrize(("name", "make"), FOREIGN.values(), ids=FOREIGN)
def test_what_is_no_message_is_ignored_and_left_alone(
    mail: MailCommand, mail_dir: Path, name: str, make: Callable[[Path], object], folder: str
) -> None:
    foreign = mail_dir / folder / name
    make(foreign)
    before = os.lstat(foreign)
    keep(mail_dir, letter(1))
    keep(mail_dir, letter(2))

    with SmtpServer() as server:
        listed = mail("list", server=server)
        status = mail("status", server=server)
        missing = mail("resend", "3", server=server)
        resent = mail("resend", "1", server=server)
        dropped = mail("drop", "--yes", "--state", "waiting", server=server)

    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["MESSAGE-ID", "1", "2"]
    assert listed.stderr == "2 undelivered\n"
    assert status.stdout.startswith("OK - 2 waiting; ")
    assert arrived(server) == ["<1@example.com>"]
    assert missing.stderr == "Error: 3 is not in MAIL_DIR\n"
    assert resent.stderr == "1 handled, 1 undelivered\n"
    assert dropped.stderr == "1 dropped\n"
    assert kept(mail_dir) == []
    assert os.path.samestat(os.lstat(foreign), before)
