"""Files in MAIL_DIR that are no whole message of the service: named, left alone, and in nobody's way."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.mail.message import Message
from app.mail.spool import Spool
from tests.mail.command import FLASK_MAIL, run
from tests.mail.conftest import MailCommand, arrived, kept, letter
from tests.mail.server import SmtpServer

NAME = "1700000000000000000.7.3"
"""A name that the service gives to the message ``<3@example.com>``."""

WHOLE = letter(3).content.replace(b"\r\n", b"\n")
HOUR = 3600.0


def a_socket(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    descriptor = os.open(path.parent, os.O_PATH)  # the path itself may be too long for a socket
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
    finally:
        os.close(descriptor)
        listener.close()


def a_link(path: Path) -> None:
    message = path.parents[2] / "elsewhere"
    message.write_bytes(WHOLE)
    path.symlink_to(message)


def holding(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


FOREIGN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a folder": (NAME, Path.mkdir),
    "a FIFO": (NAME, os.mkfifo),
    "a socket": (NAME, a_socket),
    "a link to a message": (NAME, a_link),
    "a link to nothing": (NAME, lambda path: path.symlink_to("nothing")),
    "an empty file": (NAME, Path.touch),
    "a probe of an earlier release": (".probe-4711", Path.touch),
    "a header without a body": (NAME, holding(WHOLE.partition(b"\n\n")[0] + b"\n\n")),
    "a message without its last line": (NAME, holding(WHOLE.removesuffix(b"--=_1--\n"))),
    "a message without its last byte": (NAME, holding(WHOLE.removesuffix(b"\n"))),
    "a message of which a block is missing": (NAME, holding(WHOLE.replace(b"Hola", b"\0\0\0\0"))),
    "a message whose end is missing": (NAME, holding(WHOLE[:-9] + b"\0" * 9)),
    "a message with something behind its end": (NAME, holding(WHOLE + b"x\n")),
    "a message without a boundary": (NAME, holding(WHOLE.replace(b'boundary="=_1"', b"charset=utf-8"))),
    "a header that is not ASCII": (NAME, holding(WHOLE.replace(b"Prueba", "Señal".encode()))),
    "a header with a terminal's commands": (
        NAME,
        holding(WHOLE.replace(b"<3@example.com>", b"<3@\x1b[2Jexample.com>")),
    ),
    "a body that is not ASCII": (NAME, holding(WHOLE.replace(b"Hola", "Señal".encode()))),
    "a message without a Message-ID": (NAME, holding(WHOLE.replace(b"Message-ID: ", b"X-Message-ID: "))),
    "a Message-ID that its name does not carry": (NAME, holding(letter(4).content.replace(b"\r\n", b"\n"))),
    "a Message-ID that begins as its name does": (NAME, holding(letter(33).content.replace(b"\r\n", b"\n"))),
    "a message under another name": ("3.eml", holding(WHOLE)),
    "a message under another program's name": ("1700000000.M1P7Q1.host", holding(WHOLE)),
    "a name of another process number": ("1700000000000000000.x.3", holding(WHOLE)),
    "a backup": (f"{NAME}:2,F~", holding(WHOLE)),
    "an experimental mark": (f"{NAME}:1,F", holding(WHOLE)),
}


@pytest.mark.parametrize("folder", ["new", "cur"])
@pytest.mark.parametrize(("name", "make"), FOREIGN.values(), ids=FOREIGN)
def test_what_is_no_whole_message_is_named_and_left_alone_and_stops_nothing(
    mail: MailCommand,
    undelivered: Callable[..., None],
    mail_dir: Path,
    name: str,
    make: Callable[[Path], object],
    folder: str,
) -> None:
    undelivered(letter(1), letter(2))
    foreign = mail_dir / folder / name
    make(foreign)
    before = os.lstat(foreign)

    listed = mail("list")
    listed_as_json = mail("list", "--json")
    with SmtpServer() as server:
        resent = mail("resend", server=server)

    assert (listed.exit_code, listed_as_json.exit_code, resent.exit_code) == (0, 0, 0)
    assert [line.split()[-1] for line in listed.stdout.splitlines()[1:]] == ["<1@example.com>", "<2@example.com>"]
    named = f"'{folder}/{name}' is not a message of this service: left alone\n"
    assert listed.stderr == f"{named}2 undelivered\n"
    assert listed_as_json.stderr == "2 undelivered\n"
    assert json.loads(listed_as_json.stdout)["foreign"] == [
        {"file": f"{folder}/{name}", "fault": "is not a message of this service"}
    ]
    assert arrived(server) == ["<1@example.com>", "<2@example.com>"]
    assert resent.stderr == f"{named}2 handled, 0 undelivered\n"
    assert os.path.samestat(os.lstat(foreign), before)


FLAGS = ["", ":2,", ":2,S", ":2,F", ":2,FS", ":2,DFPRSTabz"]


@pytest.mark.parametrize("folder", ["new", "cur"])
@pytest.mark.parametrize("flags", FLAGS)
def test_a_message_is_known_under_every_flag_that_a_mail_reader_gives_it(
    mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path, flags: str, folder: str
) -> None:
    undelivered(letter(1))
    (path,) = (mail_dir / "new").iterdir()
    path.rename(mail_dir / folder / f"{path.name}{flags}")

    with SmtpServer() as server:
        listed = mail("list", server=server)
        resent = mail("resend", server=server)

    assert ("in doubt" in listed.stdout) == ("F" in flags)
    assert listed.stderr == "1 undelivered\n"
    assert arrived(server) == ["<1@example.com>"]
    assert resent.stderr == "1 handled, 0 undelivered\n"


def test_a_file_that_cannot_be_read_is_named_and_stops_nothing(
    undelivered: Callable[..., None], mail_dir: Path
) -> None:
    undelivered(letter(1), letter(2))
    unreadable, _ = sorted((mail_dir / "new").iterdir())
    unreadable.chmod(0)
    # Root may read everything, unless its capabilities are taken away.
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []

    result = run([*powerless, *FLASK_MAIL, "list"], mail_dir)

    result.check_returncode()
    assert "<2@example.com>" in result.stdout
    assert f"'new/{unreadable.name}' is not a message of this service" in result.stderr
    assert result.stderr.endswith("\n1 undelivered\n")


@pytest.mark.parametrize("name", ["\x1b[2Jü", "a\nb", "\u202etxt.exe", os.fsdecode(b"\xff")], ids=ascii)
def test_a_name_sends_no_commands_to_the_terminal(mail: MailCommand, mail_dir: Path, name: str) -> None:
    Spool(mail_dir).prepare()
    (mail_dir / "new" / name).touch()

    result = mail("list")

    line, _ = result.stderr.splitlines()
    assert line.isprintable()
    assert line == f"{f'new/{name}'!r} is not a message of this service: left alone"


def test_a_huge_file_under_a_good_name_is_not_read(mail: MailCommand, mail_dir: Path) -> None:
    Spool(mail_dir).prepare()
    with (mail_dir / "new" / NAME).open("wb") as file:
        file.write(WHOLE)
        file.truncate(2**42)

    assert mail("list").stderr == f"'new/{NAME}' is not a message of this service: left alone\n0 undelivered\n"


class TestTmp:
    @pytest.fixture
    def leftover(self, mail_dir: Path) -> Path:
        """What a process leaves that is killed while it writes."""
        Spool(mail_dir).prepare()
        path = mail_dir / "tmp" / NAME
        path.write_bytes(WHOLE)
        os.utime(path, (0, time.time() - 2 * HOUR))
        return path

    def test_what_a_dead_writer_has_left_is_named_and_not_handed_over(self, mail: MailCommand, leftover: Path) -> None:
        listed = mail("list")
        with SmtpServer() as server:
            resent = mail("resend", server=server)

        assert listed.stderr == f"'tmp/{NAME}' was never finished: left alone\n0 undelivered\n"
        assert resent.stderr == f"'tmp/{NAME}' was never finished: left alone\n0 handled, 0 undelivered\n"
        assert (resent.exit_code, server.arrivals, leftover.exists()) == (0, [], True)

    def test_what_is_being_written_is_not_named_whatever_the_clock_says(
        self, mail: MailCommand, leftover: Path
    ) -> None:
        with leftover.open() as writer:
            fcntl.flock(writer, fcntl.LOCK_EX)

            assert mail("list").stderr == "0 undelivered\n"

    def test_what_is_young_is_not_named_nor_locked(self, mail: MailCommand, leftover: Path) -> None:
        os.utime(leftover)

        assert mail("list").stderr == "0 undelivered\n"


class TestClaims:
    def test_what_is_handed_over_is_what_was_checked(self, undelivered: Callable[..., None], mail_dir: Path) -> None:
        undelivered(letter(1))
        spool = Spool(mail_dir)
        (stored,) = kept(mail_dir)
        path = mail_dir / stored.place

        with spool.claim(stored.place) as entry:
            assert entry is not None
            path.rename(mail_dir / "before")
            path.write_bytes(b"another file\n")
            message = entry.message()

        assert message == letter(1)

    def test_a_message_that_was_cut_since_it_was_listed_is_not_handed_over(
        self, undelivered: Callable[..., None], mail_dir: Path
    ) -> None:
        undelivered(letter(1))
        spool = Spool(mail_dir)
        (stored,) = kept(mail_dir)
        os.truncate(mail_dir / stored.place, 100)

        with spool.claim(stored.place) as entry:
            assert entry is not None
            with pytest.raises(OSError, match="not a message"):
                entry.message()

    def test_a_message_that_became_a_fifo_stops_nothing(
        self, mail: MailCommand, undelivered: Callable[..., None], mail_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        undelivered(letter(1), letter(2))
        listed = list(Spool(mail_dir).stored())
        path = mail_dir / listed[0][0]
        path.unlink()
        os.mkfifo(path)
        monkeypatch.setattr(Spool, "stored", lambda *_: listed)

        with SmtpServer() as server:
            result = mail("resend", server=server)

        assert result.exit_code == 1
        assert "1/2 <1@example.com> not delivered: not a message of this service\n" in result.stdout
        assert arrived(server) == ["<2@example.com>"]


def test_the_longest_message_of_a_former_release_is_a_message(mail_dir: Path) -> None:
    first, separator, rest = letter(1).content.partition(b"Hola")
    spool = Spool(mail_dir)

    spool.store(Message("<1@example.com>", first + separator + b"=0A=\r\n" * 1_100_000 + rest)).release()

    assert (len(list(spool.names())), len(kept(mail_dir))) == (1, 1)
