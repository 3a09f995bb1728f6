"""How a message is handed to the mail server."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
import trustme

from app.mail.mailer import DeliveryError
from app.mail.message import Message
from tests.mail.clock import run_short_after_content
from tests.mail.conftest import CONTENT, MakeMailer
from tests.mail.server import DROP, HANG, HOST, Arrival, Security, SmtpServer, authority

SECURITIES = ["none", "starttls", "tls"]
CREDENTIALS = ("web@example.com", "correct horse")
MODES = pytest.mark.parametrize("modes", [{}, {"pipelining": True}], ids=["one by one", "pipelining"])
STAGES = ["connect", "EHLO", "MAIL", "RCPT", "DATA", "message"]

CONTENTS = {
    "dots at the start of lines": b".\r\n..\r\n.x\r\n...\r\n",
    "a line like the end of the data": b"Hola\r\n.\r\nadios\r\n",
    "empty lines at the end": b"Hola\r\n\r\n\r\n",
    "a line like an mbox separator": b"From maria\r\n>From maria\r\n",
    "the longest line": b"x" * 998 + b"\r\n",
    "a long message": b"0123456789abcdef\r\n" * 20_000,
}


@MODES
@pytest.mark.parametrize("credentials", [None, CREDENTIALS], ids=["anonymous", "authenticated"])
@pytest.mark.parametrize("security", SECURITIES)
def test_a_message_arrives_with_its_envelope(
    make_mailer: MakeMailer,
    message: Message,
    security: Security,
    credentials: tuple[str, str] | None,
    modes: dict[str, Any],
) -> None:
    with SmtpServer(security, credentials=credentials, **modes) as server:
        make_mailer(server).deliver(message)

    assert server.arrivals == [
        Arrival(
            sender="web@example.com",
            recipients=["ventas@example.com"],
            content=message.content,
            encrypted=security != "none",
            username=credentials and credentials[0],
        )
    ]


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_the_content_arrives_byte_for_byte(make_mailer: MakeMailer, content: bytes) -> None:
    with SmtpServer() as server:
        make_mailer(server).deliver(Message("<1@example.com>", content))

    assert server.arrivals[0].content == content


def test_one_message_goes_to_all_recipients(make_mailer: MakeMailer, message: Message) -> None:
    with SmtpServer() as server:
        make_mailer(server, SALES_EMAIL="primera@example.com, segunda@example.com,tercera@example.com").deliver(message)

    assert [arrival.recipients for arrival in server.arrivals] == [
        ["primera@example.com", "segunda@example.com", "tercera@example.com"]
    ]


@MODES
def test_a_refused_recipient_does_not_keep_the_message_from_the_others(
    make_mailer: MakeMailer, message: Message, caplog: pytest.LogCaptureFixture, modes: dict[str, Any]
) -> None:
    with SmtpServer(replies={"segunda@example.com": "550 5.1.1 <segunda@example.com>: unknown"}, **modes) as server:
        make_mailer(server, SALES_EMAIL="primera@example.com,segunda@example.com,tercera@example.com").deliver(message)

    assert [arrival.recipients for arrival in server.arrivals] == [["primera@example.com", "tercera@example.com"]]
    records = [record for record in caplog.records if record.name.startswith("app")]
    (warning,) = [record.getMessage() for record in records if record.levelno == logging.WARNING]
    assert message.message_id in warning
    assert "550" in warning
    assert "segunda@example.com" not in warning


@MODES
def test_a_recipient_to_whom_the_server_will_forward_is_accepted(
    make_mailer: MakeMailer, message: Message, caplog: pytest.LogCaptureFixture, modes: dict[str, Any]
) -> None:
    with SmtpServer(replies={"RCPT": "251 2.1.5 will forward to <otra@example.org>"}, **modes) as server:
        make_mailer(server).deliver(message)

    assert [arrival.recipients for arrival in server.arrivals] == [["ventas@example.com"]]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@MODES
def test_a_message_that_no_recipient_may_have_is_not_delivered(
    make_mailer: MakeMailer, message: Message, modes: dict[str, Any]
) -> None:
    refusals = {"primera@example.com": "550 5.1.1 unknown", "segunda@example.com": "450 4.2.1 busy"}

    with SmtpServer(replies=refusals, **modes) as server, pytest.raises(DeliveryError):
        make_mailer(server, SALES_EMAIL="primera@example.com,segunda@example.com").deliver(message)

    assert server.arrivals == []


def test_starttls_does_not_go_on_in_clear(make_mailer: MakeMailer, message: Message) -> None:
    with SmtpServer("none", credentials=CREDENTIALS) as server, pytest.raises(DeliveryError):
        make_mailer(server, SMTP_SECURITY="starttls").deliver(message)

    assert server.logins == []
    assert server.arrivals == []


def test_tls_does_not_go_on_in_clear(make_mailer: MakeMailer, message: Message) -> None:
    with SmtpServer("none", credentials=CREDENTIALS) as server, pytest.raises(DeliveryError):
        make_mailer(server, SMTP_SECURITY="tls", SMTP_TIMEOUT="0.5").deliver(message)

    assert server.logins == []
    assert server.arrivals == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize(
    "certificate",
    [
        pytest.param(trustme.CA().issue_cert(HOST), id="of an unknown authority"),
        pytest.param(authority().issue_cert("mail.example.com"), id="for another name"),
        pytest.param(authority().issue_cert(HOST, not_after=datetime(2020, 1, 1, tzinfo=UTC)), id="expired"),
    ],
)
def test_nothing_is_told_to_a_server_with_a_wrong_certificate(
    make_mailer: MakeMailer, message: Message, security: Security, certificate: trustme.LeafCert
) -> None:
    server = SmtpServer(security, credentials=CREDENTIALS, certificate=certificate)

    with server, pytest.raises(DeliveryError):
        make_mailer(server).deliver(message)

    assert server.logins == []
    assert server.arrivals == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"SMTP_PASSWORD": "wrong"}, id="rejected"),
        pytest.param({"SMTP_USERNAME": "", "SMTP_PASSWORD": ""}, id="not set"),
    ],
)
def test_a_message_is_not_delivered_without_the_credentials(
    make_mailer: MakeMailer, message: Message, changes: dict[str, str]
) -> None:
    with SmtpServer(credentials=CREDENTIALS) as server, pytest.raises(DeliveryError):
        make_mailer(server, **changes).deliver(message)

    assert server.arrivals == []


def test_a_message_is_not_delivered_while_the_server_is_down(make_mailer: MakeMailer, message: Message) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
    with pytest.raises(DeliveryError):
        mailer.deliver(message)

    with server:
        mailer.deliver(message)

    assert len(server.arrivals) == 1


def test_a_host_name_that_cannot_be_asked_for_is_a_failed_delivery(make_mailer: MakeMailer, message: Message) -> None:
    with SmtpServer() as server, pytest.raises(DeliveryError):
        make_mailer(server, SMTP_HOST="mail..example.com").deliver(message)


@pytest.mark.parametrize("reply", ["421 4.3.2 closing", "450 4.2.0 later", "550 5.7.1 never", "nonsense", HANG, DROP])
@pytest.mark.parametrize("stage", STAGES)
@MODES
def test_whatever_the_server_does_but_take_the_message_is_a_failed_delivery(
    make_mailer: MakeMailer, message: Message, stage: str, reply: str, modes: dict[str, Any]
) -> None:
    with SmtpServer(replies={stage: reply}, **modes) as server, pytest.raises(DeliveryError):
        make_mailer(server, SMTP_TIMEOUT="0.3").deliver(message)


@pytest.mark.parametrize("messages_before", [0, 1], ids=["on a new connection", "on a connection in use"])
@pytest.mark.parametrize("reply", [HANG, DROP])
def test_a_message_of_unknown_outcome_is_not_sent_twice(
    make_mailer: MakeMailer, message: Message, monkeypatch: pytest.MonkeyPatch, reply: str, messages_before: int
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server, SMTP_TIMEOUT="60")
        for _ in range(messages_before):
            mailer.deliver(message)
        server.replies = {"message": reply}
        if reply == HANG:
            run_short_after_content(monkeypatch, allowed=60)
        with pytest.raises(DeliveryError):
            mailer.deliver(message)
        assert reply != HANG or server.hung.wait(20)

    assert len(server.arrivals) == messages_before + 1


def test_a_server_that_dribbles_is_not_waited_for_beyond_the_time_allowed(
    make_mailer: MakeMailer, message: Message
) -> None:
    # It would take the message, but needs several times as long for its replies.
    with SmtpServer(seconds_per_byte=0.02) as server, pytest.raises(DeliveryError):
        make_mailer(server, SMTP_TIMEOUT="0.5").deliver(message)

    assert server.arrivals == []


@pytest.mark.parametrize("farewell", [b"", b"421 4.4.2 idle for too long\r\n"], ids=["silently", "with a farewell"])
@MODES
def test_a_connection_that_the_server_closed_between_two_messages_loses_none(
    make_mailer: MakeMailer, message: Message, farewell: bytes, modes: dict[str, Any]
) -> None:
    with SmtpServer(**modes) as server:
        mailer = make_mailer(server)
        mailer.deliver(message)
        server.disconnect(farewell)
        mailer.deliver(message)

    assert len(server.arrivals) == 2


@MODES
def test_messages_sent_at_the_same_time_arrive_once_each(make_mailer: MakeMailer, modes: dict[str, Any]) -> None:
    messages = [Message(f"<{n}@example.com>", CONTENT + b"%d\r\n" % n) for n in range(32)]

    with SmtpServer(**modes) as server:
        mailer = make_mailer(server)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(mailer.deliver, messages))

    assert sorted(arrival.content for arrival in server.arrivals) == sorted(message.content for message in messages)
