"""The store under the eyes of other programs: it is a Maildir, and what they do to a message keeps its state."""

from __future__ import annotations

import mailbox
from pathlib import Path

import pytest

from tests.mail.conftest import NAMES, keep_in_state, kept, letter


@pytest.mark.parametrize("state", NAMES)
def test_a_mail_reader_opens_a_message_in_any_state(mail_dir: Path, state: str) -> None:
    keep_in_state(mail_dir, letter(1), state)

    (message,) = mailbox.Maildir(mail_dir, create=False)

    assert message["Message-ID"] == "<1@example.com>"


@pytest.mark.parametrize("flags", ["", "F", "S", "RS", "DFPRST"])
@pytest.mark.parametrize("state", NAMES)
def test_the_flags_that_it_sets_and_the_move_to_cur_change_nothing(mail_dir: Path, state: str, flags: str) -> None:
    before = keep_in_state(mail_dir, letter(1), state)
    maildir = mailbox.Maildir(mail_dir, create=False)
    (key,) = maildir.keys()
    message = maildir.get_message(key)

    message.set_subdir("cur")
    message.set_flags(flags)
    maildir[key] = message

    (after,) = kept(mail_dir)
    assert after == before._replace(path=after.path)
    assert after.path.startswith("cur/")
    assert after.path.endswith(flags)
