"""What becomes of an accepted message on the disk, and whether the client is told that it is kept."""

import errno
import os
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from app.mail import mailer as module
from app.mail.mailer import DeliveryError
from app.mail.message import Message
from tests.mail.conftest import MakeMailer
from tests.mail.server import Act, Replies, SmtpServer


def test_half_of_the_threads_may_hand_over_and_a_quarter_wait_for_a_quarter_of_the_time(
    make_mailer: MakeMailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Bulkhead", bulkhead := Mock())
    make_mailer(SmtpServer(), THREADS="8", SMTP_TIMEOUT="40")

    bulkhead.assert_called_once_with(slots=4, waiting_room=2, timeout=10)


MOVES: dict[str, tuple[Replies | None, list[str]]] = {
    "delivered": ({}, ["rename new new"]),
    "refused": ({"MAIL": "550 no"}, ["rename new new", "fsync new"]),
    "in doubt": ({"message": Act.DROP}, ["rename new new", "rename new new", "fsync new"]),
    "stored": (None, ["fsync new"]),
}


@pytest.mark.needs("/proc")
@pytest.mark.parametrize(("replies", "moves"), MOVES.values(), ids=MOVES)
def test_a_message_is_on_disk_before_its_name_is_and_the_name_of_one_that_stays_too(
    make_mailer: MakeMailer, message: Message, calls: list[str], replies: Replies | None, moves: list[str]
) -> None:
    with SmtpServer(replies or {}) as server, nullcontext() if not replies else pytest.raises(DeliveryError):
        make_mailer(None if replies is None else server).deliver(message)

    assert calls == ["fsync tmp/file", "rename tmp new", *moves]


def test_a_message_that_is_delivered_and_cannot_be_removed_is_delivered(
    make_mailer: MakeMailer, message: Message, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with SmtpServer() as server, monkeypatch.context() as patch:
        patch.setattr(os, "unlink", Mock(side_effect=BROKEN))
        make_mailer(server).deliver(message)

    assert len(server.taken) == 1
    assert caplog.messages == ["a delivered message cannot be removed from MAIL_DIR: Input/output error"]


BROKEN = OSError(errno.EIO, "Input/output error")
MESSAGE, NAME = [BROKEN], [None, BROKEN, BROKEN]
"""What the disk does with the message, and with its name once it has the message."""
DISKS = {
    "the message cannot be written, and is delivered": (MESSAGE, {}, None),
    "the message cannot be written, and is refused": (MESSAGE, {"DATA": "452 4.3.1 full"}, False),
    "the message cannot be written, and there is no mail server": (MESSAGE, None, False),
    "its name cannot be written, and it is refused": (NAME, {"DATA": "452 4.3.1 full"}, True),
}
"""What fails on the disk, what the mail server does, and whether the message is kept when it is not delivered."""


@pytest.mark.parametrize(("answers", "replies", "is_kept"), DISKS.values(), ids=DISKS)
def test_a_disk_that_fails_changes_no_answer_of_the_mail_server_and_is_logged(
    make_mailer: MakeMailer,
    message: Message,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    answers: list[OSError | None],
    replies: Replies | None,
    *,
    is_kept: bool | None,
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=answers))

    fails = nullcontext() if is_kept is None else pytest.raises(DeliveryError)
    with SmtpServer(replies or {}) as server, fails as failure:
        make_mailer(None if replies is None else server).deliver(message)

    assert len(server.taken) == (is_kept is None)
    assert (failure and failure.value.kept) is is_kept
    subject = "state of a message" if is_kept else f"message {message.message_id}"
    assert f"{subject} cannot be written to MAIL_DIR: Input/output error" in caplog.text
