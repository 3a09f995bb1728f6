"""What becomes of an accepted message: delivered, kept or stored, and what the log says of it."""

from __future__ import annotations

import errno
import os
import smtplib
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
    monkeypatch.setattr(mailer.bulkhead._freed, "wait_for", no_slot)

    with mailer.bulkhead.slot(), mailer.bulkhead.slot(), pytest.raises(DeliveryError):
        mailer.deliver(message)

    assert [call.args[1] for call in no_slot.call_args_list] == [10]


def test_a_message_that_cannot_be_written_is_delivered_all_the_same_and_the_log_says_so(
    make_mailer: MakeMailer, mail_dir: Path, message: Message, caplog: pytest.LogCaptureFixture
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
        mail_dir.touch()  # a file in the place of the store takes no message, whoever writes it
        mailer.deliver(message)

    assert len(server.arrivals) == 1
    assert message.message_id in caplog.messages[0]


@pytest.mark.parametrize("has_server", [True, False])
def test_a_message_that_can_be_neither_written_nor_delivered_is_refused(
    make_mailer: MakeMailer, absent_server: SmtpServer, mail_dir: Path, message: Message, *, has_server: bool
) -> None:
    mailer = make_mailer(absent_server if has_server else None)
    mail_dir.touch()

    with pytest.raises(DeliveryError) as refusal:
        mailer.deliver(message)

    assert refusal.value.kept is False


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

    monkeypatch.setattr("smtplib.hmac.HMAC", forbid)
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


STORED = ["fsync tmp/file", "rename tmp new"]


@pytest.mark.parametrize(
    ("replies", "moves"),
    [
        pytest.param({}, ["rename new new"], id="delivered"),
        pytest.param({"MAIL": "550 no"}, ["rename new new", "fsync new"], id="refused"),
        pytest.param({"message": Act.DROP}, ["rename new new", "rename new new", "fsync new"], id="in doubt"),
        pytest.param({"message": "554 no"}, ["rename new new", "rename new new", "fsync new"], id="no longer in doubt"),
        pytest.param(None, ["fsync new"], id="stored"),
    ],
)
def test_a_message_is_on_disk_before_its_name_is_and_the_name_of_one_that_stays_too(
    make_mailer: MakeMailer, message: Message, calls: list[str], replies: Replies | None, moves: list[str]
) -> None:
    with SmtpServer(replies) as server, nullcontext() if not replies else pytest.raises(DeliveryError):
        make_mailer(None if replies is None else server).deliver(message)

    assert calls == ["fsync tmp/file", "rename tmp new", *moves]


@pytest.fixture
def failing_fsync(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Stands in for a disk that fails at the very moment that a test is about: ``side_effect`` says when."""
    fsync = Mock()
    monkeypatch.setattr(os, "fsync", fsync)
    return fsync


BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("answers", [[BROKEN], [None, BROKEN, BROKEN]], ids=["the message", "its name"])
def test_a_disk_that_fails_changes_no_answer_of_the_mail_server_and_is_logged(
    make_mailer: MakeMailer,
    message: Message,
    failing_fsync: Mock,
    caplog: pytest.LogCaptureFixture,
    answers: list[OSError | None],
) -> None:
    failing_fsync.side_effect = answers
    with SmtpServer(replies={"DATA": "452 4.3.1 full"}) as server, pytest.raises(DeliveryError):
        make_mailer(server).deliver(message)
    assert "cannot be written to MAIL_DIR: Input/output error" in caplog.text

    failing_fsync.side_effect = answers
    with pytest.raises(DeliveryError):
        make_mailer().deliver(message)


def test_a_message_that_the_disk_does_not_take_is_delivered_and_leaves_nothing_behind(
    make_mailer: MakeMailer, mail_dir: Path, message: Message, failing_fsync: Mock
) -> None:
    failing_fsync.side_effect = BROKEN

    with SmtpServer() as server:
        make_mailer(server).deliver(message)

    assert len(server.arrivals) == 1
    assert [path for path in mail_dir.rglob("*") if path.is_file()] == []
