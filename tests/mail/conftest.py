"""Fixtures of the mail layer's tests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask

from app.mail.cli import create_mail_commands
from app.mail.kept import Name
from app.mail.mailer import Mailer, create_mailer
from app.mail.message import Message
from app.mail.smtp import SmtpSender
from app.mail.spool import Spool, Stored
from tests.factories import make_settings
from tests.mail.scripted import ScriptedServer
from tests.mail.server import SmtpServer

MakeMailer = Callable[..., Mailer]
MakeSender = Callable[..., SmtpSender]
MailCommand = Callable[..., Result]


DAY = 86_400

REQUEST = "3f0c9a1b5566778899aabbccddeeff00"
"""The id of a request. The reference of its submission is 3F0C-9A1B."""


STATES: dict[str, dict[str, Any]] = {
    "new": {},
    "waiting": {"age": 100, "attempts": 1, "tried_at": 1_700_000_000, "answer": "451"},
    "in doubt": {"attempts": 1, "tried_at": 1_700_000_000, "in_doubt": True},
    "in doubt, then deferred": {"attempts": 2, "tried_at": 1_700_000_000, "answer": "451", "in_doubt": True},
    "refused": {"attempts": 1, "tried_at": 1_700_000_000, "answer": "550", "refused": True},
    "given up": {"age": 6 * DAY, "attempts": 35, "tried_at": 4_000_000_000, "answer": "451"},
}
"""The facts of a message in each state."""


def letter(number: int | str, form_type: str = "demo") -> Message:
    """A message with all that the forms' messages have, but short."""
    lines = [
        "From: web@example.com",
        "To: ventas@example.com",
        "Reply-To: ana@example.com",
        "Subject: Prueba",
        f"Message-ID: <{number}@example.com>",
        f"X-Form-Type: {form_type}",
        "MIME-Version: 1.0",
        'Content-Type: multipart/alternative; boundary="=_1"',
        "",
        "--=_1",
        "",
        "Hola",
        "--=_1--",
        "",
    ]
    return Message(f"<{number}@example.com>", "\r\n".join(lines).encode())


CONTENT = letter(1).content


@pytest.fixture(autouse=True)
def _all_mail_servers_are_trusted(_trusted_authority: None) -> None:
    pass


@pytest.fixture
def message() -> Message:
    return letter(1)


@pytest.fixture
def mail_dir(tmp_path: Path) -> Path:
    return tmp_path / "mail"


@pytest.fixture
def make_mailer(mail_dir: Path) -> Iterator[MakeMailer]:
    """Makes the mailer that delivers to a server, or the one that stores where there is none."""
    mailers: list[Mailer] = []

    def make(server: SmtpServer | None = None, **environ: str) -> Mailer:
        settings = make_settings(mail_dir, **(server.environ if server else {}) | environ)
        mailers.append(create_mailer(settings, Spool(mail_dir)))
        return mailers[-1]

    yield make
    for mailer in mailers:
        mailer.close()


@pytest.fixture
def make_sender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeSender]:
    """Makes a sender to a server, with more settings if a test needs them."""
    senders: list[SmtpSender] = []

    def make(server: SmtpServer | ScriptedServer, **environ: str) -> SmtpSender:
        senders.append(SmtpSender(make_settings(tmp_path_factory.mktemp("mail"), **server.environ | environ)))
        return senders[-1]

    yield make
    for sender in senders:
        sender.close()


@pytest.fixture
def mail(mail_dir: Path) -> MailCommand:
    """Runs ``flask mail`` with arguments, where the service has run, under the settings of a server or of none."""
    spool = Spool(mail_dir)
    spool.prepare()
    app = Flask(__name__)

    def run(*args: str, server: SmtpServer | ScriptedServer | None = None, **environ: str) -> Result:
        settings = make_settings(mail_dir, **(server.environ if server else {}) | environ)
        commands = create_mail_commands(settings, spool)
        return app.test_cli_runner().invoke(commands, args)

    return run


@pytest.fixture
def absent_server() -> SmtpServer:
    """A mail server that does not listen."""
    with SmtpServer() as server:
        return server


@pytest.fixture
def undelivered(mail_dir: Path) -> Callable[..., None]:
    """Puts messages into MAIL_DIR, as a failed hand-over leaves them."""

    def store(*messages: Message) -> None:
        spool = Spool(mail_dir)
        for message in messages:
            spool.store(message).release()

    return store


def keep(mail_dir: Path, message: Message, *, age: float = 0, **facts: Any) -> Name:
    """Puts a message into MAIL_DIR as it is so many seconds after it was stored, with more facts in its name."""
    Spool(mail_dir).prepare()
    stored_at = int(time.time() - age)
    local_part = message.message_id.strip("<>").partition("@")[0]
    name = Name(f"{stored_at}000000000.7.{local_part}", local_part, stored_at, **facts)
    (mail_dir / name.place).write_bytes(message.content.replace(b"\r\n", b"\n"))
    return name


def kept(mail_dir: Path) -> list[Stored]:
    """The messages in MAIL_DIR, the oldest first."""
    return [message for _, message in Spool(mail_dir).stored() if message]


def arrived(server: SmtpServer) -> list[str]:
    return [re.findall(rb"Message-ID: (\S+)", arrival.content)[0].decode() for arrival in server.arrivals]
