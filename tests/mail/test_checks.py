"""How little the check of the mail server asks of it, and that it notices all the same when a connection is gone."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from freezegun import freeze_time

from app.mail import smtp
from app.mail.health import CHECK_INTERVAL
from app.mail.message import Message
from app.mail.smtp import MAX_NOOPS, Deadline, SmtpSender
from tests.mail.clock import run_short_after
from tests.mail.conftest import MakeSender
from tests.mail.server import ACCOUNT, Act, Connection, SmtpServer

CHECK, SEND, WAIT = "check", "send", "wait until the next check"
BEGIN, MESSAGE, NOOPS = ["EHLO", "AUTH"], ["MAIL", "RCPT", "DATA"], ["NOOP"] * MAX_NOOPS

CONNECTIONS = {
    "a checked one stays young": ([CHECK, WAIT] * 5 + [SEND, CHECK], [[*BEGIN, *["NOOP"] * 4, *MESSAGE, "NOOP"]]),
    "it is left after so many": ([CHECK] * (MAX_NOOPS + 3), [[*BEGIN, *NOOPS, "QUIT"], [*BEGIN, "NOOP"]]),
    "they are counted anew after a message": (
        [CHECK] * (MAX_NOOPS + 1) + [SEND] + [CHECK] * MAX_NOOPS,
        [[*BEGIN, *NOOPS, *MESSAGE, *NOOPS]],
    ),
}
"""What is done, and which commands go over which connection."""


def send(sender: SmtpSender, message: Message) -> None:
    sender.send(message, Deadline(30), before_data_ends=lambda: None)


@pytest.mark.parametrize(("steps", "expected"), CONNECTIONS.values(), ids=CONNECTIONS)
def test_a_connection_is_kept_and_tried_with_noop(
    make_sender: MakeSender, message: Message, steps: list[str], expected: list[list[str]]
) -> None:
    with SmtpServer(account=ACCOUNT) as server, freeze_time() as clock:
        sender = make_sender(server)
        do: dict[str, Callable[[], object]] = {CHECK: sender.check}
        do |= {SEND: lambda: send(sender, message), WAIT: lambda: clock.tick(CHECK_INTERVAL)}
        for step in steps:
            do[step]()

    said = [[command.upper().split()[0] for command in connection.commands] for connection in server.connections]
    assert said == expected
    assert [arrival.content for arrival in server.taken] == [message.content] * steps.count(SEND)


def answering(reply: str | Act) -> Callable[[Connection], None]:
    return lambda connection: setattr(connection, "replies", {"NOOP": reply})


GONE: dict[str, Callable[[Connection], None]] = {
    "421 while idle": lambda connection: connection.end(b"421 4.4.2 idle for too long\r\n"),
    "RST while idle": lambda connection: connection.end(reset=True),
    "FIN at NOOP": answering(Act.DROP),
    "a refusal of NOOP": answering("554 Too many nonmail commands"),
}


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
