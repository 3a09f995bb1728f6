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
from pathlib import Path
from typing import Any

import pytest

from app.mail.mailer import DeliveryError
from app.mail.message import Message
from app.mail.redelivery import Redelivery
from app.mail.spool import Spool, require_mail_dir
from app.settings import PRIVATE_DIRECTORY, SettingsError
from tests.mail import disks
from tests.mail.conftest import CONTENT, NAMES, MailCommand, MakeMailer, keep, keep_in_state, kept, letter
from tests.mail.server import SmtpServer

NAME = f"1700000000000000000.7.3{NAMES['waiting']}"
"""The name of the message ``<3@example.com>``."""


@pytest.fixture
def _open_umask() -> Iterator[None]:
    previous = os.umask(0)
    yield
    os.umask(previous)


def contents(mail_dir: Path) -> list[bytes]:
    maildir = mailbox.Maildir(mail_dir, create=False)
    return sorted(maildir.get_bytes(key).replace(b"\r\n", b"\n") for key in maildir.iterkeys())


def modes(paths: list[Path]) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


@pytest.mark.usefixtures("_open_umask")
def test_a_message_is_stored_as_a_mail_reader_finds_it_and_private_under_any_umask(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    make_mailer().deliver(message)

    (path,) = (mail_dir / "new").iterdir()
    assert contents(mail_dir) == [path.read_bytes()] == [CONTENT.replace(b"\r\n", b"\n")]
    assert list((mail_dir / "tmp").iterdir()) == []
    assert (modes([path]), modes([mail_dir, *mail_dir.iterdir()])) == ({0o600}, {0o700})


class TestPreparing:
    def test_nothing_is_made_before_it_is_needed(self, make_mailer: MakeMailer, mail_dir: Path) -> None:
        make_mailer()
        spool = Spool(mail_dir)

        assert (spool.kept(), spool.remove_unfinished()) == ([], 0)
        assert not mail_dir.exists()

    def test_a_check_makes_it_with_its_parents_and_private_and_leaves_nothing_else(self, tmp_path: Path) -> None:
        directory = tmp_path / "spool" / "web" / "mail"

        Spool(directory).check()

        assert sorted(path.name for path in directory.rglob("*")) == ["cur", "new", "tmp"]
        assert modes([directory, *directory.iterdir()]) == {0o700}

    def test_one_that_others_could_read_is_made_private_and_keeps_what_it_holds(self, mail_dir: Path) -> None:
        mail_dir.mkdir()
        mail_dir.chmod(0o755)
        (mail_dir / "kept").touch()

        Spool(mail_dir).check()

        assert modes([mail_dir]) == {0o700}
        assert (mail_dir / "kept").exists()

    def test_one_that_is_another_users_keeps_its_mode_and_its_folders_are_private(
        self, mail_dir: Path, message: Message, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mail_dir.mkdir()
        mail_dir.chmod(0o2770)
        another = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: another)
        monkeypatch.setattr(Path, "chmod", lambda *_: pytest.fail("only the owner may do this"))

        Spool(mail_dir).check()
        Spool(mail_dir).store(message).release()

        assert modes([mail_dir]) == {0o2770}
        assert {mode & 0o777 for mode in modes(list(mail_dir.iterdir()))} == {0o700}

    @pytest.mark.parametrize("gone", ["", "tmp", "new"], ids=["all of it", "tmp", "new"])
    def test_what_is_gone_is_made_again_for_a_message_and_nothing_for_the_next(
        self, make_mailer: MakeMailer, mail_dir: Path, message: Message, gone: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Spool(mail_dir).prepare()
        shutil.rmtree(mail_dir / gone)

        make_mailer().deliver(message)
        monkeypatch.setattr(Spool, "prepare", lambda _: pytest.fail("prepared for each message"))
        make_mailer().deliver(message)

        assert contents(mail_dir) == [CONTENT.replace(b"\r\n", b"\n")] * 2

    @pytest.mark.parametrize("folder", ["tmp", "new", "cur"])
    def test_one_whose_folders_cannot_be_made_stops_the_start(self, folder: str, mail_dir: Path) -> None:
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


class TestOtherPrograms:
    @pytest.mark.parametrize("flags", ["", "F", "DFPRST"])
    @pytest.mark.parametrize("state", NAMES)
    def test_the_flags_of_a_mail_reader_and_the_move_to_cur_change_nothing(
        self, mail: MailCommand, mail_dir: Path, state: str, flags: str
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

    @staticmethod
    def hold_a_message(path: Path) -> None:
        path.write_bytes(CONTENT)

    @staticmethod
    def link_to_a_message(path: Path) -> None:
        message = path.parents[2] / "elsewhere"
        message.write_bytes(CONTENT)
        path.symlink_to(message)

    FOREIGN = (
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
    )

    @pytest.mark.parametrize("folder", ["new", "cur", "tmp"])
    @pytest.mark.parametrize(("name", "make"), FOREIGN)
    def test_what_the_service_has_not_named_or_is_no_file_is_ignored_and_left_alone(
        self, mail: MailCommand, mail_dir: Path, name: str, make: Callable[[Path], object], folder: str
    ) -> None:
        foreign = mail_dir / folder / name
        make(foreign)
        if not foreign.is_symlink():
            os.utime(foreign, (0, 0))
        before = os.lstat(foreign)
        keep(mail_dir, letter(1))

        assert mail("list").stderr == "1 undelivered\n"
        assert mail("drop", "--yes", "--state", "stored").stderr == "1 dropped\n"
        assert Spool(mail_dir).remove_unfinished() == 0
        assert os.path.samestat(os.lstat(foreign), before)


class TestUnfinished:
    """What a killed process has left in tmp/."""

    @pytest.mark.parametrize(("hours", "removed"), [(36.1, 1), (35.9, 0)])
    def test_it_is_removed_after_36_hours_unless_it_is_being_written(
        self, mail_dir: Path, hours: float, removed: int
    ) -> None:
        spool = Spool(mail_dir)
        spool.prepare()
        path = mail_dir / "tmp" / NAME
        path.write_bytes(CONTENT[:50])
        os.utime(path, (time.time() - hours * 3600,) * 2)

        with path.open() as written:
            fcntl.flock(written, fcntl.LOCK_EX)
            assert spool.remove_unfinished() == 0
        assert spool.remove_unfinished() == removed
        assert path.exists() is not removed

    def test_a_message_is_none(self, mail_dir: Path) -> None:
        path = mail_dir / keep(mail_dir, letter(1), age=1000 * 3600).path
        os.utime(path, (0, 0))

        assert Spool(mail_dir).remove_unfinished() == 0
        assert len(kept(mail_dir)) == 1


class TestDisks:
    @staticmethod
    @contextmanager
    def nearly_full() -> Iterator[None]:
        """No file can grow beyond 50 bytes: a write takes what fits, and the next one fails."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def test_one_that_takes_a_part_of_a_message_is_found_out_and_stores_nothing(
        self, make_mailer: MakeMailer, mail_dir: Path, message: Message
    ) -> None:
        mailer = make_mailer()

        with self.nearly_full():
            with pytest.raises(OSError, match="File too large"):
                Spool(mail_dir).check()
            with pytest.raises(DeliveryError):
                mailer.deliver(message)

        assert [path for path in mail_dir.rglob("*") if path.is_file()] == []

    @pytest.mark.parametrize(
        ("disk", "said"),
        [
            (disks.USUAL, ""),
            (disks.FULL, "No space left on device"),
            (disks.WITHOUT_INODES, "No space left on device"),
            (disks.READ_ONLY, "Read-only file system"),
        ],
    )
    def test_a_real_one_says_why_it_takes_no_message(self, tmp_path: Path, disk: str, said: str) -> None:
        check = "import os, pathlib, app.mail.spool; app.mail.spool.Spool(pathlib.Path(os.environ['MAIL_DIR'])).check()"

        result = disks.run(disk, tmp_path, [sys.executable, "-c", check])

        assert (said in result.stderr, result.returncode) == (True, int(said != ""))


@pytest.fixture
def opened(mail_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The messages that have been opened, by the local parts of their Message-IDs."""
    for number, state in enumerate(NAMES):
        keep_in_state(mail_dir, letter(number), state)
    names = {str(mail_dir / message.path): message.local_part for message in kept(mail_dir)}
    paths: list[str] = []

    def note(module: Any) -> None:
        really_open = module.open

        def note_and_open(path: object, *args: Any, **options: Any) -> Any:
            paths.append(str(path))
            return really_open(path, *args, **options)

        monkeypatch.setattr(module, "open", note_and_open)

    note(os)
    note(builtins)
    return lambda: [names[path] for path in paths if path in names]


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        ("list", []),
        ("list --json", []),
        ("status", []),
        ("show 3", ["3"]),
        ("resend 3", ["3", "3"]),
        ("drop --yes 3", ["3"]),
        ("drop --yes --state refused", ["4"]),
    ],
)
def test_a_command_opens_only_what_it_is_about_so_a_large_store_is_quick(
    mail: MailCommand, opened: Callable[[], list[str]], command: str, numbers: list[str]
) -> None:
    with SmtpServer() as server:
        mail(*command.split(), server=server)

    assert opened() == numbers


def test_the_redelivery_opens_only_what_is_due(
    make_mailer: MakeMailer, mail_dir: Path, opened: Callable[[], list[str]]
) -> None:
    with SmtpServer() as server:
        redelivery = Redelivery(make_mailer(server), Spool(mail_dir), patience=1)
        redelivery.work()

    assert set(opened()) == {"1"}
    assert redelivery.census.counts.total() == len(NAMES)
