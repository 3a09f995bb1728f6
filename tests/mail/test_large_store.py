"""Very many messages in MAIL_DIR, as a spam wave during an outage leaves them."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.mail import listing
from app.mail.spool import Spool, Stored
from tests.mail.command import run
from tests.mail.conftest import keep, letter

NUMBER = 20_000
PROMISED_NUMBER = 100_000
PROMISED_KILOBYTES = 100_000

WITH_PEAK = """
import atexit, pathlib, sys
from flask.cli import main

def tell_peak():
    status = pathlib.Path("/proc/self/status").read_text()
    sys.stderr.write(next(line for line in status.splitlines() if line.startswith("VmHWM")))

atexit.register(tell_peak)
main()
"""
"""The flask command, which tells at its end the most memory that it has used. A parent cannot measure this of a child:
the kernel counts the parent's own memory, too."""


def fill(mail_dir: Path) -> None:
    """Gives few files many names, because files take longer to make. A file can have 10,000 names everywhere."""
    for file in range(10):
        name = keep(mail_dir, letter(file), age=3600, attempts=2, tried_at=1_700_000_000, answer="451")
        place = mail_dir / name.place
        first = int(name.stored_at)
        for number in range(NUMBER // 10 - 1):
            os.link(place, place.with_name(place.name.replace(f"{first}0000", f"{first + 1}{number:04}", 1)))


def list_all(mail_dir: Path, *options: str) -> tuple[str, int]:
    """What the command writes, and the kilobytes that it has used at most."""
    result = run([sys.executable, "-c", WITH_PEAK, "--app", "wsgi", "mail", "list", *options], mail_dir)
    result.check_returncode()
    return result.stdout, int(re.sub(r"\D", "", result.stderr.splitlines()[-1]))


def test_all_are_listed_in_little_memory(mail_dir: Path) -> None:
    Spool(mail_dir).prepare()
    _, for_none = list_all(mail_dir)
    fill(mail_dir)

    table, for_table = list_all(mail_dir)
    document, for_document = list_all(mail_dir, "--json")

    assert table.count("\n") == NUMBER + 1
    assert document.count('"message_id"') == NUMBER
    for_each = (max(for_table, for_document) - for_none) / NUMBER
    assert for_none + for_each * PROMISED_NUMBER < PROMISED_KILOBYTES


# pytest has threads of its own, the command has none.
forking = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def die_at_once() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die_while_sending() -> str:
    signal.setitimer(signal.ITIMER_REAL, 0.3)  # SIGALRM ends a process
    return "x" * 2**20  # more than a pipe takes before it is read


@forking
@pytest.mark.parametrize("die", [die_at_once, die_while_sending])
def test_nothing_is_missing_when_the_second_process_is_killed(
    mail_dir: Path, undelivered: Callable[..., None], monkeypatch: pytest.MonkeyPatch, die: Callable[[], str]
) -> None:
    monkeypatch.setattr(listing, "_PIECE", 1)
    undelivered(*map(letter, range(6)))
    (mail_dir / "new" / "strange").touch()
    own = os.getpid()

    def show(stored: Stored) -> str:
        if os.getpid() == own:
            for helper in multiprocessing.active_children():
                helper.join(60)
            return stored.message_id
        return die()

    pieces = list(listing.read_in_pieces(Spool(mail_dir), show))

    messages = [message for piece in pieces for message in piece.messages]
    assert messages == [f"<{number}@example.com>" for number in range(6)]
    assert [place for piece in pieces for place in piece.foreign] == ["new/strange"]


@forking
def test_two_processes_show_what_one_would(
    mail_dir: Path, undelivered: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_PIECE", 1)
    undelivered(*map(letter, range(6)))

    pieces = listing.read_in_pieces(Spool(mail_dir), lambda stored: f"{os.getpid()} {stored.message_id}")
    shown = [message.split() for piece in pieces for message in piece.messages]

    assert [message_id for _, message_id in shown] == [f"<{number}@example.com>" for number in range(6)]
    assert len({process for process, _ in shown}) == 2
