"""Messages on disk, from before the first attempt until the mail server has taken them: a private Maildir."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path

from app.mail.message import KIND_HEADER, Message

_FLAGS = ":2,"
"""What separates a Maildir name from its flags, to which a mail reader may add others."""
_IN_DOUBT = "F"
"""Maildir's flag for what deserves attention: the server may have taken this message."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """What may be shown of a stored message: nothing in it is personal."""

    path: Path
    message_id: str
    form_type: str
    size: int
    """In bytes."""
    age: float
    """In seconds."""
    in_doubt: bool


class Entry:
    """A stored message that this process, and no other, is handing over.

    Who holds it holds a lock on its file, which the kernel releases even when the process is killed. Its place is the
    path of that file below the Maildir.
    """

    def __init__(self, maildir: str, place: str, descriptor: int) -> None:
        self._maildir = maildir
        self._place = place
        self._descriptor = descriptor

    def read(self) -> bytes:
        """The message's content with CRLF line ends; raises OSError."""
        return Path(self._maildir, self._place).read_bytes().replace(b"\n", b"\r\n")

    def mark_in_doubt(self) -> None:
        """Note that from now on the server may have taken the message, should this process not live to hear of it."""
        self._move(f"cur/{_unique_name(self._place)}{_FLAGS}{_IN_DOUBT}")

    @property
    def in_doubt(self) -> bool:
        """Whether the server may have taken the message in an earlier attempt."""
        return _is_in_doubt(self._place)

    def clear_doubt(self) -> None:
        """Note that the server has not taken the message, in no attempt."""
        self._move(f"new/{_unique_name(self._place)}")

    def secure(self) -> None:
        """Wait until the message would survive even a power cut, which is for those that stay; raises OSError."""
        os.fsync(self._descriptor)

    def remove(self) -> None:
        """Delete the message: it has been delivered."""
        try:
            os.unlink(f"{self._maildir}/{self._place}")
        except OSError as error:
            logger.error("a delivered message cannot be removed from MAIL_DIR: %s", error.strerror)

    def release(self) -> None:
        """Let others take what is left."""
        os.close(self._descriptor)

    def _move(self, place: str) -> None:
        try:
            os.rename(f"{self._maildir}/{self._place}", f"{self._maildir}/{place}")
            self._place = place
        except OSError as error:
            logger.error("the state of a message cannot be noted in MAIL_DIR: %s", error.strerror)


class Spool:
    """The Maildir at MAIL_DIR, which the settings have made (directories 0700, files 0600)."""

    def __init__(self, directory: Path) -> None:
        self._maildir = str(directory)  # with each message a Path would cost more than the disk does

    def store(self, message: Message) -> Entry:
        """Write the message to disk, locked from its first moment on.

        Raises OSError when the disk does not take it.
        """
        name = f"{time.time_ns()}.{os.getpid()}.{message.message_id.strip('<>').partition('@')[0]}"
        written = f"{self._maildir}/tmp/{name}"  # noqa: S108 - the tmp of the Maildir
        stored = f"new/{name}"
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
            _write(descriptor, message.content.replace(b"\r\n", b"\n"))  # a Maildir has the line ends of its system
            os.rename(written, f"{self._maildir}/{stored}")
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(written)
            raise
        return Entry(self._maildir, stored, descriptor)

    def stored(self) -> list[Stored]:
        """What is in the store, the oldest first."""
        found = [stored for path in self._paths() if (stored := _describe(path))]
        return sorted(found, key=lambda stored: stored.path.name)  # which begins with the time

    def count(self) -> int:
        """How many messages are in the store; raises OSError."""
        return sum(1 for _ in self._paths())

    @contextmanager
    def claim(self, stored: Stored) -> Iterator[Entry | None]:
        """The entry of a stored message; None while another hands it over, and when it is gone."""
        try:
            descriptor = os.open(stored.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            # Between the look and the lock another may have delivered it, or moved it on.
            free = _lock(descriptor) and stored.path.exists()
            place = str(stored.path.relative_to(self._maildir))
            yield Entry(self._maildir, place, descriptor) if free else None
        finally:
            os.close(descriptor)

    def _paths(self) -> Iterator[Path]:
        for folder in ("new", "cur"):
            yield from Path(self._maildir, folder).iterdir()


def _unique_name(place: str) -> str:
    return place.rpartition("/")[2].partition(_FLAGS)[0]


def _is_in_doubt(place: str) -> bool:
    return _IN_DOUBT in place.partition(_FLAGS)[2]


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:  # a disk that is nearly full takes a part
        left = left[os.write(descriptor, left) :]


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _describe(path: Path) -> Stored | None:
    try:
        with path.open("rb") as file:
            headers = BytesHeaderParser().parse(file)
            status = os.fstat(file.fileno())
    except FileNotFoundError:  # delivered since it was listed
        return None
    return Stored(
        path=path,
        message_id=headers.get("Message-ID", "-"),
        form_type=headers.get(KIND_HEADER, "-"),
        size=status.st_size,
        age=max(0.0, time.time() - status.st_mtime),
        in_doubt=_is_in_doubt(path.name),
    )
