"""How much of a reply is read, and what becomes of a server that says more than it was asked."""

from __future__ import annotations

import select
import smtplib
import socket
from collections.abc import Callable
from typing import Any

import pytest

from app.mail.message import Message
from app.mail.smtp import Deadline, InDoubtError, SmtpSender
from tests.mail.conftest import CONTENT, MakeSender
from tests.mail.scripted import FLOOD, Act, ScriptedServer
from tests.mail.server import Security

MODES = pytest.mark.parametrize("pipelining", [False, True], ids=["one by one", "pipelining"])
SECURITIES = pytest.mark.parametrize("security", ["none", "starttls", "tls"])
FLOODS = pytest.mark.parametrize("flood", [Act.FLOOD_WITH_LINES, Act.FLOOD_WITH_A_LINE])

FIRST, SECOND = Message("<1@example.com>", CONTENT + b"1\r\n"), Message("<2@example.com>", CONTENT + b"2\r\n")

LARGEST = {
    "octets in many lines": "250-x\r\n" * 9361 + "250 xxx",
    "octets in a line": "250 " + "x" * (64 * 1024 - len("250 \r\n")),
    "octets in several lines": ("250-" + "x" * 1018 + "\r\n") * 63 + "250 " + "x" * 1018,
}

TOO_LARGE = {
    "octets in many lines": LARGEST["octets in many lines"] + "x",
    "octets in a line": LARGEST["octets in a line"] + "x",
    "octets in several lines": LARGEST["octets in several lines"] + "x",
}

UNASKED = {
    "connect": "220 mail.example.com ESMTP\r\n250 2.0.0 stale",
    "EHLO": "250-mail.example.com\r\n250 STARTTLS\r\n250 2.0.0 stale",
    "STARTTLS": "220 2.0.0 go ahead\r\n250 2.0.0 stale",
    "second EHLO": "250-mail.example.com\r\n250 AUTH PLAIN\r\n250 2.0.0 stale",
    "AUTH": "235 2.7.0 welcome\r\n250 2.0.0 stale",
    "MAIL": "250 2.1.0 OK\r\n250 2.0.0 stale",
    "RCPT": "250 2.1.5 OK\r\n250 2.0.0 stale",
    "DATA": "354 go ahead\r\n250 2.0.0 stale",
}
"""By the stage: a reply, and a second one in the same segment that answers nothing."""


def send(sender: SmtpSender, message: Message, before_data_ends: Callable[[], None] = lambda: None) -> None:
    sender.send(message, Deadline(30), before_data_ends=before_data_ends)


def kept_socket(sender: SmtpSender) -> socket.socket:
    ((_, connection),) = sender._idle
    assert connection.sock is not None
    return connection.sock


def wait_until_readable(connected: socket.socket) -> None:
    assert select.select([connected], [], [], 20)[0], "the server has said nothing"


@FLOODS
@pytest.mark.parametrize("stage", ["connect", "EHLO", "STARTTLS", "second EHLO", "AUTH", "MAIL", "RCPT", "DATA"])
def test_a_reply_without_end_is_not_read_to_the_end(make_sender: MakeSender, stage: str, flood: Act) -> None:
    server = ScriptedServer({stage: flood}, security="starttls", auth=True)

    with server, pytest.raises(smtplib.SMTPServerDisconnected):
        send(make_sender(server), FIRST)

    (connection,) = server.connections
    assert connection.flooded < FLOOD / 8  # which allows for the buffers between the two


@FLOODS
def test_an_answer_to_the_content_without_end_leaves_the_message_in_doubt(make_sender: MakeSender, flood: Act) -> None:
    with ScriptedServer({"message": flood}) as server, pytest.raises(InDoubtError):
        send(make_sender(server), FIRST)

    (connection,) = server.connections
    assert connection.flooded < FLOOD / 8
    assert len(server.received) == 1


@FLOODS
def test_a_reply_without_end_on_a_kept_connection_costs_a_second_try(make_sender: MakeSender, flood: Act) -> None:
    with ScriptedServer() as server:
        sender = make_sender(server)
        send(sender, FIRST)
        server.connections[0].script = {"MAIL": flood}
        send(sender, SECOND)

    assert server.taken == [FIRST.content, SECOND.content]
    assert len(server.connections) == 2


@pytest.mark.parametrize("reply", LARGEST.values(), ids=LARGEST)
@pytest.mark.parametrize("stage", ["MAIL", "message"])
def test_the_largest_reply_is_read(make_sender: MakeSender, stage: str, reply: str) -> None:
    with ScriptedServer({stage: reply}) as server:
        send(make_sender(server), FIRST)

    assert server.taken == [FIRST.content]


@pytest.mark.parametrize("reply", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_larger_reply_is_none(make_sender: MakeSender, reply: str) -> None:
    with ScriptedServer({"MAIL": reply}) as server, pytest.raises(smtplib.SMTPServerDisconnected):
        send(make_sender(server), FIRST)


@pytest.mark.parametrize("reply", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_larger_answer_to_the_content_leaves_the_message_in_doubt(make_sender: MakeSender, reply: str) -> None:
    with ScriptedServer({"message": reply}) as server, pytest.raises(InDoubtError):
        send(make_sender(server), FIRST)


@pytest.mark.parametrize("reply", ["25", "250", "250 2.0.0 tak", "554-5.6.0 n"])
def test_an_answer_that_breaks_off_is_none(make_sender: MakeSender, reply: str) -> None:
    with ScriptedServer() as server:

        def break_off() -> None:
            server.connections[0]._farewell = reply.encode()
            server.connections[0].script = {"message": Act.DROP}

        with pytest.raises(InDoubtError):
            send(make_sender(server), FIRST, break_off)


@pytest.mark.parametrize("stage", UNASKED)
def test_a_reply_that_nobody_asked_for_ends_the_connection(make_sender: MakeSender, stage: str) -> None:
    server = ScriptedServer({stage: UNASKED[stage]}, security="starttls", auth=True)

    with server, pytest.raises(smtplib.SMTPServerDisconnected):
        send(make_sender(server), FIRST)

    (connection,) = server.connections
    said = ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA"][: list(UNASKED).index(stage)]
    assert [command.upper().split()[0] for command in connection.commands] == said
    assert server.received == []


@MODES
def test_a_stale_success_does_not_hide_the_refusal_of_the_content(
    make_sender: MakeSender,
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    script = {"DATA": UNASKED["DATA"], "message": "554 5.6.0 no"}

    with ScriptedServer(script, pipelining=pipelining) as server, pytest.raises(smtplib.SMTPServerDisconnected):
        send(make_sender(server), FIRST)

    assert server.received == []


@MODES
@SECURITIES
def test_what_comes_before_the_content_is_sent_is_not_the_answer_to_it(
    make_sender: MakeSender,
    security: Security,
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    with ScriptedServer(security=security, pipelining=pipelining) as server:
        sender = make_sender(server)
        send(sender, FIRST)
        kept = kept_socket(sender)
        server.connections[0].script = {"DATA": Act.SPEAK_AGAIN}

        def let_the_server_speak_again() -> None:
            if not server.released.is_set():
                server.wait_until_hung()
                server.released.set()
                wait_until_readable(kept)

        send(sender, SECOND, let_the_server_speak_again)

    # The content was not sent before, so that it could be sent over another connection.
    assert server.received == server.taken == [FIRST.content, SECOND.content]
    assert len(server.connections) == 2


@SECURITIES
def test_what_comes_with_the_answer_to_a_message_is_not_an_answer_to_the_next(
    make_sender: MakeSender, security: Security
) -> None:
    with ScriptedServer({"message": "250 2.0.0 taken\r\n250 2.0.0 stale"}, security=security) as server:
        sender = make_sender(server)
        send(sender, FIRST)
        send(sender, SECOND)

    assert server.taken == [FIRST.content, SECOND.content]
    assert len(server.connections) == 2


@SECURITIES
def test_what_comes_after_the_answer_to_a_message_is_not_an_answer_to_the_next(
    make_sender: MakeSender, security: Security
) -> None:
    with ScriptedServer(security=security) as server:
        sender = make_sender(server)
        send(sender, FIRST)
        server.connections[0].script = {"message": Act.SPEAK_AGAIN}
        send(sender, SECOND)
        kept = kept_socket(sender)
        server.wait_until_hung()
        said = list(server.connections[0].commands)
        server.released.set()
        wait_until_readable(kept)
        send(sender, FIRST)

    assert server.connections[0].commands == said
    assert len(server.taken) == 3
    assert len(server.connections) == 2


def test_the_session_tickets_of_tls_are_no_words_of_the_server(
    make_sender: MakeSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer(security="starttls") as server:
        sender = make_sender(server)
        wrap = sender._tls.wrap_socket

        def wrap_and_wait_for_the_tickets(connected: socket.socket, **options: Any) -> socket.socket:
            encrypted = wrap(connected, **options)
            assert encrypted.version() == "TLSv1.3"
            wait_until_readable(encrypted)
            return encrypted

        monkeypatch.setattr(sender._tls, "wrap_socket", wrap_and_wait_for_the_tickets)
        send(sender, FIRST)

    assert server.taken == [FIRST.content]
    assert len(server.connections) == 1
