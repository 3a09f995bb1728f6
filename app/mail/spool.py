"""The messages on disk: a private Maildir holds each from before the first attempt until the mail server has it."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from app.mail.kept import Name, State, parse_name
from app.mail.message import KIND_HEADER, MAX_MESSAGE_BYTES, Message
from app.settings import PRIVATE_DIRECTORY, SettingsError

FOLDERS = ("tmp", "new", "cur")
"""The folders of a Maildir."""

_KIND = f"\n{KIND_HEADER}: "
_PREFIX = len("new/")
"""The length of a folder's name, which is the same for new and cur."""

PROBE = bytes(2**16)
"""Written to test the disk; few messages are larger."""

_USUAL = 2**14
"""The bytes that are read of a file at first; to ask for its size would take as long."""
_LARGEST = 6 * MAX_MESSAGE_BYTES
"""The most bytes that are read of a file. Before a letter's rows were bounded, a form could make 5.6 MB."""
_WRITING_SECONDS = 3600.0
"""Age of a leftover: an older file in tmp/ that nobody has locked. A message stays in tmp/ for milliseconds."""

logger = logging.getLogger(__name__)


class Stored(NamedTuple):
    """The facts about a stored message that may be shown: none is personal."""

    name: Name
    place: str
    """The path of the file below the Maildir."""
    message_id: str
    form_type: str
    size: int
    """In bytes."""


class NotAMessageError(OSError):
    """A file in MAIL_DIR is not a complete message of this service."""

    def __init__(self) -> None:
        super().__init__("not a message of this service")


class Entry:
    """A stored message that this process alone is handing over.

    It holds a lock on the file, which the kernel releases even when the process is killed. ``name`` and ``place`` are
    given as they were when the file was locked. The attempt has the time of its beginning, so that one which fails
    although the server has come back meanwhile counts as one before that.
    """

    def __init__(self, maildir: str, name: Name, place: str, descriptor: int) -> None:
        self._maildir = maildir
        self._name = name
        self._place = place
        self._descriptor = descriptor
        self._begun = time.time()

    @property
    def attempts(self) -> int:
        """The attempts that had ended when the message was locked."""
        return self._name.attempts

    @property
    def place(self) -> str:
        """The path of the file below the Maildir, as it is now."""
        return self._place

    @property
    def state(self) -> State:
        """The state of the message, as it is now."""
        name = parse_name(self._place[_PREFIX:])
        return (name or self._name).state

    def message(self) -> Message:
        """The message, with CRLF line ends; raises NotAMessageError or another OSError."""
        content = _read(self._descriptor)
        return Message(_check(self._name, content)[0], content.replace(b"\n", b"\r\n"))

    def mark_in_doubt(self) -> None:
        """Note that the server may have taken the message, in case this process dies before the answer arrives.

        Raises OSError. Then the content must not be sent, because it could be sent again later.
        """
        self._move(self._name.tried(self._begun)._replace(in_doubt=True))

    def note(self, answer: str, *, refused: bool) -> None:
        """Note an attempt in which the server has not taken the message, with its answer: a code or a word.

        A message that was in doubt before this attempt stays so.
        """
        try:
            self._move(self._name.tried(self._begun, answer=answer, refused=refused))
        except OSError as error:
            logger.error("the state of a message cannot be noted in MAIL_DIR: %s", error.strerror)

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
            self.discard()
        except OSError as error:
            logger.error("a delivered message cannot be removed from MAIL_DIR: %s", error.strerror)

    def discard(self) -> None:
        """Delete the message, delivered or not; raises OSError."""
        os.unlink(f"{self._maildir}/{self._place}")

    def release(self) -> None:
        """Unlock the message, so that others can hand it over if it is still there."""
        os.close(self._descriptor)

    def _move(self, name: Name) -> None:
        os.rename(f"{self._maildir}/{self._place}", f"{self._maildir}/{name.place}")
        self._place = name.place


class Spool:
    """The Maildir at MAIL_DIR: directories with mode 0700, files with mode 0600.

    Nothing is made before a message or a check needs it, so that a command that only reads makes nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._maildir = str(directory)  # a Path for each message would take longer than the disk

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
        local_part = message.message_id.strip("<>").partition("@")[0]
        now = time.time_ns()
        name = Name(f"{now}.{os.getpid()}.{local_part}", local_part, now / 1e9)
        written = f"{self._maildir}/tmp/{name.unique}"  # noqa: S108 - the tmp of the Maildir
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            _write(descriptor, message.content.replace(b"\r\n", b"\n"))  # a Maildir uses the line ends of its system
            os.fsync(descriptor)  # a power cut must not leave a name without its message
            os.rename(written, f"{self._maildir}/{name.place}")
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(written)
            raise
        return Entry(self._maildir, name, name.place, descriptor)

    def names(self) -> Iterator[tuple[str, Name | None]]:
        """The place of each file, and its name if that is one of a message; opens none. Raises OSError.

        A file that is renamed meanwhile may be missing or come twice.
        """
        for place in self._places():
            yield place, parse_name(place[_PREFIX:])

    def places(self) -> list[str]:
        """The place of each file, the oldest message first; raises OSError."""
        return sorted(self._places(), key=lambda place: place[_PREFIX:])  # a name begins with the time

    def stored(self, wanted: Callable[[Name], bool] | None = None) -> Iterator[tuple[str, Stored | None]]:
        """The place of each file, the oldest message first; None for a file that is not a complete message.

        ``wanted`` chooses among the messages by their names. Raises OSError.
        """
        places: Iterable[str] = self.places()
        if wanted is not None:
            places = (place for place in places if (name := parse_name(place[_PREFIX:])) is None or wanted(name))
        return self.read_all(places)

    def read_all(self, places: Iterable[str]) -> Iterator[tuple[str, Stored | None]]:
        """Each place where there still is a file; None for one that is not a complete message."""
        for place in places:
            message = self.read(place)
            if message or self._exists(place):
                yield place, message

    def leftovers(self) -> Iterator[str]:
        """The places of files that were never finished; raises OSError."""
        with suppress(FileNotFoundError):  # a folder that was not made yet holds nothing
            for file in os.listdir(f"{self._maildir}/tmp"):  # noqa: S108 - the tmp of the Maildir
                if self._is_leftover(file):
                    yield f"tmp/{file}"

    def read(self, place: str) -> Stored | None:
        """The message at a place; None when it is not a complete message, or is not there any more."""
        try:
            return self.open(place)[0]
        except OSError:
            return None

    def open(self, place: str) -> tuple[Stored, bytes]:
        """The message at a place with its content; raises NotAMessageError or another OSError."""
        name = parse_name(place[_PREFIX:])
        if name is None:
            raise NotAMessageError  # the service gives its messages other names
        descriptor = _open(f"{self._maildir}/{place}")
        try:
            content = _read(descriptor)
        finally:
            os.close(descriptor)
        message_id, form_type = _check(name, content)
        return Stored(name, place, message_id, form_type, len(content)), content

    def _places(self) -> Iterator[str]:
        for folder in ("new", "cur"):
            with suppress(FileNotFoundError), os.scandir(f"{self._maildir}/{folder}") as files:
                for file in files:
                    yield f"{folder}/{file.name}"

    def check(self) -> None:
        """Prepare the Maildir; raise OSError when no message could be stored or removed now."""
        self.prepare()
        self.probe()

    def probe(self) -> None:
        """Raise OSError when no message could be stored or removed now. Nothing that it makes stays."""
        for folder in FOLDERS:
            # A file without a name disappears even when the process is killed.
            with tempfile.TemporaryFile(dir=f"{self._maildir}/{folder}", buffering=0) as probe:
                _write(probe.fileno(), PROBE)

    def is_writable(self) -> bool:
        """True when messages can be moved and removed, even if the disk has no room for another one."""
        folders = (f"{self._maildir}/{folder}" for folder in ("new", "cur"))
        # A folder that was not made yet can be made.
        return all(os.access(folder if os.path.lexists(folder) else self._maildir, os.W_OK) for folder in folders)

    @contextmanager
    def claim(self, place: str) -> Iterator[Entry | None]:
        """The entry of the message at a place; None when somebody else is handing it over or has done so.

        Raises OSError when the file cannot be opened.
        """
        name = parse_name(place[_PREFIX:])
        try:
            descriptor = _open(f"{self._maildir}/{place}")
        except FileNotFoundError:
            yield None
            return
        try:
            # Somebody else may have delivered or moved it before the lock was taken.
            free = name and _lock(descriptor) and self._exists(place)
            yield Entry(self._maildir, name, place, descriptor) if name and free else None
        finally:
            os.close(descriptor)

    def _exists(self, place: str) -> bool:
        return os.path.lexists(f"{self._maildir}/{place}")

    def _is_leftover(self, file: str) -> bool:
        path = f"{self._maildir}/tmp/{file}"  # noqa: S108 - the tmp of the Maildir
        try:
            # A young file is not locked here, because its writer may be about to lock it.
            if time.time() - os.lstat(path).st_mtime < _WRITING_SECONDS:
                return False
            descriptor = _open(path)
            try:
                return _lock(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            return os.path.lexists(path)


def require_mail_dir(mail_dir: Path) -> None:
    """Prepare MAIL_DIR; raises SettingsError, which stops the start, when it takes no message."""
    try:
        Spool(mail_dir).check()
    except OSError as error:
        raise SettingsError([f"MAIL_DIR={str(mail_dir)!r}: expected {PRIVATE_DIRECTORY}: {error.strerror}"]) from error


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


def _open(path: str) -> int:
    """A descriptor to read a file. What is not a regular file cannot be opened or not be read, and nothing waits."""
    # Without O_NONBLOCK a FIFO would wait for its writer. A link can lead out of MAIL_DIR.
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)


def _read(descriptor: int) -> bytes:
    try:
        content = os.pread(descriptor, _USUAL, 0)
        return content if len(content) < _USUAL else os.pread(descriptor, _LARGEST, 0)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ESPIPE):
            raise NotAMessageError from error
        raise


def _check(name: Name, content: bytes) -> tuple[str, str]:
    """Message-ID and form kind of a message; raises NotAMessageError unless it is a complete one of this service."""
    if not content.isascii() or b"\0" in content:  # a power cut can leave zeros
        raise NotAMessageError
    header = content[: content.find(b"\n\n") + 1].decode()
    message_id, content_type = _field(header, "\nMessage-ID: "), _field(header, "\nContent-Type: ")
    boundary = content_type.partition('; boundary="')[2].removesuffix('"')
    if not (
        message_id.startswith(f"<{name.local_part}@")
        and message_id.isprintable()
        and boundary
        and content.endswith(f"\n--{boundary}--\n".encode())
    ):
        raise NotAMessageError
    form_type = _field(header, _KIND)
    return message_id, form_type if form_type.isalnum() else "-"


def _field(header: str, name: str) -> str:
    """The value of a header field, which is on one line; empty when there is none.

    ``name`` has the line break before it and the colon and the space behind it. To add them here would take as long as
    to find them, and a regular expression longer than to read the file.
    """
    start = header.find(name) + len(name)
    return header[start : header.find("\n", start)] if start >= len(name) else ""
