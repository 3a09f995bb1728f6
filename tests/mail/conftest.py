"""Fixtures of the mail layer's tests."""

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from flask import Flask

from app.mail import cli
from app.mail.cli import create_mail_commands
from app.mail.mailer import Mailer, create_mailer
from app.mail.message import Message
from app.mail.queued import QueuedMessage
from app.mail.spool import Spool
from tests.factories import make_settings
from tests.mail.server import SmtpServer

MakeMailer = Callable[..., Mailer]
MailCommand = Callable[..., Result]

DAY = 86_400

REQUEST = "3f0c9a1b5566778899aabbccddeeff00"
"""The id of a request. The reference of its submission is 3F0C-9A1B."""

NAMES = {
    "new": ",tries=0,last={stored},waiting=.demo",
    "waiting": ",tries=1,last=1700000000.000,waiting=451.demo",
    "in doubt": ",tries=1,last=1700000000.000,waiting=.demo.doubt",
    "in doubt, then deferred": ",tries=2,last=1700000000.000,waiting=451.demo.doubt",
    "refused": ",tries=1,last=1700000000.000,refused=550.demo",
    "given up": ",tries=35,last={late},waiting=451.demo",
}
"""The end of the name of a message in each state."""

AGES = {"waiting": 100, "given up": 6 * DAY}
"""The ages of the messages in these states in seconds; the others are new."""

SHORT = """\
From: web@example.com
To: ventas@example.com
Reply-To: ana@example.com
Subject: Prueba
Message-ID: <{number}@example.com>
X-Form-Type: {form_type}
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary="=_1"

--=_1

Hola
--=_1--
"""


def numbered(number: int | str, form_type: str = "demo") -> Message:
    """A message with all that the forms' messages have, but short."""
    content = SHORT.format(number=number, form_type=form_type).replace("\n", "\r\n").encode()
    return Message(f"<{number}@example.com>", content, form_type)


CONTENT = numbered(1).content


class Clock:
    """``passed`` puts both clocks forward; ``wall`` is the part by which the wall clock alone was set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.passed = self.wall = 0.0
        self.start, monotonic = float(round(time.time())), round(time.monotonic())  # sums of whole seconds are exact
        self._patch = patch
        patch.setattr(time, "time", lambda: self.start + self.passed + self.wall)
        patch.setattr(time, "time_ns", lambda: round(time.time() * 1_000) * 1_000_000)
        patch.setattr(time, "monotonic", lambda: monotonic + self.passed)

    def skip_after(self, sent: bytes, seconds: float) -> None:
        """Let so many seconds pass when a client first sends such bytes, without TLS: so a wait is short."""
        left, sendall = [seconds], socket.socket.sendall

        def sendall_and_skip(connected: socket.socket, data: bytes, flags: int = 0) -> None:
            sendall(connected, data, flags)
            if sent in data and left:
                self.passed += left.pop()

        self._patch.setattr(socket.socket, "sendall", sendall_and_skip)


@pytest.fixture(autouse=True)
def _all_mail_servers_are_trusted_and_a_resend_makes_no_pauses(
    _trusted_authority: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "GAP", 0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    with monkeypatch.context() as patch:
        yield Clock(patch)


@pytest.fixture
def message() -> Message:
    return numbered(1)


@pytest.fixture
def mail_dir(tmp_path: Path) -> Path:
    return tmp_path / "mail"


@pytest.fixture
def make_mailer(mail_dir: Path) -> Iterator[MakeMailer]:
    """Makes the mailer that delivers to a server, or the one that stores where there is none."""
    mailers: list[Mailer] = []

    def make(server: SmtpServer | None = None, **environ: str) -> Mailer:
        settings = make_settings(mail_dir, **(server.environ if server else {}) | environ)
        mailers.append(create_mailer(settings, Spool(mail_dir, has_server=settings.has_mail_server)))
        return mailers[-1]

    yield make
    for mailer in mailers:
        mailer.close()


@pytest.fixture
def mail(mail_dir: Path) -> MailCommand:
    """Runs ``flask mail`` with arguments, where the service has run, under the settings of a server or of none."""
    Spool(mail_dir).create()

    def run(*args: str, server: SmtpServer | None = None, input: str = "", **environ: str) -> Result:  # noqa: A002
        settings = make_settings(mail_dir, **(server.environ if server else {}) | environ)
        spool = Spool(mail_dir, has_server=settings.has_mail_server)
        commands = create_mail_commands(settings, create_mailer(settings, spool), spool)
        return Flask(__name__).test_cli_runner().invoke(commands, args, input=input)

    return run


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the disk is told, in its order; no test can take the power from the disk and look what is left."""
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def recording_fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        calls.append(f"fsync {path.name if path.is_dir() else path.parent.name + '/file'}")
        fsync(descriptor)

    def recording_rename(old: str, new: str) -> None:
        calls.append(f"rename {Path(old).parent.name} {Path(new).parent.name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "rename", recording_rename)
    return calls


def keep(mail_dir: Path, message: Message, state: str = "new", *, age: float | None = None) -> QueuedMessage:
    """Puts a message into MAIL_DIR as it is so many seconds after it was stored.

    The state is one of NAMES, or the end of another name.
    """
    Spool(mail_dir).create()
    stored = int(time.time() - (AGES.get(state, 0) if age is None else age))
    local_part = message.message_id.strip("<>").partition("@")[0]
    end = NAMES.get(state, state).format(stored=f"{stored}.000", late=f"{stored + 5 * DAY}.000")
    path = f"new/{stored}000000000.7.{local_part}{end}"
    (mail_dir / path).write_bytes(message.content.replace(b"\r\n", b"\n"))
    kept = Spool(mail_dir).message_at(path)
    assert kept is not None
    return kept


def kept(mail_dir: Path) -> list[QueuedMessage]:
    """The messages in MAIL_DIR, the oldest first."""
    return Spool(mail_dir).messages()


def arrived(server: SmtpServer) -> list[str]:
    return [re.findall(rb"Message-ID: (\S+)", arrival.content)[0].decode() for arrival in server.arrivals]
