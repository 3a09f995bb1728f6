"""The messages on disk: a private Maildir holds each until the mail server has it."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

from app.mail.message import Message
from app.mail.queued import SENDING, QueuedMessage, State, initial_name, parse_path
from app.settings import SettingsError

PRIVATE_DIRECTORY = "a directory that this user can create or write to and nobody else can read"
FOLDERS = ("tmp", "new", "cur")
"""The folders of a Maildir. A message is in new/; one that a mail program has moved to cur/ counts, too."""
UNFINISHED_SECONDS = 36 * 3600
"""Age at which a file in tmp/ counts as left by a process that was killed, which is Maildir's own rule."""


class Claim:
    """A stored message that this process alone may send: it is locked until the process releases it or dies."""

    def __init__(self, spool: "Spool", message: QueuedMessage, descriptor: int) -> None:
        self._message = message
        self.path = message.path  # of the file below MAIL_DIR, as it is now
        self._spool = spool
        self._descriptor = descriptor
        self._started_at = time.time()  # the attempt is dated by its start

    @property
    def state(self) -> State:
        """The state of the message, once the attempt has ended."""
        return (self._spool.message_at(self.path) or self._message).state

    def read(self) -> Message:
        """The message, with CRLF line ends and, as its ID, the local part; raises OSError."""
        content = self._spool.read(self._message)
        if not content.endswith(b"\n"):
            raise OSError(errno.EIO, "the message is cut off", self._spool.absolute(self.path))
        return Message(self._message.local_part, content.replace(b"\n", b"\r\n"), self._message.form_type)

    def record(self, code: str = "", *, refused: bool = False, mark: str = "") -> None:
        """Record the result of the attempt in the file name, as QueuedMessage.path_after does; raises OSError."""
        path = self._message.path_after(self._started_at, code, refused=refused, mark=mark)
        os.rename(self._spool.absolute(self.path), self._spool.absolute(path))
        self.path = path

    def sync(self) -> None:
        """Sync the folder, so that the file's name survives a power cut; raises OSError."""
        folder = os.open(os.path.dirname(self._spool.absolute(self.path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Delete the message, delivered or not; raises OSError."""
        os.unlink(self._spool.absolute(self.path))

    def release(self) -> None:
        """Unlock the message, so that others can send it."""
        os.close(self._descriptor)


class Spool:
    """The Maildir at MAIL_DIR: directories with mode 0700, files with mode 0600.

    Folders are created on first use, so a command that only reads creates none.
    """

    def __init__(self, directory: Path, *, has_server: bool = True) -> None:
        self._maildir = str(directory)  # a Path for each message would take longer than the disk
        self._has_server = has_server
        self._lead: int | None = None

    def absolute(self, path: str) -> str:
        """The absolute path of a path below MAIL_DIR."""
        return f"{self._maildir}/{path}"

    def message_at(self, path: str) -> QueuedMessage | None:
        """The message at a path below MAIL_DIR, by its name; None for another file."""
        return parse_path(path, time.time(), has_server=self._has_server)

    def check(self, *, create: bool = True) -> None:
        """Raise OSError unless a message could be stored, moved and removed now; leaves nothing but the folders.

        Without ``create``, a folder that is missing raises FileNotFoundError.
        """
        if create:
            self.create()
        name = initial_name(time.time_ns(), os.getpid(), "probe", "")
        os.close(self._place(name, "new/.probe", bytes(2**16)))  # few messages are larger
        with suppress(FileNotFoundError):  # another process checks, too
            os.rename(self.absolute("new/.probe"), self.absolute("cur/.probe"))
            os.unlink(self.absolute("cur/.probe"))

    def create(self) -> None:
        """Create the missing parts of the Maildir, private to this user; raises OSError."""
        directory = Path(self._maildir)
        directory.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
        self.require_private()
        status = directory.stat()
        # A read-only disk refuses every change of the mode, even one without effect.
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
            directory.chmod(stat.S_IRWXU)
        for folder in FOLDERS:
            (directory / folder).mkdir(mode=stat.S_IRWXU, exist_ok=True)

    def require_private(self) -> None:
        """Raise OSError when MAIL_DIR is no directory or is one that others share or can read; none at all passes."""
        try:
            status = os.stat(self._maildir)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._maildir)
        # A mounted volume may be another user's. Its group may read it: that is how this user can write to it. This
        # user's own can be made private, unless it is shared as /tmp is.
        if status.st_mode & (stat.S_ISVTX if status.st_uid == os.geteuid() else stat.S_IRWXO):
            raise PermissionError(errno.EPERM, "other users can read or share it", self._maildir)

    def exists(self) -> bool:
        """True when there is something at MAIL_DIR; raises OSError when this user cannot tell."""
        with suppress(FileNotFoundError):
            os.stat(self._maildir)
            return True
        return False

    def is_writable(self) -> bool:
        """True when messages can be renamed and removed, even if the disk has no room for another one."""
        folders = (self.absolute(folder) for folder in ("new", "cur"))
        # A folder that was not created yet can be created.
        return all(os.access(folder if os.path.lexists(folder) else self._maildir, os.W_OK) for folder in folders)

    def store(self, message: Message) -> Claim:
        """Write the message to disk, locked from the start; creates missing folders. Raises OSError."""
        if not all(os.path.isdir(self.absolute(folder)) for folder in FOLDERS):
            self.create()
        local_part = message.message_id.strip("<>").partition("@")[0]
        name = initial_name(time.time_ns(), os.getpid(), local_part, message.form_type)
        queued = self.message_at(f"new/{name}")
        if queued is None:
            raise ValueError("the Message-ID or the form type does not fit into a file name")
        # A Maildir uses the line ends of its system.
        return Claim(self, queued, self._place(name, queued.path, message.content.replace(b"\r\n", b"\n")))

    def messages(self) -> list[QueuedMessage]:
        """All messages, the oldest first; one that is being renamed may be missing. Raises OSError.

        Only a file that is marked as being sent is opened: its lock tells whether that is so, or its process has died.
        """
        found: dict[str, QueuedMessage] = {}
        for folder in ("new", "cur"):
            for message in self._messages_in(folder):
                if SENDING in message.path:
                    with suppress(OSError), self.claim(message) as claim:
                        message = message if claim else message._replace(state=State.WAITING)  # noqa: PLW2901
                found[message.unique] = message
        return sorted(found.values(), key=attrgetter("unique"))  # it begins with the time

    def unreadable(self) -> list[str]:
        """The paths below MAIL_DIR that look like another release's messages. Raises OSError."""
        alike = "[0-9]" * 11 + "*.[0-9]*.*"  # the time, the process, and whatever follows
        named = [f"{folder}/{it.name}" for folder in ("new", "cur") for it in Path(self.absolute(folder)).glob(alike)]
        return sorted(path for path in named if self.message_at(path) is None)

    def read(self, message: QueuedMessage) -> bytes:
        """The content of a message; raises OSError."""
        with open(self.absolute(message.path), "rb") as file:
            return file.read()

    def leads(self, *, willing: bool) -> bool:
        """Lock MAIL_DIR while ``willing``; True in the one process with the lock. Raises OSError."""
        if willing and self._lead is None:
            self._lead = os.open(self._maildir, os.O_RDONLY)
        if self._lead is not None and not (willing and _lock(self._lead)):
            os.close(self._lead)
            self._lead = None
        return self._lead is not None

    @contextmanager
    def claim(self, message: QueuedMessage) -> Iterator[Claim | None]:
        """Claim a message; None when another process sends it or has done so. Raises OSError."""
        path = self.absolute(message.path)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            yield None
            return
        try:
            # Another process may have delivered or renamed it before the lock.
            yield Claim(self, message, descriptor) if _lock(descriptor) and os.path.lexists(path) else None
        finally:
            os.close(descriptor)

    def remove_unfinished(self) -> int:
        """Remove the abandoned messages in tmp/, by their age; returns how many. Raises OSError.

        No client was told that they were accepted.
        """
        removed = 0
        for message in self._messages_in("tmp"):
            with suppress(FileNotFoundError, PermissionError):  # finished by now, or another user's
                if os.stat(self.absolute(message.path)).st_mtime < time.time() - UNFINISHED_SECONDS:
                    with self.claim(message) as claim:
                        if claim:
                            claim.discard()
                            removed += 1
        return removed

    def _place(self, name: str, path: str, content: bytes) -> int:
        """Write a file in tmp/ and move it to its path; returns its descriptor, which is locked. Raises OSError."""
        unfinished = self.absolute(f"tmp/{name}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _lock(descriptor)
            _write(descriptor, content)
            os.fsync(descriptor)  # a power cut must not leave a name without its message
            os.rename(unfinished, self.absolute(path))
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(unfinished)
            raise
        return descriptor

    def _messages_in(self, folder: str) -> Iterator[QueuedMessage]:
        with suppress(FileNotFoundError), os.scandir(self.absolute(folder)) as files:  # before the first use
            for file in files:
                message = self.message_at(f"{folder}/{file.name}")
                if message and file.is_file(follow_symlinks=False):
                    yield message


def require_mail_dir(mail_dir: Path, *, create: bool = True) -> None:
    """Create and check MAIL_DIR, or judge it as it is; raises SettingsError, which stops the start."""
    spool = Spool(mail_dir)
    try:
        spool.check() if create else spool.require_private()
    except OSError as error:
        raise SettingsError([f"MAIL_DIR={str(mail_dir)!r}: expected {PRIVATE_DIRECTORY}: {error.strerror}"]) from error


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:  # a disk that is nearly full writes only a part
        left = left[os.write(descriptor, left) :]


def _lock(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
