"""Messages on disk: a Maildir that only the service's user can read, and that other programs may look into."""

import builtins
import errno
import fcntl
import mailbox
import os
import resource
import stat
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from app import create_app
from app.mail.health import MailHealth
from app.mail.mailer import DeliveryError
from app.mail.message import Message
from app.mail.redelivery import Redelivery
from app.mail.spool import FOLDERS, PRIVATE_DIRECTORY, Spool, require_mail_dir
from app.settings import SettingsError
from tests.factories import make_settings
from tests.mail.conftest import CONTENT, NAMES, MailCommand, MakeMailer, keep, kept, numbered
from tests.mail.server import SmtpServer

NAME = f"1700000000000000000.7.3{NAMES['waiting']}"
"""The name of the message ``<3@example.com>``."""


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
    (found,) = mailbox.Maildir(mail_dir, create=False)
    assert found["Message-ID"] == "<1@example.com>"
    assert path.read_bytes() == CONTENT.replace(b"\r\n", b"\n")
    assert list((mail_dir / "tmp").iterdir()) == []
    assert (modes(path), modes(mail_dir, *mail_dir.iterdir())) == ({0o600}, {0o700})


def test_a_store_is_made_with_its_parents_or_closed_to_others_and_keeps_what_it_holds(tmp_path: Path) -> None:
    made, open_to_others = tmp_path / "spool" / "web" / "mail", tmp_path / "mail"
    keep(open_to_others, numbered(1))
    open_to_others.chmod(0o755)

    for directory in (made, open_to_others):
        Spool(directory).check()

    assert {path.name for path in made.iterdir()} == set(FOLDERS)
    assert modes(made, *made.iterdir(), open_to_others) == {0o700}
    assert len(kept(open_to_others)) == 1


SHARED = "other users can read or share it"
VOLUMES = {0o2770: True, 0o700: True, 0o777: False, 0o774: False, 0o771: False, 0o755: False}
"""Modes of a mounted volume, which often is another user's, and whether it is taken."""


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(("mode", "is_taken"), VOLUMES.items(), ids=map(oct, VOLUMES))
def test_a_volume_that_only_this_users_group_reaches_is_taken(
    mail_dir: Path, monkeypatch: pytest.MonkeyPatch, mode: int, *, is_taken: bool, create: bool
) -> None:
    mail_dir.mkdir()
    mail_dir.chmod(mode)
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)

    with nullcontext() if is_taken else pytest.raises(SettingsError, match=f"{SHARED}$"):
        require_mail_dir(mail_dir, create=create)
    assert modes(mail_dir) == {mode}
    assert {found & 0o777 for found in modes(*mail_dir.iterdir())} == ({0o700} if is_taken and create else set())


FAULTS = {
    "below a file": ("file/mail", "Not a directory"),
    "a file": ("file", "Not a directory"),
    "shared as /tmp is": ("shared", SHARED),
}


@pytest.mark.parametrize(("path", "reason"), FAULTS.values(), ids=FAULTS)
def test_a_mail_dir_that_cannot_be_private_or_created_stops_whatever_starts(
    tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)

    with pytest.raises(SettingsError) as at_start:
        require_mail_dir(tmp_path / path)
    with pytest.raises(SettingsError) as at_command:
        create_app(make_settings(tmp_path / path))

    said = str(at_start.value).replace("File exists", "Not a directory")  # in the words of the step that fails first
    assert said == str(at_command.value) == f"MAIL_DIR='{tmp_path / path}': expected {PRIVATE_DIRECTORY}: {reason}"


@pytest.mark.parametrize("state", ["waiting", "in doubt"])
def test_the_flags_of_a_mail_reader_and_the_move_to_cur_change_nothing(
    mail: MailCommand, mail_dir: Path, state: str
) -> None:
    before = keep(mail_dir, numbered(1), state)
    reader = mailbox.Maildir(mail_dir, create=False)
    ((key, message),) = reader.items()
    message.set_subdir("cur")
    message.set_flags("FRS")
    reader[key] = message

    (after,) = kept(mail_dir)
    assert after == before._replace(path=f"cur/{Path(before.path).name}:2,FRS")
    with SmtpServer() as server:
        assert mail("resend", "1", server=server).stderr == "1 handled, 0 undelivered\n"


FOREIGN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a folder": (NAME, Path.mkdir),
    "a FIFO": (NAME, os.mkfifo),
    "a link to a file": (NAME, lambda path: path.symlink_to("/etc/hosts")),
    "another program's message": ("1700000000.M1P7Q1.host", Path.touch),
    "no text": (os.fsdecode(b"\xff"), Path.touch),
}


@pytest.mark.parametrize(("name", "make"), FOREIGN.values(), ids=FOREIGN)
def test_what_the_service_has_not_named_or_is_no_file_is_ignored_and_left_alone(
    mail: MailCommand, mail_dir: Path, name: str, make: Callable[[Path], object]
) -> None:
    foreign = [mail_dir / folder / name for folder in FOLDERS]
    for path in foreign:
        make(path)
        os.utime(path, (0, 0), follow_symlinks=False)  # it is old enough to be removed
    before = [os.lstat(path)[:7] for path in foreign]
    keep(mail_dir, numbered(1))

    assert mail("list").stderr == "1 undelivered\n"
    assert mail("drop", "--yes", "--state", "stored").stderr == "1 dropped\n"
    assert Spool(mail_dir).remove_unfinished() == 0
    assert [os.lstat(path)[:7] for path in foreign] == before


@pytest.mark.parametrize(("folder", "hours", "removed"), [("tmp", 36.1, 1), ("tmp", 35.9, 0), ("new", 1000, 0)])
def test_what_a_killed_process_has_left_is_removed_after_36_hours_unless_it_is_being_written(
    make_mailer: MakeMailer, mail_dir: Path, caplog: pytest.LogCaptureFixture, folder: str, hours: float, removed: int
) -> None:
    Spool(mail_dir).create()
    redelivery = Redelivery(make_mailer(), Spool(mail_dir), timeout=10)
    path = mail_dir / folder / NAME
    path.write_bytes(CONTENT[:50])
    os.utime(path, (time.time() - hours * 3600,) * 2)

    with path.open() as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        redelivery.work()
        assert path.exists()
    redelivery.work()

    assert caplog.messages == ["removed 1 abandoned temporary files from MAIL_DIR"] * removed
    assert path.exists() is not bool(removed)


def test_a_disk_that_takes_a_part_of_a_message_stops_the_start_and_stores_nothing(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    mailer = make_mailer()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))  # a write takes what fits, and the next one fails
    try:
        with pytest.raises(SettingsError, match="File too large"):
            require_mail_dir(mail_dir)
        with pytest.raises(DeliveryError):
            mailer.deliver(message)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert [path for path in mail_dir.rglob("*") if path.is_file()] == []


def test_a_message_is_locked_before_it_can_be_found(mail_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def rename_and_look(old: str, new: str) -> None:
        rename(old, new)
        with Spool(mail_dir).claim(kept(mail_dir)[0]) as claim:
            assert claim is None

    monkeypatch.setattr(os, "rename", rename_and_look)
    Spool(mail_dir).store(numbered(1)).release()


ENDS: dict[str, Callable[[Path], object]] = {"delivered": os.unlink, "put off": lambda path: path.rename(f"{path}:2,S")}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_message_that_another_process_ends_just_before_the_lock_is_not_claimed(
    mail_dir: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[Path], object]
) -> None:
    message, flock = keep(mail_dir, numbered(1)), fcntl.flock

    def end_and_lock(descriptor: int, operation: int) -> None:
        end(mail_dir / message.path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", end_and_lock)
    with Spool(mail_dir).claim(message) as late:
        assert late is None


@pytest.mark.needs("/proc")
@pytest.mark.parametrize("step", ["fcntl.flock", "os.write", "os.fsync", "os.rename", "os.unlink"])
def test_a_file_system_without_a_step_of_storing_stops_the_start_and_shows_in_the_health_and_the_status(
    mail: MailCommand, mail_dir: Path, make_mailer: MakeMailer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    health = MailHealth(make_mailer(), Spool(mail_dir), Mock())
    monkeypatch.setattr(step, Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))

    descriptors = Path("/proc/self/fd")
    opened = len(list(descriptors.iterdir()))
    with pytest.raises(SettingsError, match="No locks available"):
        require_mail_dir(mail_dir)
    assert len(list(descriptors.iterdir())) == opened, "every check would take a descriptor"
    health.checks[-1].run()
    assert health.latest()[:3] == (False, None, "fail")
    assert mail("status").stdout == f"CRITICAL - MAIL_DIR='{mail_dir}' takes no message: No locks available\n"


@pytest.mark.needs("/proc")
def test_a_check_takes_the_way_of_a_message_and_leaves_nothing(mail_dir: Path, calls: list[str]) -> None:
    Spool(mail_dir).check()

    assert calls == ["fsync tmp/file", "rename tmp new", "rename new cur"]
    assert [path for path in mail_dir.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("command", ["list", "list --json", "status", "drop --yes --state stored --older-than 1d"])
def test_a_command_opens_no_message_that_it_does_not_show_or_delete_so_a_large_store_is_quick(
    mail: MailCommand, mail_dir: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    keep(mail_dir, numbered(1))
    calls = [Mock(wraps=os.open), Mock(wraps=open)]
    monkeypatch.setattr(os, "open", calls[0])
    monkeypatch.setattr(builtins, "open", calls[1])

    assert mail(*command.split()).exit_code == (command == "status")  # a message that is stored is a warning
    assert ".demo" not in str([call.mock_calls for call in calls])
