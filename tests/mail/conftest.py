"""Fixtures of the mail layer's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.mail.mailer import Mailer, create_mailer
from app.mail.message import Message
from tests.factories import make_settings
from tests.mail.server import SmtpServer

MakeMailer = Callable[..., Mailer]

CONTENT = (
    b"From: web@example.com\r\nTo: ventas@example.com\r\nMessage-ID: <1@example.com>\r\nSubject: Prueba\r\n\r\nHola\r\n"
)


@pytest.fixture
def message() -> Message:
    return Message("<1@example.com>", CONTENT)


@pytest.fixture
def mail_dir(tmp_path: Path) -> Path:
    return tmp_path / "mail"


@pytest.fixture
def make_mailer(mail_dir: Path) -> Iterator[MakeMailer]:
    """Makes the mailer that delivers to a server, or the one that stores where there is none."""
    mailers: list[Mailer] = []

    def make(server: SmtpServer | None = None, **environ: str) -> Mailer:
        mailers.append(create_mailer(make_settings(mail_dir, **(server.environ if server else {}) | environ)))
        return mailers[-1]

    yield make
    for mailer in mailers:
        mailer.close()
