"""Messages on disk: a Maildir that only the service's user can read, and that other programs may look into."""

from __future__ import annotations

import builtins
import fcntl
import mailbox
import os
import resource
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.mail.mailer import DeliveryError
from app.mail.message import Message
from app.mail.spool import FOLDERS, Spool, require_mail_dir
from app.settings import PRIVATE_DIRECTORY, SettingsError
from tests.mail import disks
from tests.mail.conftest import CONTENT, NAMES, MailCommand, MakeMailer, keep, keep_in_state, kept, letter
from tests.mail.server import SmtpServer

NAME = f"1700000000000000000.7.3{NAMES['waiting']}"
"""The name of the message ``<3@example.com>``."""


def contents(mail_dir: Path) -> list[bytes]:
    maildir = mailbox.Maildir(mail_dir, create=False)
    return sorted(maildir.get_bytes(key).replace(b"\r\n", b"\n") for key in maildir.iterkeys())


def modes(*paths: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


def test_a_message_is_stored_as_a_mail_reader_finds_it_and_private_under_any_umask(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    umask = os.umask(0)
    try:
        make_mailer().deliver(message)
    finally:
        os.umask(umask)

    (path,) = (mail_dir / "new").iterdir()
    assert contents(mail_dir) == [path.read_bytes()] == [CONTENT.replace(b"\r\n", b"\n")]
    assert list((mail_dir / "tmp").iterdir()) == []
    assert (modes(path), modes(mail_dir, *mail_dir.iterdir())) == ({0o600}, {0o700})


@pytest.mark.parametrize("mode", [None, 0o755], ids=["is made with its parents", "was open to others"])
def test_a_store_that_is_checked_is_private_and_keeps_what_it_holds(tmp_path: Path, mode: int | None) -> None:
    directory = tmp_path / "spool" / "web" / "mail"
    if mode is not None:
        (directory / "kept").mkdir(0o700, parents=True)
        directory.chmod(mode)

    Spool(directory).check()

    assert {path.name for path in directory.rglob("*")} - {"kept"} == set(FOLDERS)
    assert (directory / "kept").exists() == (mode is not None)
    assert modes(directory, *directory.iterdir()) == {0o700}


def test_a_store_that_is_another_users_keeps_its_mode_and_its_folders_are_private(
    mail_dir: Path, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail_dir.mkdir()
    mail_dir.chmod(0o2770)
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    monkeypatch.setattr(Path, "chmod", lambda *_: pytest.fail("only the owner may do this"))

    Spool(mail_dir).check()
    Spool(mail_dir).store(message).release()

    assert modes(mail_dir) == {0o2770}
    assert {mode & 0o777 for mode in modes(*mail_dir.iterdir())} == {0o700}


@pytest.mark.parametrize("gone", ["", "tmp", "new"], ids=["all of it", "tmp", "new"])
def test_what_is_gone_is_made_again_for_a_message_and_nothing_for_the_next(
    make_mailer: MakeMailer, mail_dir: Path, message: Message, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spool(mail_dir).prepare()
    shutil.rmtree(mail_dir / gone)

    make_mailer().deliver(message)
    monkeypatch.setattr(Spool, "prepare", lambda _: pytest.fail("prepared for each message"))
    make_mailer().deliver(message)

    assert contents(mail_dir) == [CONTENT.replace(b"\r\n", b"\n")] * 2


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_store_whose_folders_cannot_be_made_stops_the_start(folder: str, mail_dir: Path) -> None:
    mail_dir.mkdir()
    (mail_dir / folder).touch()

    with pytest.raises(SettingsError) as raised:
        require_mail_dir(mail_dir)

    assert str(raised.value) == f"MAIL_DIR='{mail_dir}': expected {PRIVATE_DIRECTORY}: File exists"


def test_the_oldest_comes_first_wherever_it_lies(mail_dir: Path) -> None:
    stored = [keep(mail_dir, letter(number), age=age) for number, age in ((1, 5), (2, 500), (3, 50))]
    (mail_dir / stored[2].path).rename(mail_dir / "cur" / f"{Path(stored[2].path).name}:2,S")

    assert [message.local_part for message in kept(mail_dir)] == ["2", "3", "1"]


@pytest.mark.parametrize("change", [lambda path: path.unlink(), lambda path: path.rename(f"{path}:2,")])
def test_a_message_that_somebody_hands_over_until_it_is_locked_is_not_claimed(
    mail_dir: Path, message: Message, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    kept = keep(mail_dir, message)
    flock = fcntl.flock

    def lock_too_late(descriptor: int, operation: int) -> None:
        change(mail_dir / kept.path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with Spool(mail_dir).claim(kept) as claim:
        assert claim is None


def test_messages_stored_at_the_same_time_are_kept_once_each(make_mailer: MakeMailer, mail_dir: Path) -> None:
    messages = [Message(f"<{n}@example.com>", CONTENT + b"%d\r\n" % n) for n in range(64)]
    mailer = make_mailer()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(mailer.deliver, messages))

    assert contents(mail_dir) == sorted(message.content.replace(b"\r\n", b"\n") for message in messages)


@pytest.mark.parametrize(
    ("state", "flags"), [*((state, "DFPRST") for state in NAMES), ("waiting", ""), ("in doubt", "F")]
)
def test_the_flags_of_a_mail_reader_and_the_move_to_cur_change_nothing(
    mail: MailCommand, mail_dir: Path, state: str, flags: str
) -> None:
    before = keep_in_state(mail_dir, letter(1), state)
    maildir = mailbox.Maildir(mail_dir, create=False)
    (key,) = maildir.keys()
    message = maildir.get_message(key)
    assert message["Message-ID"] == "<1@example.com>"

    message.set_subdir("cur")
    message.set_flags(flags)
    maildir[key] = message

    (after,) = kept(mail_dir)
    assert after == before._replace(path=after.path)
    assert after.path.startswith("cur/")
    assert after.path.endswith(flags)
    with SmtpServer() as server:
        assert mail("resend", "1", server=server).stderr == "1 handled, 0 undelivered\n"


def hold_a_message(path: Path) -> None:
    path.write_bytes(CONTENT)


def link_to_a_message(path: Path) -> None:
    path.symlink_to(path.parent / "elsewhere")
    hold_a_message(path)


FOREIGN: list[tuple[str, Callable[[Path], object]]] = [
    (NAME, Path.mkdir),
    (NAME, os.mkfifo),
    (NAME, link_to_a_message),
    (NAME, lambda path: path.symlink_to("nothing")),
    (".probe-4711", hold_a_message),
    ("1700000000.M1P7Q1.host", hold_a_message),
    ("1700000000.4711.host", hold_a_message),
    ("1700000000000000000.7.3 \x1b[2J", hold_a_message),
    (f"{NAME}~", hold_a_message),
    (f"{NAME}:2,F~", hold_a_message),
    (os.fsdecode(b"\xff"), hold_a_message),
]


@pytest.mark.parametrize(("name", "make"), FOREIGN)
def test_what_the_service_has_not_named_or_is_no_file_is_ignored_and_left_alone(
    mail: MailCommand, mail_dir: Path, name: str, make: Callable[[Path], object]
) -> None:
    foreign = [mail_dir / folder / name for folder in FOLDERS]
    for path in foreign:
        make(path)
        os.utime(path, (0, 0), follow_symlinks=False)  # it is old enough to be removed
    before = [os.lstat(path)[:7] for path in foreign]
    keep(mail_dir, letter(1))

    assert mail("list").stderr == "1 undelivered\n"
    assert mail("drop", "--yes", "--state", "stored").stderr == "1 dropped\n"
    assert Spool(mail_dir).remove_unfinished() == 0
    assert [os.lstat(path)[:7] for path in foreign] == before


@pytest.mark.parametrize(
    ("folder", "hours", "removed"), [("tmp", 36.1, 1), ("tmp", 35.9, 0), ("new", 1000, 0), ("cur", 1000, 0)]
)
def test_what_a_killed_process_has_left_is_removed_after_36_hours_unless_it_is_being_written(
    mail_dir: Path, folder: str, hours: float, removed: int
) -> None:
    spool = Spool(mail_dir)
    spool.prepare()
    path = mail_dir / folder / NAME
    path.write_bytes(CONTENT[:50])
    os.utime(path, (time.time() - hours * 3600,) * 2)

    with path.open() as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        assert spool.remove_unfinished() == 0
    assert spool.remove_unfinished() == removed
    assert path.exists() is not bool(removed)


@contextmanager
def nearly_full_disk() -> Iterator[None]:
    """No file can grow beyond 50 bytes: a write takes what fits, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_takes_a_part_of_a_message_is_found_out_and_stores_nothing(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    mailer = make_mailer()

    with nearly_full_disk():
        with pytest.raises(OSError, match="File too large"):
            Spool(mail_dir).check()
        with pytest.raises(DeliveryError):
            mailer.deliver(message)

    assert [path for path in mail_dir.rglob("*") if path.is_file()] == []


@pytest.mark.needs("mount namespaces")
@pytest.mark.parametrize(
    ("disk", "said"),
    [(disks.WITHOUT_INODES, "No space left on device"), (disks.READ_ONLY, "Read-only file system")],
)
def test_a_real_disk_says_why_it_takes_no_message(tmp_path: Path, disk: str, said: str) -> None:
    check = "import os, pathlib, app.mail.spool; app.mail.spool.Spool(pathlib.Path(os.environ['MAIL_DIR'])).check()"

    result = disks.run(disk, tmp_path, [sys.executable, "-c", check])

    assert said in result.stderr


@pytest.fixture
def opened(mail_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The messages that have been opened, by the local parts of their Message-IDs."""
    for number, state in enumerate(NAMES):
        keep_in_state(mail_dir, letter(number), state)
    names = {str(mail_dir / message.path): message.local_part for message in kept(mail_dir)}
    paths: list[str] = []

    def note(really_open: Callable[..., Any], path: object, *args: Any, **options: Any) -> Any:
        paths.append(str(path))
        return really_open(path, *args, **options)

    monkeypatch.setattr(os, "open", partial(note, os.open))
    monkeypatch.setattr(builtins, "open", partial(note, open))
    return lambda: [names[path] for path in paths if path in names]


OPENED = {
    "list": [],
    "list --json": [],
    "status": [],
    "show 3": ["3"],
    "resend 3": ["3", "3"],
    "drop --yes 3": ["3"],
    "drop --yes --state refused": ["4"],
}


@pytest.mark.parametrize(("command", "numbers"), OPENED.items())
def test_a_command_opens_only_what_it_is_about_so_a_large_store_is_quick(
    mail: MailCommand, opened: Callable[[], list[str]], command: str, numbers: list[str]
) -> None:
    with SmtpServer() as server:
        mail(*command.split(), server=server)

    assert opened() == numbers
