"""What keeps a large store quick: every fact stands in the name of the file, so no scan opens one."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.mail.redelivery import Redelivery
from app.mail.spool import Spool
from tests.mail.conftest import NAMES, MailCommand, MakeMailer, keep_in_state, kept, letter
from tests.mail.server import SmtpServer


@pytest.fixture
def opened(mail_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The messages that have been opened, by the local parts of their Message-IDs."""
    paths: list[str] = []

    def note(module: ModuleType) -> None:
        really_open = module.open

        def note_and_open(path: Any, *arguments: Any, **options: Any) -> Any:
            paths.append(str(path))
            return really_open(path, *arguments, **options)

        monkeypatch.setattr(module, "open", note_and_open)

    for number, state in enumerate(NAMES):
        keep_in_state(mail_dir, letter(number), state)
    names = {str(mail_dir / message.path): message.local_part for message in kept(mail_dir)}
    note(os)
    note(builtins)
    return lambda: [names[path] for path in paths if path in names]


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        ("list", []),
        ("list --json", []),
        ("status", []),
        ("show 3", ["3"]),
        ("resend 3", ["3", "3"]),
        ("drop --yes 3", ["3"]),
        ("drop --yes --state refused", ["4"]),
    ],
)
def test_a_command_opens_only_what_it_is_about(
    mail: MailCommand, opened: Callable[[], list[str]], command: str, numbers: list[str]
) -> None:
    with SmtpServer() as server:
        mail(*command.split(), server=server)

    assert opened() == numbers


def test_the_redelivery_opens_only_what_is_due(
    make_mailer: MakeMailer, mail_dir: Path, opened: Callable[[], list[str]]
) -> None:
    with SmtpServer() as server:
        redelivery = Redelivery(make_mailer(server), Spool(mail_dir), patience=1)
        redelivery.work()

    assert set(opened()) == {"1"}
    assert redelivery.census.counts.total() == len(NAMES)
