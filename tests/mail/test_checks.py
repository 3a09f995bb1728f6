"""How little the check of the mail server asks of it, and that it notices all the same when a connection is gone."""

from __future__ import annotations

import smtplib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from freezegun import freeze_time

from app.mail import smtp
from app.mail.health import CHECK_INTERVAL, MailHealth
from app.mail.message import Message
from app.mail.redelivery import Redelivery
from app.mail.smtp import MAX_NOOPS, Deadline, SmtpSender
from app.mail.spool import Spool
from tests.mail.clock import run_short_after
from tests.mail.conftest import MakeMailer, MakeSender
from tests.mail.server import ACCOUNT, Act, Connection, SmtpServer
from tests.mail.service import Clock

GONE: dict[str, Callable[[Connection], None]] = {
    "421 while idle": lambda connection: connection.end(b"421 4.4.2 idle for too long\r\n"),
    "FIN while idle": lambda connection: connection.end(),
    "RST while idle": lambda connection: connection.end(reset=True),
    "FIN at NOOP": lambda connection: setattr(connection, "replies", {"NOOP": Act.DROP}),
    "RST at NOOP": lambda connection: setattr(connection, "replies", {"NOOP": Act.RESET}),
    "421 at NOOP": lambda connection: setattr(connection, "replies", {"NOOP": "421 4.7.0 too many commands"}),
    "a refusal of NOOP": lambda connection: setattr(connection, "replies", {"NOOP": "554 Too many nonmail commands"}),
    "nonsense at NOOP": lambda connection: setattr(connection, "replies", {"NOOP": "nonsense"}),
    "a flood at NOOP": lambda connection: setattr(connection, "replies", {"NOOP": Act.FLOOD_WITH_A_LINE}),
}


def send(sender: SmtpSender, message: Message) -> None:
    sender.send(message, Deadline(30), before_data_ends=lambda: None)


def commands(connection: Connection) -> list[str]:
    return [command.upper().split()[0] for command in connection.commands]


def test_a_kept_connection_is_tried_with_noop(make_sender: MakeSender, message: Message) -> None:
    with SmtpServer() as server:
        sender = make_sender(server)
        for _ in range(3):
            sender.check()
        send(sender, message)
        sender.check()

    assert [commands(connection) for connection in server.connections] == [
        ["EHLO", "NOOP", "NOOP", "MAIL", "RCPT", "DATA", "NOOP"]
    ]


def test_a_connection_that_is_checked_stays_young_enough_for_the_next_message(
    make_sender: MakeSender, message: Message
) -> None:
    with SmtpServer() as server, freeze_time() as clock:
        sender = make_sender(server)
        for _ in range(5):
            sender.check()
            clock.tick(CHECK_INTERVAL)
        send(sender, message)

    assert len(server.connections) == 1
    assert [arrival.content for arrival in server.taken] == [message.content]


def test_after_so_many_noops_a_connection_is_left_and_another_one_made(make_sender: MakeSender) -> None:
    with SmtpServer(account=ACCOUNT) as server:
        sender = make_sender(server)
        for _ in range(MAX_NOOPS + 3):
            sender.check()

    old, new = server.connections
    assert commands(old) == ["EHLO", "AUTH", *["NOOP"] * MAX_NOOPS, "QUIT"]
    assert commands(new) == ["EHLO", "AUTH", "NOOP"]


def test_the_noops_are_counted_anew_after_a_message(make_sender: MakeSender, message: Message) -> None:
    with SmtpServer() as server:
        sender = make_sender(server)
        for _ in range(MAX_NOOPS + 1):
            sender.check()
        send(sender, message)
        for _ in range(MAX_NOOPS):
            sender.check()

    (connection,) = server.connections
    assert commands(connection).count("NOOP") == 2 * MAX_NOOPS


@pytest.mark.parametrize("end", GONE.values(), ids=GONE)
def test_a_connection_that_is_gone_is_replaced_within_the_same_check(
    make_sender: MakeSender, message: Message, end: Callable[[Connection], None]
) -> None:
    with SmtpServer() as server:
        sender = make_sender(server)
        sender.check()
        end(server.connections[0])
        sender.check()
        send(sender, message)

    assert len(server.connections) == 2
    assert [arrival.content for arrival in server.taken] == [message.content]


def test_a_connection_that_falls_silent_leaves_half_of_the_time_for_another_one(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "CHECK_SECONDS", 60)
    with SmtpServer() as server:
        sender = make_sender(server, SMTP_TIMEOUT="40")
        sender.check()
        server.connections[0].replies = {"NOOP": Act.HANG}
        begun = time.monotonic()
        with monkeypatch.context() as patch:
            run_short_after(patch, b"NOOP", allowed=20)
            sender.check()
            passed = time.monotonic() - begun
        server.wait_until_hung()

    assert 20 <= passed < 40
    assert len(server.connections) == 2


@pytest.mark.parametrize("act", [Act.DROP, Act.HANG])
def test_the_check_fails_when_the_connection_is_gone_and_so_is_the_server(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    with SmtpServer() as server:
        sender = make_sender(server)
        sender.check()
        server.connections[0].replies = server.replies = {"NOOP": act, "connect": act}
        if act is Act.HANG:
            monkeypatch.setattr(smtp, "CHECK_SECONDS", 0.3)
        with pytest.raises((smtplib.SMTPServerDisconnected, TimeoutError)):
            sender.check()


def test_a_message_does_not_wait_for_the_check(make_sender: MakeSender, message: Message) -> None:
    with SmtpServer() as server, ThreadPoolExecutor(1) as pool:
        sender = make_sender(server)
        sender.check()
        server.connections[0].replies = {"NOOP": Act.HOLD}
        check = pool.submit(sender.check)
        server.wait_until_hung()
        send(sender, message)
        taken_meanwhile = [arrival.content for arrival in server.taken]
        server.release()
        check.result()

    assert taken_meanwhile == [message.content]
    assert commands(server.connections[0])[-1] != "DATA"


HOUR = 3600


def test_an_idle_process_logs_in_at_most_12_times_an_hour(
    make_mailer: MakeMailer, mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    results: list[bool] = []
    with SmtpServer(security="starttls", account=ACCOUNT) as server:
        mailer, spool = make_mailer(server), Spool(mail_dir)
        redelivery = Redelivery(mailer, spool, patience=1)
        monkeypatch.setattr(redelivery, "server_checked", results.append)
        check, _ = MailHealth(mailer, spool, redelivery).checks
        while clock.passed < HOUR:
            pauses.append(check.run())
            clock.passed += pauses[-1]

    assert set(pauses) == {CHECK_INTERVAL}
    assert results == [True] * len(pauses)
    assert 0 < server.logins <= 12
