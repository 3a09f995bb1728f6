"""How connections are kept and left, when a message is tried again, how often a visitor waits, and for how long."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from freezegun import freeze_time

from app.mail import smtp
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.resolver import Resolver
from app.mail.smtp import Deadline, SmtpSender
from tests.conftest import MakeApp
from tests.factories import make_settings
from tests.mail.clock import run_short_after_content
from tests.mail.conftest import CONTENT, MakeMailer, MakeSender
from tests.mail.scripted import LONG_REPLY, SECONDS_PER_BYTE, Act, Connection, ScriptedServer
from tests.mail.server import HOST, Security

MODES = pytest.mark.parametrize("pipelining", [False, True], ids=["one by one", "pipelining"])
SECURITIES = pytest.mark.parametrize("security", ["none", "starttls", "tls"])

ENVELOPE = ["MAIL FROM:<web@example.com>", "RCPT TO:<ventas@example.com>", "DATA"]

IDLE_ENDS: dict[str, Callable[[Connection], None]] = {
    "421": lambda connection: connection.end(b"421 4.4.2 idle for too long\r\n"),
    "FIN": lambda connection: connection.end(),
    "RST": lambda connection: connection.end(reset=True),
}

BEFORE_THE_DATA_ENDS = {
    "421 to MAIL": {"MAIL": "421 4.3.2 closing"},
    "421 to RCPT": {"RCPT": "421 4.3.2 closing"},
    "421 to DATA": {"DATA": "421 4.3.2 closing"},
    "dropped at MAIL": {"MAIL": Act.DROP},
    "dropped at RCPT": {"RCPT": Act.DROP},
    "dropped at DATA": {"DATA": Act.DROP},
    "reset at MAIL": {"MAIL": Act.RESET},
    "reset at DATA": {"DATA": Act.RESET},
}

REFUSALS = {
    "MAIL": {"MAIL": "451 4.3.0 later"},
    "RCPT": {"RCPT": "550 5.1.1 unknown"},
    "DATA": {"DATA": "452 4.3.1 full"},
    "message": {"message": "554 5.6.0 no"},
}

AFTER_THE_DATA_ENDED = {
    "421": {"message": "421 4.3.2 closing"},
    "dropped": {"message": Act.DROP},
    "reset": {"message": Act.RESET},
    "silent": {"message": Act.HANG},
    "nonsense": {"message": "nonsense"},
    "an answer to another question": {"message": "354 go ahead"},
    "a line too long": {"message": "250 " + "x" * 70_000},
}

STAGES = ["connect", "EHLO", "STARTTLS", "handshake", "second EHLO", "AUTH", "MAIL", "RCPT", "DATA", "message"]

TIMEOUT = 0.25
"""A machine that stalls for longer makes the service give up earlier: the outcome is the same."""

MARGIN = 15


def deliver(mailer: Mailer, number: int = 1) -> bytes:
    content = CONTENT + b"%d\r\n" % number
    mailer.deliver(Message(f"<{number}@example.com>", content))
    return content


def deliver_together(server: ScriptedServer, mailer: Mailer, count: int) -> None:
    """Deliver so many messages at once, each over a connection of its own, and keep the connections."""
    server.released.clear()
    server.script = {"message": Act.HOLD}
    with ThreadPoolExecutor(count) as pool:
        deliveries = [pool.submit(deliver, mailer, number) for number in range(count)]
        server.wait_until_hung(count)
        server.released.set()
    for delivery in deliveries:
        delivery.result()
    server.script = {}


@MODES
@SECURITIES
def test_a_connection_serves_several_messages(
    make_mailer: MakeMailer,
    security: Security,
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    with ScriptedServer(security=security, auth=True, pipelining=pipelining) as server:
        mailer = make_mailer(**server.environ)
        sent = [deliver(mailer, number) for number in range(3)]

    (connection,) = server.connections
    assert server.taken == sent
    assert connection.commands[-9:] == ENVELOPE * 3
    assert sum(command.startswith("AUTH") for command in connection.commands) == 1


def test_a_connection_is_left_with_quit_when_the_service_ends(make_app: MakeApp) -> None:
    with ScriptedServer() as server:
        background = make_app(collaborators={"mailer": None}, **server.environ).extensions["background"]
        deliver(background.mailer)
        background.stop()

    assert [connection.commands[-1].upper() for connection in server.connections] == ["QUIT"] * len(server.connections)


def test_a_connection_that_was_idle_for_too_long_is_left_with_quit(make_mailer: MakeMailer) -> None:
    with ScriptedServer() as server, freeze_time() as clock:
        mailer = make_mailer(**server.environ)
        deliver(mailer, 1)
        clock.tick(smtp.IDLE_SECONDS)
        deliver(mailer, 2)

    old, new = server.connections
    assert new.commands[1:] == ENVELOPE
    assert [command.upper() for command in old.commands][4:] == ["QUIT"]
    assert len(server.taken) == 2


def test_connections_that_nobody_needs_any_more_are_left_with_quit(make_mailer: MakeMailer) -> None:
    with ScriptedServer() as server, freeze_time() as clock:
        mailer = make_mailer(**server.environ)
        deliver_together(server, mailer, 3)
        for number in range(3, 6):
            clock.tick(smtp.IDLE_SECONDS / 2)
            deliver(mailer, number)

    quits = sorted(
        [command.upper() for command in connection.commands].count("QUIT") for connection in server.connections
    )
    assert quits == [0, 1, 1]
    assert len(server.taken) == 6


@SECURITIES
@pytest.mark.parametrize("end", IDLE_ENDS.values(), ids=IDLE_ENDS)
def test_a_connection_that_the_server_closed_while_idle_costs_nothing(
    make_mailer: MakeMailer, end: Callable[[Connection], None], security: Security
) -> None:
    with ScriptedServer(security=security, pipelining=True) as server:
        mailer = make_mailer(**server.environ)
        first = deliver(mailer, 1)
        end(server.connections[0])
        second = deliver(mailer, 2)

    assert server.received == server.taken == [first, second]
    assert len(server.connections) == 2


@MODES
@pytest.mark.parametrize(
    ("security", "farewell"),
    [
        pytest.param("none", b"421 4.4.2 idle for too long\r\n", id="421"),
        pytest.param("none", b"", id="FIN"),
        pytest.param("starttls", b"", id="FIN without a farewell of TLS"),
    ],
)
def test_a_connection_that_the_server_closed_while_idle_is_trusted_with_nothing(
    make_mailer: MakeMailer,
    security: Security,
    farewell: bytes,
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    with ScriptedServer(security=security, pipelining=pipelining) as server:
        mailer = make_mailer(**server.environ)
        deliver(mailer, 1)
        closed = server.connections[0]
        commands, segments = list(closed.commands), list(closed.segments)
        closed.say_no_more(farewell)
        deliver(mailer, 2)

    assert (closed.commands, closed.segments) == (commands, segments)
    assert len(server.received) == len(server.taken) == 2


@pytest.mark.parametrize("end", IDLE_ENDS.values(), ids=IDLE_ENDS)
def test_when_all_idle_connections_are_closed_the_next_message_arrives_once(
    make_mailer: MakeMailer, end: Callable[[Connection], None]
) -> None:
    with ScriptedServer() as server:
        mailer = make_mailer(**server.environ)
        deliver_together(server, mailer, 3)
        for connection in server.connections:
            end(connection)
        last = deliver(mailer, 9)

    assert server.taken.count(last) == 1
    assert len(server.taken) == 4
    assert len(server.connections) == 4


def test_a_farewell_in_the_same_segment_as_the_answer_loses_nothing(make_mailer: MakeMailer) -> None:
    with ScriptedServer({"message": "250 2.0.0 taken\r\n421 4.3.2 closing"}) as server:
        mailer = make_mailer(**server.environ)
        sent = [deliver(mailer, number) for number in range(2)]

    assert server.taken == sent


@pytest.mark.parametrize("script", BEFORE_THE_DATA_ENDS.values(), ids=BEFORE_THE_DATA_ENDS)
@MODES
def test_a_kept_connection_that_fails_before_the_data_ends_costs_a_second_try(
    make_mailer: MakeMailer,
    script: dict[str, str | Act],
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    with ScriptedServer(pipelining=pipelining) as server:
        mailer = make_mailer(**server.environ)
        first = deliver(mailer, 1)
        server.connections[0].script = script
        second = deliver(mailer, 2)

    assert server.received == server.taken == [first, second]
    assert len(server.connections) == 2


@pytest.mark.parametrize("script", BEFORE_THE_DATA_ENDS.values(), ids=BEFORE_THE_DATA_ENDS)
def test_a_message_is_tried_no_more_than_twice(make_mailer: MakeMailer, script: dict[str, str | Act]) -> None:
    with ScriptedServer() as server:
        mailer = make_mailer(**server.environ)
        deliver(mailer, 1)
        server.connections[0].script = server.script = script
        with pytest.raises(DeliveryError):
            deliver(mailer, 2)

    assert len(server.connections) == 2
    assert len(server.taken) == 1


@pytest.mark.parametrize("script", REFUSALS.values(), ids=REFUSALS)
@MODES
def test_a_refusal_is_an_answer_and_not_asked_for_twice(
    make_mailer: MakeMailer,
    script: dict[str, str | Act],
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    with ScriptedServer(pipelining=pipelining) as server:
        mailer = make_mailer(**server.environ)
        deliver(mailer, 1)
        server.connections[0].script = script
        with pytest.raises(DeliveryError):
            deliver(mailer, 2)

    assert len(server.connections) == 1


@pytest.mark.parametrize("reply", ["503 5.5.1 one message in a connection", "530 5.7.0 log in first"])
def test_a_sender_who_is_refused_only_in_a_kept_connection_gets_a_new_one(make_mailer: MakeMailer, reply: str) -> None:
    with ScriptedServer() as server:
        mailer = make_mailer(**server.environ)
        first = deliver(mailer, 1)
        server.connections[0].script = {"MAIL": reply}
        second = deliver(mailer, 2)

    assert server.taken == [first, second]


@pytest.mark.parametrize("script", AFTER_THE_DATA_ENDED.values(), ids=AFTER_THE_DATA_ENDED)
@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_a_message_is_never_sent_again_once_the_server_may_have_taken_it(
    make_mailer: MakeMailer,
    monkeypatch: pytest.MonkeyPatch,
    script: dict[str, str | Act],
    kept: bool,  # noqa: FBT001 - a case of the table
) -> None:
    with ScriptedServer() as server:
        mailer = make_mailer(**server.environ, SMTP_TIMEOUT="60")
        if kept:
            deliver(mailer, 1)
            server.connections[0].script = script
        else:
            server.script = script
        if Act.HANG in script.values():
            run_short_after_content(monkeypatch, allowed=60)
        with pytest.raises(DeliveryError):
            deliver(mailer, 2)

    assert len(server.received) == 1 + kept
    assert len(server.connections) == 1


@pytest.mark.parametrize("act", [Act.DROP, Act.RESET])
@pytest.mark.parametrize("lines", [1, 100_000], ids=["of a short message", "of a long message"])
def test_a_connection_lost_in_the_middle_of_the_content_is_a_failed_delivery(
    make_mailer: MakeMailer, act: Act, lines: int
) -> None:
    message = Message("<1@example.com>", CONTENT + b"0123456789abcdef\r\n" * lines)

    with ScriptedServer({"content": act}) as server, pytest.raises(DeliveryError):
        make_mailer(**server.environ).deliver(message)

    assert server.taken == []


def test_with_pipelining_a_warm_connection_needs_two_round_trips(make_mailer: MakeMailer) -> None:
    with ScriptedServer(pipelining=True) as server:
        mailer = make_mailer(**server.environ | {"SALES_EMAIL": "primera@example.com,segunda@example.com"})
        deliver(mailer, 1)
        (connection,) = server.connections
        round_trips, segments = connection.round_trips, len(connection.segments)
        content = deliver(mailer, 2)

    assert connection.round_trips - round_trips == 2
    assert connection.segments[segments:] == [
        b"MAIL FROM:<web@example.com>\r\nRCPT TO:<primera@example.com>\r\nRCPT TO:<segunda@example.com>\r\nDATA\r\n",
        content + b".\r\n",
    ]


def test_without_pipelining_commands_are_sent_one_by_one(make_mailer: MakeMailer) -> None:
    with ScriptedServer() as server:
        mailer = make_mailer(**server.environ | {"SALES_EMAIL": "primera@example.com,segunda@example.com"})
        content = deliver(mailer)

    assert server.connections[0].segments[1:] == [
        b"MAIL FROM:<web@example.com>\r\n",
        b"RCPT TO:<primera@example.com>\r\n",
        b"RCPT TO:<segunda@example.com>\r\n",
        b"DATA\r\n",
        content + b".\r\n",
    ]


def test_pipelining_counts_only_as_the_server_offers_it_inside_tls(make_mailer: MakeMailer) -> None:
    # What a server says before TLS is forgotten (RFC 3207, section 4.2).
    reply = "250-mail.example.com\r\n250-PIPELINING\r\n250 STARTTLS"

    with ScriptedServer({"EHLO": reply}, security="starttls") as server:
        deliver(make_mailer(**server.environ))

    assert server.connections[0].segments[-4] == b"MAIL FROM:<web@example.com>\r\n"


def test_with_pipelining_nothing_of_a_message_is_sent_when_all_recipients_are_refused_and_data_is_not(
    make_mailer: MakeMailer,
) -> None:
    with ScriptedServer({"RCPT": "550 5.1.1 unknown", "DATA": "354 go ahead"}, pipelining=True) as server:
        mailer = make_mailer(**server.environ | {"SALES_EMAIL": "primera@example.com,segunda@example.com"})
        with pytest.raises(DeliveryError):
            deliver(mailer, 1)
        server.script = {}
        second = deliver(mailer, 2)

    # The empty message ends such a DATA (RFC 2920, section 3.1); to end the connection does it too.
    assert [message for message in server.received if message] == [second]
    assert second in server.taken


@pytest.mark.parametrize("act", [Act.HANG, Act.DRIBBLE])
@pytest.mark.parametrize("stage", STAGES)
def test_no_server_is_waited_for_beyond_the_time_allowed(make_mailer: MakeMailer, stage: str, act: Act) -> None:
    with ScriptedServer({stage: act}, security="starttls", auth=True) as server:
        seconds = time_to_give_up(make_mailer(**server.environ, SMTP_TIMEOUT=str(TIMEOUT)))

    assert seconds < MARGIN < len(LONG_REPLY) * SECONDS_PER_BYTE
    assert server.taken == []


def test_no_name_server_is_waited_for_beyond_the_time_allowed(
    make_mailer: MakeMailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    with ScriptedServer() as server, monkeypatch.context() as patch:
        mailer = make_mailer(**server.environ | {"SMTP_HOST": "localhost", "SMTP_TIMEOUT": str(TIMEOUT)})
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(2 * MARGIN) and [])
        seconds = time_to_give_up(mailer)
        answered.set()

    assert seconds < MARGIN


@pytest.mark.parametrize("act", [Act.HANG, Act.DRIBBLE])
@pytest.mark.parametrize("stage", ["handshake", "connect"])
def test_no_server_inside_tls_is_waited_for_beyond_the_time_allowed(
    make_mailer: MakeMailer, stage: str, act: Act
) -> None:
    with ScriptedServer({stage: act}, security="tls") as server:
        seconds = time_to_give_up(make_mailer(**server.environ, SMTP_TIMEOUT=str(TIMEOUT)))

    assert seconds < MARGIN
    assert server.taken == []


@pytest.mark.parametrize("act", [Act.HANG, Act.DRIBBLE])
@pytest.mark.parametrize("stage", ["MAIL", "RCPT", "DATA", "message"])
def test_a_kept_connection_is_not_waited_for_beyond_the_time_allowed(
    make_mailer: MakeMailer, stage: str, act: Act
) -> None:
    with ScriptedServer(pipelining=True) as server:
        mailer = make_mailer(**server.environ)
        deliver(mailer)
        mailer._timeout = TIMEOUT
        server.connections[0].script = server.script = {stage: act}
        seconds = time_to_give_up(mailer)

    assert seconds < MARGIN
    assert len(server.connections) == 1
    assert len(server.taken) == 1


@SECURITIES
def test_a_server_that_does_not_read_the_content_is_not_waited_for_beyond_the_time_allowed(
    make_mailer: MakeMailer, security: Security, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than the buffers between the two take.
    content = CONTENT + (b"x" * 62 + b"\r\n") * 200_000

    with ScriptedServer({"content": Act.HANG}, security=security) as server:
        mailer = make_mailer(**server.environ, SMTP_TIMEOUT="60")
        run_short_after_content(monkeypatch, allowed=60)
        seconds = time_to_give_up(mailer, content)
        server.wait_until_hung()

    assert seconds < MARGIN
    assert server.received == []


def test_the_time_allowed_begins_anew_with_each_message(make_mailer: MakeMailer) -> None:
    with ScriptedServer() as server, freeze_time() as clock:
        mailer = make_mailer(**server.environ, SMTP_TIMEOUT="5")
        sent = []
        for number in range(3):
            sent.append(deliver(mailer, number))
            clock.tick(4)

    assert server.taken == sent
    assert len(server.connections) == 1


def test_messages_at_the_same_time_do_not_share_a_connection(make_mailer: MakeMailer) -> None:
    with ScriptedServer(pipelining=True) as server:
        mailer = make_mailer(**server.environ)
        deliver_together(server, mailer, 4)
        deliver_together(server, mailer, 4)

    # The second four went over the connections of the first.
    assert len(server.connections) == 4
    assert len(server.taken) == len(server.received) == 8


def time_to_give_up(mailer: Mailer, content: bytes = CONTENT) -> float:
    begun = time.perf_counter()
    with pytest.raises(DeliveryError):
        mailer.deliver(Message("<1@example.com>", content))
    return time.perf_counter() - begun


def test_a_wait_for_the_server_ends_with_the_time_for_the_message(
    tmp_path: Path, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def let_twenty_seconds_pass() -> None:
        nonlocal now
        now += 20

    with ScriptedServer() as server:
        sender = SmtpSender(make_settings(tmp_path, **server.environ))
        sender.send(message, Deadline(30), before_data_ends=let_twenty_seconds_pass)
        ((_, connection),) = sender._idle
        assert connection.sock is not None
        last_timeout = connection.sock.gettimeout()
        sender.send(message, Deadline(30), before_data_ends=lambda: None)
        timeout_of_the_next = connection.sock.gettimeout()
        sender.close()

    assert (last_timeout, timeout_of_the_next) == (10, 30)


def test_addresses_that_swallow_connections_leave_time_for_the_next(
    make_sender: MakeSender, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, shares = 0.0, []
    monkeypatch.setattr("time.monotonic", lambda: now)
    connect = socket.create_connection

    def connect_unless_swallowed(address: tuple[str, int], seconds: float) -> socket.socket:
        nonlocal now
        shares.append(seconds)
        if address[0] == HOST:
            return connect(address, seconds)
        now += seconds
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", connect_unless_swallowed)
    with ScriptedServer() as server:
        addresses = [(None, (host, server.port)) for host in ("192.0.2.1", "192.0.2.2", HOST)]
        monkeypatch.setattr(Resolver, "addresses", lambda *_: addresses)
        make_sender(server).send(message, Deadline(60), before_data_ends=lambda: None)

    assert server.taken == [message.content]
    assert shares == [20, 20, 20]


def test_a_tls_handshake_ends_with_the_time_for_the_message(
    tmp_path: Path, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    receive, client = socket.socket.recv, threading.get_ident()
    deadline = Deadline(30)
    too_much: list[float] = []

    def wait_a_second(connected: socket.socket, size: int) -> bytes:
        nonlocal now
        data = receive(connected, size)
        now += threading.get_ident() == client
        return data

    def give_up(connected: socket.socket, **_: object) -> None:
        too_much.append((connected.gettimeout() or 0) - deadline.remaining())
        raise ConnectionAbortedError

    monkeypatch.setattr(socket.socket, "recv", wait_a_second)
    with ScriptedServer(security="starttls") as server:
        sender = SmtpSender(make_settings(tmp_path, **server.environ))
        monkeypatch.setattr(sender._tls, "wrap_socket", give_up)
        with pytest.raises(ConnectionAbortedError):
            sender.send(message, deadline, before_data_ends=lambda: None)

    # Had the socket kept the timeout from before the last reply, it would be that second.
    assert now >= 3
    assert too_much == [0]
