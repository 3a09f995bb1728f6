"""What becomes of an accepted message: delivered, kept or stored, and what the log says of it."""

from __future__ import annotations

import errno
import hmac
import os
import re
import smtplib
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.mail.mailer import DeliveryError
from app.mail.message import Message
from tests.mail.conftest import MakeMailer
from tests.mail.server import ACCOUNT, Act, Replies, SmtpServer


def test_a_form_waits_for_a_slot_for_a_quarter_of_the_time_allowed(
    make_mailer: MakeMailer, absent_server: SmtpServer, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailer = make_mailer(absent_server, THREADS="4", SMTP_TIMEOUT="40")
    no_slot = Mock(return_value=False)
    monkeypatch.setattr(mailer.bulkhead._freed, "wait_for", no_slot)  # else the test would wait ten seconds

    with mailer.bulkhead.slot(), mailer.bulkhead.slot(), pytest.raises(DeliveryError):
        mailer.deliver(message)

    assert [call.args[1] for call in no_slot.call_args_list] == [10]


@pytest.mark.parametrize(("offered", "is_delivered"), [("CRAM-MD5 PLAIN", True), ("CRAM-MD5", False)])
@pytest.mark.parametrize("error", [ValueError, smtplib.SMTPException], ids=["Python 3.11", "later ones"])
def test_a_login_that_this_machine_cannot_compute_gives_way_to_the_next(
    make_mailer: MakeMailer,
    message: Message,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
    offered: str,
    *,
    is_delivered: bool,
) -> None:
    def forbid(*_: object) -> None:
        raise error("[digital envelope routines] unsupported")  # as under FIPS

    monkeypatch.setattr(hmac, "HMAC", forbid)
    script = {"EHLO": f"250-mail.example.com\r\n250 AUTH {offered}", "AUTH CRAM-MD5": "334 YQ=="}

    ends = nullcontext() if is_delivered else pytest.raises(DeliveryError)
    with SmtpServer(script, account=ACCOUNT) as server, ends:
        make_mailer(server).deliver(message)

    assert [command.split()[0] for command in server.connections[0].commands[:3]] == ["ehlo", "AUTH", "*"]


def test_the_transport_is_named_without_host_or_account(make_mailer: MakeMailer, absent_server: SmtpServer) -> None:
    assert [make_mailer(server).transport for server in (absent_server, None)] == ["smtp", "maildir"]


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


MARKED = ["rename new new", "rename new new", "fsync new"]
MOVES: dict[str, tuple[Replies | None, list[str]]] = {
    "delivered": ({}, ["rename new new"]),
    "refused": ({"MAIL": "550 no"}, ["rename new new", "fsync new"]),
    "in doubt": ({"message": Act.DROP}, MARKED),
    "no longer in doubt": ({"message": "554 no"}, MARKED),
    "stored": (None, ["fsync new"]),
}


@pytest.mark.needs("/proc")
@pytest.mark.parametrize(("replies", "moves"), MOVES.values(), ids=MOVES)
def test_a_message_is_on_disk_before_its_name_is_and_the_name_of_one_that_stays_too(
    make_mailer: MakeMailer, message: Message, calls: list[str], replies: Replies | None, moves: list[str]
) -> None:
    with SmtpServer(replies) as server, nullcontext() if not replies else pytest.raises(DeliveryError):
        make_mailer(None if replies is None else server).deliver(message)

    assert calls == ["fsync tmp/file", "rename tmp new", *moves]


BROKEN = OSError(errno.EIO, "Input/output error")
MESSAGE, NAME = [BROKEN], [None, BROKEN, BROKEN]
"""What the disk does with the message, and with its name once it has the message."""
DISKS: dict[str, tuple[Sequence[OSError | None], str, bool | None]] = {
    "no store, delivered": ([], "taken", None),
    "no store, no mail server": ([], "none", False),
    "no store, a mail server that is down": ([], "down", False),
    "not the message, delivered": (MESSAGE, "taken", None),
    "not the message, refused": (MESSAGE, "452 4.3.1 full", False),
    "not the message, no mail server": (MESSAGE, "none", False),
    "not its name, refused": (NAME, "452 4.3.1 full", True),
    "not its name, no mail server": (NAME, "none", True),
}
"""What fails on the disk, what the mail server does, and whether the message is kept when it is not delivered."""


@pytest.mark.parametrize(("answers", "answer", "is_kept"), DISKS.values(), ids=DISKS)
def test_a_disk_that_fails_changes_no_answer_of_the_mail_server_and_is_logged(
    make_mailer: MakeMailer,
    mail_dir: Path,
    message: Message,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    answers: Sequence[OSError | None],
    answer: str,
    *,
    is_kept: bool | None,
) -> None:
    server = SmtpServer({"DATA": answer} if answer[0].isdigit() else {})
    mailer = make_mailer(None if answer == "none" else server)
    if not answers:
        mail_dir.touch()  # a file in the place of the store takes no message, whoever writes it
    monkeypatch.setattr(os, "fsync", Mock(side_effect=answers))

    fails = nullcontext() if is_kept is None else pytest.raises(DeliveryError)
    with nullcontext() if answer == "down" else server, fails as failure:
        mailer.deliver(message)

    assert len(server.arrivals) == (answer == "taken")
    assert (failure and failure.value.kept) is is_kept
    assert bool([path for path in mail_dir.rglob("*") if path.is_file()]) is bool(is_kept)
    subject, reason = f"(message {message.message_id}|state of a message)", "Input/output error" if answers else ""
    assert re.search(f"{subject} cannot be written to MAIL_DIR: {reason}", caplog.text)
