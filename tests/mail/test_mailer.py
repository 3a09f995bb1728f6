"""What becomes of an accepted message: delivered, kept or stored, and what the log says of it."""

from __future__ import annotations

import errno
import logging
import os
import smtplib
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.mail.mailer import DeliveryError
from app.mail.message import Message
from tests.mail.conftest import MakeMailer
from tests.mail.server import ACCOUNT, Act, Replies, SmtpServer


def stored(mail_dir: Path) -> list[Path]:
    return [path for path in mail_dir.rglob("*") if path.is_file() and b"<1@example.com>" in path.read_bytes()]


def break_store(mail_dir: Path) -> None:
    # A full disk is not at hand; a file in the place of the store takes no message either, whoever writes it.
    mail_dir.touch()


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.DEBUG) -> str:
    """What the service itself has logged, tracebacks included; aiosmtpd logs too."""
    records = [record for record in caplog.records if record.name.startswith("app") and record.levelno >= level]
    return "\n".join(caplog.handler.format(record) for record in records)


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
        break_store(mail_dir)
        mailer.deliver(message)

    assert len(server.arrivals) == 1
    assert message.message_id in logged(caplog, logging.WARNING)


def test_a_message_that_can_be_neither_written_nor_delivered_is_refused(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    with SmtpServer(replies={"message": "554 5.6.0 no"}) as server:
        mailer = make_mailer(server)
        break_store(mail_dir)
        with pytest.raises(DeliveryError) as refusal:
            mailer.deliver(message)

    assert refusal.value.kept is False


def test_without_a_mail_server_messages_are_stored(make_mailer: MakeMailer, mail_dir: Path, message: Message) -> None:
    make_mailer().deliver(message)

    assert len(stored(mail_dir)) == 1


def test_without_a_mail_server_a_message_that_cannot_be_stored_is_refused(
    make_mailer: MakeMailer, mail_dir: Path, message: Message
) -> None:
    mailer = make_mailer()
    break_store(mail_dir)

    with pytest.raises(DeliveryError) as refusal:
        mailer.deliver(message)

    assert refusal.value.kept is False


@pytest.mark.parametrize(("offered", "outcome"), [("CRAM-MD5 PLAIN", "delivered"), ("CRAM-MD5", "kept")])
@pytest.mark.parametrize("error", [ValueError, smtplib.SMTPException], ids=["Python 3.11", "later ones"])
def test_a_login_that_this_machine_cannot_compute_gives_way_to_the_next(
    make_mailer: MakeMailer,
    message: Message,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
    offered: str,
    outcome: str,
) -> None:
    def forbid(*_: object) -> None:
        raise error("[digital envelope routines] unsupported")  # as under FIPS

    monkeypatch.setattr("smtplib.hmac.HMAC", forbid)
    script = {"EHLO": f"250-mail.example.com\r\n250 AUTH {offered}", "AUTH CRAM-MD5": "334 YQ=="}

    ended = "delivered"
    with SmtpServer(script, account=ACCOUNT) as server:
        try:
            make_mailer(server).deliver(message)
        except DeliveryError as failure:
            ended = "kept" if failure.kept else "lost"

    assert ended == outcome
    assert [command.split()[0] for command in server.connections[0].commands[:3]] == ["ehlo", "AUTH", "*"]


def test_the_transport_is_named_without_host_or_account(make_mailer: MakeMailer) -> None:
    with SmtpServer() as server:
        transports = [make_mailer(server).transport, make_mailer().transport]

    assert transports == ["smtp", "maildir"]


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


def test_a_message_is_on_disk_before_its_name_is(make_mailer: MakeMailer, message: Message, calls: list[str]) -> None:
    with SmtpServer() as server:
        make_mailer(server).deliver(message)

    assert calls == [*STORED, "rename new new"]


@pytest.mark.parametrize(
    ("replies", "moves"),
    [
        pytest.param({"MAIL": "550 no"}, ["rename new new", "fsync new"], id="refused"),
        pytest.param({"message": Act.DROP}, ["rename new new", "rename new new", "fsync new"], id="in doubt"),
        pytest.param({"message": "554 no"}, ["rename new new", "rename new new", "fsync new"], id="no longer in doubt"),
    ],
)
def test_the_name_of_a_message_that_stays_is_on_disk_where_it_stays(
    make_mailer: MakeMailer, message: Message, calls: list[str], replies: Replies, moves: list[str]
) -> None:
    with SmtpServer(replies=replies) as server, pytest.raises(DeliveryError):
        make_mailer(server).deliver(message)

    assert calls == [*STORED, *moves]


def test_a_message_is_stored_once_its_name_is_on_disk(
    make_mailer: MakeMailer, message: Message, calls: list[str]
) -> None:
    make_mailer().deliver(message)

    assert calls == [*STORED, "fsync new"]


@pytest.fixture
def failing_fsync(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Stands in for a disk that fails at the very moment that a test is about: ``side_effect`` says when."""
    fsync = Mock()
    monkeypatch.setattr(os, "fsync", fsync)
    return fsync


BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("answers", [[BROKEN], [None, BROKEN, BROKEN]], ids=["the message", "its name"])
def test_a_disk_that_fails_changes_no_answer_and_is_logged(
    make_mailer: MakeMailer,
    message: Message,
    failing_fsync: Mock,
    caplog: pytest.LogCaptureFixture,
    answers: list[OSError | None],
) -> None:
    failing_fsync.side_effect = answers

    with SmtpServer(replies={"DATA": "452 4.3.1 full"}) as server, pytest.raises(DeliveryError):
        make_mailer(server).deliver(message)

    assert "cannot be written to MAIL_DIR: Input/output error" in logged(caplog)


@pytest.mark.parametrize("answers", [[BROKEN], [None, BROKEN, BROKEN]], ids=["the message", "its name"])
def test_a_message_that_the_disk_does_not_keep_is_not_stored(
    make_mailer: MakeMailer, message: Message, failing_fsync: Mock, answers: list[OSError | None]
) -> None:
    failing_fsync.side_effect = answers

    with pytest.raises(DeliveryError):
        make_mailer().deliver(message)


def test_a_message_that_the_disk_does_not_take_leaves_nothing_behind(
    make_mailer: MakeMailer, mail_dir: Path, message: Message, failing_fsync: Mock
) -> None:
    failing_fsync.side_effect = BROKEN

    with SmtpServer() as server:
        make_mailer(server).deliver(message)

    assert len(server.arrivals) == 1
    assert stored(mail_dir) == []
