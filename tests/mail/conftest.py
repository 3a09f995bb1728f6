"""Fixtures of the mail layer's tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from flask import Flask

from app.mail.cli import create_mail_commands
from app.mail.mailer import Mailer, create_mailer
from app.mail.message import Message
from app.mail.spool import Spool
from tests.factories import make_settings
from tests.mail.scripted import ScriptedServer
from tests.mail.server import SmtpServer

MakeMailer = Callable[..., Mailer]
MailCommand = Callable[..., Result]


def letter(number: int, form_type: str = "demo") -> Message:
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
def undelivered(mail_dir: Path) -> Callable[..., None]:
    """Puts messages into MAIL_DIR, as a failed hand-over leaves them."""

    def store(*messages: Message) -> None:
        spool = Spool(mail_dir)
        for message in messages:
            spool.store(message).release()

    return store


def arrived(server: SmtpServer) -> list[str]:
    return [re.findall(rb"Message-ID: (\S+)", arrival.content)[0].decode() for arrival in server.arrivals]
