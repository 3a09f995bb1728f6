"""The store under the eyes of other programs: it is a Maildir, and what they do to a message keeps its state."""

from __future__ import annotations

import mailbox
from pathlib import Path
from typing import Any

import pytest

from tests.mail.conftest import STATES, keep, kept, letter


@pytest.mark.parametrize("facts", STATES.values(), ids=STATES)
def test_a_mail_reader_opens_a_message_in_any_state(mail_dir: Path, facts: dict[str, Any]) -> None:
    keep(mail_dir, letter(1), **facts)

    (message,) = mailbox.Maildir(mail_dir, create=False)

    assert message["Message-ID"] == "<1@example.com>"


@pytest.mark.parametrize("flags", ["", "S", "RS", "DPRST"])
@pytest.mark.parametrize("facts", STATES.values(), ids=STATES)
def test_the_flags_that_it_adds_change_neither_state_nor_attempts(
    mail_dir: Path, facts: dict[str, Any], flags: str
) -> None:
    name = keep(mail_dir, letter(1), **facts)
    maildir = mailbox.Maildir(mail_dir, create=False)
    (key,) = maildir.keys()
    message = maildir.get_message(key)

    message.set_subdir("cur")
    message.add_flag(flags)
    maildir[key] = message

    ((stored),) = kept(mail_dir)
    assert stored.name == name
    assert stored.place.startswith("cur/")
    assert stored.place.endswith("".join(sorted(flags + "F" * name.in_doubt)))
