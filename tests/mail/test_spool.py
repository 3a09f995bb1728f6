"""Messages on disk: a Maildir that only the service's user can read."""

from __future__ import annotations

import fcntl
import mailbox
import os
import resource
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.mail.mailer import DeliveryError
from app.mail.message import Message
from app.mail.spool import Spool, require_mail_dir
from app.settings import PRIVATE_DIRECTORY, SettingsError
from tests.mail import disks
from tests.mail.clock import later
from tests.mail.conftest import CONTENT, MakeMailer, keep, kept, letter

NAME = "1700000000000000000.7.a,tries=0,last=1700000000.000,waiting=.demo"


@pytest.fixture
def _open_umask() -> Iterator[None]:
    previous = os.umask(0)
    yield
    os.umask(previous)


def contents(mail_dir: Path) -> list[bytes]:
    maildir = mailbox.Maildir(mail_dir, create=False)
    return sorted(maildir.get_bytes(key).replace(b"\r\n", b"\n") for key in maildir.iterkeys())


def test_a_message_is_stored_as_a_mail_reader_finds_it(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    make_mailer().deliver(message)

    assert contents(mail_dir) == [CONTENT.replace(b"\r\n", b"\n")]
    assert list((mail_dir / "tmp").iterdir()) == []


@pytest.mark.usefixtures("_open_umask")
def test_the_store_is_private_under_any_umask(make_mailer: MakeMailer, mail_dir: Path, message: Message) -> None:
    make_mailer().deliver(message)

    paths = [mail_dir, *mail_dir.rglob("*")]
    files = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()}
    directories = {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()}
    assert (files, directories) == ({0o600}, {0o700})


class TestPreparing:
    def test_nothing_is_made_before_it_is_needed(self, make_mailer: MakeMailer, mail_dir: Path) -> None:
        make_mailer()
        spool = Spool(mail_dir)

        assert (spool.kept(), spool.remove_unfinished()) == ([], 0)
        assert not mail_dir.exists()

    def test_a_check_makes_it_with_its_parents_and_private(self, tmp_path: Path) -> None:
        directory = tmp_path / "spool" / "web" / "mail"

        Spool(directory).check()

        assert {entry.name for entry in directory.iterdir()} == {"tmp", "new", "cur"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir())} == {0o700}

    def test_one_that_others_could_read_is_made_private_and_keeps_what_it_holds(self, mail_dir: Path) -> None:
        mail_dir.mkdir()
        mail_dir.chmod(0o755)
        (mail_dir / "kept").touch()

        Spool(mail_dir).check()

        assert stat.S_IMODE(mail_dir.stat().st_mode) == 0o700
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

        assert stat.S_IMODE(mail_dir.stat().st_mode) == 0o2770
        assert {stat.S_IMODE(path.stat().st_mode) & 0o777 for path in mail_dir.iterdir()} == {0o700}
        assert len(kept(mail_dir)) == 1

    @pytest.mark.parametrize("gone", ["", "tmp", "new"], ids=["all of it", "tmp", "new"])
    def test_what_is_gone_is_made_again_for_a_message(
        self, make_mailer: MakeMailer, mail_dir: Path, message: Message, gone: str
    ) -> None:
        Spool(mail_dir).prepare()
        shutil.rmtree(mail_dir / gone)

        make_mailer().deliver(message)

        assert contents(mail_dir) == [CONTENT.replace(b"\r\n", b"\n")]

    def test_a_message_changes_nothing_of_what_is_there(
        self, make_mailer: MakeMailer, mail_dir: Path, message: Message, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spool = Spool(mail_dir)
        spool.prepare()
        monkeypatch.setattr(Spool, "prepare", lambda _: pytest.fail("prepared for each message"))

        make_mailer().deliver(message)

        assert len(kept(mail_dir)) == 1

    @pytest.mark.parametrize("folder", ["tmp", "new", "cur"])
    def test_one_whose_folders_cannot_be_made_stops_the_start(self, folder: str, mail_dir: Path) -> None:
        mail_dir.mkdir()
        (mail_dir / folder).touch()

        with pytest.raises(SettingsError) as raised:
            require_mail_dir(mail_dir)

        assert str(raised.value) == f"MAIL_DIR='{mail_dir}': expected {PRIVATE_DIRECTORY}: File exists"

    def test_one_that_takes_no_folders_stops_the_start(self) -> None:
        with pytest.raises(SettingsError) as raised:
            require_mail_dir(Path("/proc/self"))

        (line,) = str(raised.value).splitlines()
        assert line.startswith(f"MAIL_DIR='/proc/self': expected {PRIVATE_DIRECTORY}: ")


def test_messages_stored_before_a_restart_are_kept_and_counted(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    make_mailer().deliver(message)

    make_mailer().deliver(message)

    assert len(kept(mail_dir)) == 2
    assert len(contents(mail_dir)) == 2


def test_a_message_counts_also_after_a_mail_reader_has_shown_it(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    make_mailer().deliver(message)

    (path,) = (mail_dir / "new").iterdir()
    path.rename(mail_dir / "cur" / f"{path.name}:2,S")

    assert len(kept(mail_dir)) == 1


def test_the_oldest_comes_first_wherever_it_lies(mail_dir: Path) -> None:
    stored = [keep(mail_dir, letter(number), age=age) for number, age in ((1, 5), (2, 500), (3, 50))]
    (mail_dir / stored[2].path).rename(mail_dir / "cur" / f"{Path(stored[2].path).name}:2,S")

    assert [message.local_part for message in kept(mail_dir)] == ["2", "3", "1"]


OTHERS: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a message": lambda path: path.symlink_to(path.with_name("3.eml")),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_only_regular_files_with_a_name_of_the_service_are_messages(
    mail_dir: Path, make: Callable[[Path], object]
) -> None:
    message = keep(mail_dir, letter(1))
    (mail_dir / "new" / "3.eml").write_bytes(CONTENT)
    make(mail_dir / "new" / NAME)

    assert kept(mail_dir) == [message]


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


class TestUnfinished:
    """What a killed process has left in tmp/."""

    @pytest.fixture
    def spool(self, mail_dir: Path) -> Spool:
        spool = Spool(mail_dir)
        spool.prepare()
        return spool

    def leave(self, mail_dir: Path, name: str, hours: float) -> Path:
        path = mail_dir / "tmp" / name
        path.write_bytes(CONTENT[:50])
        begun = time.time() - hours * 3600
        os.utime(path, (begun, begun))
        return path

    def test_it_is_removed_after_36_hours(self, spool: Spool, mail_dir: Path) -> None:
        self.leave(mail_dir, NAME, 36.1)
        young = self.leave(mail_dir, f"1{NAME}", 35.9)

        assert spool.remove_unfinished() == 1
        assert list((mail_dir / "tmp").iterdir()) == [young]

    @pytest.mark.parametrize("name", ["1", "3.eml", f"{NAME}~", ".nfs0001"])
    def test_a_file_of_somebody_else_stays(self, spool: Spool, mail_dir: Path, name: str) -> None:
        path = self.leave(mail_dir, name, 1000)

        assert spool.remove_unfinished() == 0
        assert path.exists()

    def test_one_that_is_being_written_stays(self, spool: Spool, mail_dir: Path) -> None:
        path = self.leave(mail_dir, NAME, 1000)
        with path.open() as written:
            fcntl.flock(written, fcntl.LOCK_EX)

            assert spool.remove_unfinished() == 0
        assert spool.remove_unfinished() == 1

    @pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
    def test_what_is_no_regular_file_stays_and_stops_nothing(
        self, mail_dir: Path, make: Callable[[Path], object]
    ) -> None:
        Spool(mail_dir).prepare()
        make(mail_dir / "tmp" / NAME)
        self.leave(mail_dir, f"1{NAME}", 1000)

        with later(1000 * 3600):
            removed = Spool(mail_dir).remove_unfinished()
        assert removed == 1
        assert [path.name for path in (mail_dir / "tmp").iterdir()] == [NAME]

    def test_a_message_is_none(self, spool: Spool, mail_dir: Path) -> None:
        keep(mail_dir, letter(1), age=1000 * 3600)

        assert spool.remove_unfinished() == 0
        assert len(kept(mail_dir)) == 1


def test_messages_stored_at_the_same_time_are_kept_once_each(make_mailer: MakeMailer, mail_dir: Path) -> None:
    messages = [Message(f"<{n}@example.com>", CONTENT + b"%d\r\n" % n) for n in range(64)]
    mailer = make_mailer()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(mailer.deliver, messages))

    assert contents(mail_dir) == sorted(message.content.replace(b"\r\n", b"\n") for message in messages)


@contextmanager
def nearly_full_disk() -> Iterator[None]:
    """No file can grow beyond 50 bytes: a write takes what fits, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_message_of_which_the_disk_takes_a_part_is_not_stored(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    mailer = make_mailer()

    with nearly_full_disk(), pytest.raises(DeliveryError):
        mailer.deliver(message)

    assert [path for path in mail_dir.rglob("*") if path.is_file()] == []


def test_a_store_is_tried_without_leaving_anything(mail_dir: Path) -> None:
    Spool(mail_dir).check()

    assert [path for path in mail_dir.rglob("*") if path.is_file()] == []


def test_a_store_that_takes_only_a_part_is_found_out_and_nothing_is_left(mail_dir: Path) -> None:
    with nearly_full_disk(), pytest.raises(OSError, match="File too large"):
        Spool(mail_dir).check()

    assert [path for path in mail_dir.rglob("*") if path.is_file()] == []


CHECK = """
import errno, pathlib, sys
from app.mail.spool import Spool
for mail_dir in sys.argv[1:]:
    try:
        Spool(pathlib.Path(mail_dir)).check()
    except OSError as error:
        print(errno.errorcode[error.errno])
    else:
        print("takes messages")
"""

DISKS = {
    "usual": disks.USUAL,
    "full": disks.FULL,
    "without a place for one more file": disks.WITHOUT_INODES,
    "read-only": disks.READ_ONLY,
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a process says that checks one disk of each kind."""
    mail_dirs = {name: str(tmp_path_factory.mktemp("disk")) for name in DISKS}
    all_disks = " && ".join(shlex.join(["sh", "-c", disk, mail_dirs[name]]) for name, disk in DISKS.items())
    command = [sys.executable, "-c", CHECK, *mail_dirs.values()]
    result = disks.run(all_disks, tmp_path_factory.mktemp("outcomes"), command)
    assert result.stderr == ""
    return dict(zip(DISKS, result.stdout.splitlines(), strict=True))


@pytest.mark.parametrize(
    ("disk", "outcome"),
    [
        ("usual", "takes messages"),
        ("full", "ENOSPC"),
        ("without a place for one more file", "ENOSPC"),
        ("read-only", "EROFS"),
    ],
)
def test_a_real_disk_says_why_it_takes_no_message(outcomes: dict[str, str], disk: str, outcome: str) -> None:
    assert outcomes[disk] == outcome
