"""Messages on disk: a Maildir that only the service's user can read."""

from __future__ import annotations

import mailbox
from pathlib import Path

from app.mail.message import Message


class Spool:
    """The Maildir at MAIL_DIR (directories 0700, files 0600)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for folder in ("", "tmp", "new", "cur"):
            (directory / folder).mkdir(mode=0o700, exist_ok=True)
        self._maildir = mailbox.Maildir(directory, create=False)

    def add(self, message: Message) -> str:
        """Store the message on disk and return the key it is found by.

        Raises OSError when the disk does not take it.
        """
        key = self._maildir.add(message.content)
        (self.directory / "new" / key).chmod(0o600)
        return key

    def count(self) -> int:
        """How many messages are stored."""
        return sum(1 for folder in ("new", "cur") for _ in (self.directory / folder).iterdir())
