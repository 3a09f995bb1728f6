"""The messages on disk: a private Maildir holds each from before the first attempt until the mail server has it."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.mail.message import KIND_HEADER, Message
from app.settings import PRIVATE_DIRECTORY, SettingsError

FOLDERS = ("tmp", "new", "cur")
"""The folders of a Maildir."""

_FLAGS = ":2,"
"""Separates the name from the flags in a Maildir; a mail reader may add flags."""
_IN_DOUBT = "F"
"""Maildir's flag for attention. Here: the server may have taken this message."""
_NAME = re.compile(r"[0-9]+\.[0-9]+\.([^:]+)(?::2,[A-Za-z]*)?")
"""The name of a message: time, process, local part of the Message-ID, and perhaps flags."""
_FIELD = re.compile(r"^([A-Za-z-]+): ([ -~]*)$", re.MULTILINE)
_BOUNDARY = re.compile(r'boundary="(.+)"')

PROBE = bytes(2**16)
"""Written to test the disk; few messages are larger."""

_LARGEST = 2**21
"""The most bytes that are read of a file; the longest form makes a message of less than a megabyte."""
_WRITING_SECONDS = 3600.0
"""Age of a leftover: an older file in tmp/ that nobody has locked. A message stays in tmp/ for milliseconds."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """The facts about a stored message that may be shown: none is personal."""

    path: Path
    message_id: str
    form_type: str
    size: int
    """In bytes."""
    age: float
    """In seconds."""
    in_doubt: bool


class NotAMessageError(OSError):
    """A file in MAIL_DIR is not a complete message of this service."""

    def __init__(self) -> None:
        super().__init__("not a message of this service")


class Entry:
    """A stored message that this process alone is handing over.

    It holds a lock on the file, which the kernel releases even when the process is killed. ``place`` is the path of the
    file below the Maildir.
    """

    def __init__(self, maildir: str, place: str, descriptor: int) -> None:
        self._maildir = maildir
        self._place = place
        self._descriptor = descriptor

    def read(self) -> bytes:
        """The message's content with CRLF line ends; raises NotAMessageError or another OSError."""
        content = _read(self._descriptor)
        _check(self._place, content)
        return content.replace(b"\n", b"\r\n")

    def mark_in_doubt(self) -> None:
        """Note that the server may have taken the message, in case this process dies before the answer arrives."""
        self._move(f"cur/{_unique_name(self._place)}{_FLAGS}{_IN_DOUBT}")

    @property
    def in_doubt(self) -> bool:
        """True when the server may have taken the message in an earlier attempt."""
        return _is_in_doubt(self._place)

    def clear_doubt(self) -> None:
        """Note that the server has not taken the message in any attempt."""
        self._move(f"new/{_unique_name(self._place)}")

    def secure(self) -> None:
        """Wait until the name of a message that stays would survive a power cut; raises OSError."""
        folder = os.open(os.path.dirname(f"{self._maildir}/{self._place}"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self) -> None:
        """Delete the message: it has been delivered."""
        try:
            os.unlink(f"{self._maildir}/{self._place}")
        except OSError as error:
            logger.error("a delivered message cannot be removed from MAIL_DIR: %s", error.strerror)

    def release(self) -> None:
        """Unlock the message, so that others can hand it over if it is still there."""
        os.close(self._descriptor)

    def _move(self, place: str) -> None:
        try:
            os.rename(f"{self._maildir}/{self._place}", f"{self._maildir}/{place}")
            self._place = place
        except OSError as error:
            logger.error("the state of a message cannot be noted in MAIL_DIR: %s", error.strerror)


class Spool:
    """The Maildir at MAIL_DIR: directories with mode 0700, files with mode 0600.

    Nothing is made before a message or a check needs it, so that a command that only reads makes nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._maildir = str(directory)  # a Path for each message would take longer than the disk
        self._counted: set[str] = set()

    def prepare(self) -> None:
        """Make the Maildir, and make it private to this user; raises OSError."""
        directory = Path(self._maildir)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
        # A read-only disk refuses every change of the mode, even to the one that is set. A mounted volume may belong to
        # another user: its mode was checked with the settings.
        if stat.S_IMODE(status.st_mode) != stat.S_IRWXU and status.st_uid == os.geteuid():
            directory.chmod(stat.S_IRWXU)
        for folder in FOLDERS:
            (directory / folder).mkdir(mode=0o700, exist_ok=True)

    def store(self, message: Message) -> Entry:
        """Write the message to disk, locked from the first moment on; make the Maildir if it is missing.

        Raises OSError when the disk does not take the message.
        """
        try:
            return self._store(message)
        except FileNotFoundError:
            self.prepare()
            return self._store(message)

    def _store(self, message: Message) -> Entry:
        name = f"{time.time_ns()}.{os.getpid()}.{message.message_id.strip('<>').partition('@')[0]}"
        written = f"{self._maildir}/tmp/{name}"  # noqa: S108 - the tmp of the Maildir
        stored = f"new/{name}"
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            _write(descriptor, message.content.replace(b"\r\n", b"\n"))  # a Maildir uses the line ends of its system
            os.fsync(descriptor)  # a power cut must not leave a name without its message
            os.rename(written, f"{self._maildir}/{stored}")
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(written)
            raise
        return Entry(self._maildir, stored, descriptor)

    def stored(self) -> list[Stored]:
        """The complete messages, the oldest first; raises OSError."""
        found = [stored for place in self._places("new", "cur") if (stored := self._message(place))]
        return sorted(found, key=lambda stored: stored.path.name)  # a name begins with the time

    def foreign(self) -> list[str]:
        """The places of all other files, leftovers in tmp/ included; raises OSError."""
        found = [place for place in self._places("new", "cur") if not self._message(place) and self._exists(place)]
        return sorted(found + [place for place in self._places("tmp") if self._is_leftover(place)])

    def count(self) -> int:
        """The number of complete messages; raises OSError."""
        # A message never changes. So the health check, which counts every few seconds, reads each message once.
        self._counted = {
            place for place in self._places("new", "cur") if place in self._counted or self._message(place)
        }
        return len(self._counted)

    def check(self) -> None:
        """Prepare the Maildir; raise OSError when no message could be stored or removed now."""
        self.prepare()
        for folder in FOLDERS:
            # A file without a name disappears even when the process is killed.
            with tempfile.TemporaryFile(dir=f"{self._maildir}/{folder}", buffering=0) as probe:
                _write(probe.fileno(), PROBE)

    def is_writable(self) -> bool:
        """True when messages can be moved and removed, even if the disk has no room for another one."""
        return all(os.access(f"{self._maildir}/{folder}", os.W_OK) for folder in ("new", "cur"))

    @contextmanager
    def claim(self, stored: Stored) -> Iterator[Entry | None]:
        """The entry of a stored message; None when somebody else is handing it over or has done so.

        Raises OSError when the file cannot be opened.
        """
        with ExitStack() as stack:
            try:
                descriptor = stack.enter_context(_opened(str(stored.path)))
            except FileNotFoundError:
                yield None
                return
            # Somebody else may have delivered or moved it before the lock was taken.
            free = _lock(descriptor) and stored.path.exists()
            place = str(stored.path.relative_to(self._maildir))
            yield Entry(self._maildir, place, descriptor) if free else None

    def _places(self, *folders: str) -> Iterator[str]:
        for folder in folders:
            with suppress(FileNotFoundError):  # a folder that was not made yet holds nothing
                for name in os.listdir(f"{self._maildir}/{folder}"):
                    yield f"{folder}/{name}"

    def _exists(self, place: str) -> bool:
        return os.path.lexists(f"{self._maildir}/{place}")

    def _message(self, place: str) -> Stored | None:
        """The message at a place; None when it is not a complete message, or is not there any more."""
        path = f"{self._maildir}/{place}"
        if not _NAME.fullmatch(place.rpartition("/")[2]):
            return None  # the service gives its messages other names
        try:
            with _opened(path) as descriptor:
                fields = _check(place, _read(descriptor))
                status = os.fstat(descriptor)
        except OSError:
            return None
        return Stored(
            path=Path(path),
            message_id=fields["Message-ID"],
            form_type=fields.get(KIND_HEADER, "-"),
            size=status.st_size,
            age=max(0.0, time.time() - status.st_mtime),
            in_doubt=_is_in_doubt(place),
        )

    def _is_leftover(self, place: str) -> bool:
        path = f"{self._maildir}/{place}"
        try:
            # A young file is not locked here, because its writer may be about to lock it.
            if time.time() - os.lstat(path).st_mtime < _WRITING_SECONDS:
                return False
            with _opened(path) as descriptor:
                return _lock(descriptor)
        except OSError:
            return self._exists(place)


def require_mail_dir(mail_dir: Path) -> None:
    """Prepare MAIL_DIR; raises SettingsError, which stops the start, when it takes no message."""
    try:
        Spool(mail_dir).check()
    except OSError as error:
        raise SettingsError([f"MAIL_DIR={str(mail_dir)!r}: expected {PRIVATE_DIRECTORY}: {error.strerror}"]) from error


def _unique_name(place: str) -> str:
    return place.rpartition("/")[2].partition(_FLAGS)[0]


def _is_in_doubt(place: str) -> bool:
    return _IN_DOUBT in place.partition(_FLAGS)[2]


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:  # a disk that is nearly full writes only a part
        left = left[os.write(descriptor, left) :]


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A descriptor of a regular file; raises NotAMessageError for anything else, or another OSError."""
    # Without O_NONBLOCK a FIFO would wait for its writer. A link can lead out of MAIL_DIR.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAMessageError
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, min(os.fstat(descriptor).st_size, _LARGEST), 0)


def _check(place: str, content: bytes) -> dict[str, str]:
    """The header fields of a message; raises NotAMessageError unless it is a complete message of this service."""
    if not content.isascii() or b"\0" in content:  # a power cut can leave zeros
        raise NotAMessageError
    name = _NAME.fullmatch(place.rpartition("/")[2])
    fields = dict(_FIELD.findall(content.partition(b"\n\n")[0].decode()))
    boundary = _BOUNDARY.search(fields.get("Content-Type", ""))
    if not (
        name
        and fields.get("Message-ID", "").startswith(f"<{name[1]}@")
        and boundary
        and content.endswith(f"\n--{boundary[1]}--\n".encode())
    ):
        raise NotAMessageError
    return fields
