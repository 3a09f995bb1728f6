"""Every conversation with a mail server: what it does, what becomes of the message, and what is said of it."""

from __future__ import annotations

import asyncio
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from freezegun import freeze_time

from app.mail import smtp
from app.mail.failures import failure_of
from app.mail.kept import State
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.resolver import Resolver
from app.mail.smtp import Deadline
from app.mail.spool import Claim, Spool
from tests.mail.clock import run_short_after_content
from tests.mail.conftest import CONTENT, MakeMailer, MakeSender, kept
from tests.mail.server import ACCOUNT, FLOOD, HOST, Act, Arrival, Connection, Replies, Security, SmtpServer, authority
from tests.waiting import wait_until

TAKEN = None
WAITING, IN_DOUBT, REFUSED = State.WAITING, State.IN_DOUBT, State.REFUSED
MARGIN = 15
"""Seconds: a server that dribbles needs 40 for one reply, and one that hangs never comes to an end."""

TLS = {"security": "starttls", "account": ACCOUNT}
SLOW = {"SMTP_TIMEOUT": "0.3"}
TWO = {"SALES_EMAIL": "ventas@example.com,otra@example.com"}
TWICE = {"SALES_EMAIL": "ventas@example.com,ventas@example.com"}
EXPIRED = authority().issue_cert(HOST, not_after=datetime(2020, 1, 1, tzinfo=UTC))
MECHANISMS = "250-mail.example.com\r\n250 AUTH CRAM-MD5 PLAIN LOGIN"
LARGEST = {
    "line": "250 " + "x" * (64 * 1024 - len("250 \r\n")),
    "many lines": "250-x\r\n" * 9361 + "250 xxx",
    "several lines": ("250-" + "x" * 1018 + "\r\n") * 63 + "250 " + "x" * 1018,
}
NOBODY = "550 5.1.1 <otra@example.org> no"
AGAIN = "\r\n250 2.0.0 stale"
"""A second reply in the same segment, which answers nothing."""

REFUSAL = "the mail server refused"
BROKE_OFF = "the connection to the mail server broke off"
CLOSES = f"{BROKE_OFF}: the server closes it"
NO_REPLY = f"{BROKE_OFF}: no whole reply came"
MORE = f"{BROKE_OFF}: the server says more than it was asked"
SILENT = "the mail server did not answer within SMTP_TIMEOUT"
LOGIN = f"{REFUSAL} SMTP_USERNAME with SMTP_PASSWORD"
NO_WAY = "the server offers no way of logging in that is known here"
BEFORE_LOGIN = (f"{REFUSAL} the connection", f"{REFUSAL} the greeting", f"{REFUSAL} STARTTLS")
"""Until then the server's words are in the log, too. Later they can quote an address."""
UNKNOWN = "no answer came, and the mail server may have taken the message"
NOT_TRUSTED = "the certificate of the mail server is not trusted"
NOT_SAFE = (NOT_TRUSTED, "STARTTLS extension", "TLS with the mail server failed")


class Fault(NamedTuple):
    """One way of a server, and what becomes of a message."""

    replies: Replies
    state: State | None = WAITING
    word: str = "SMTPServerDisconnected"
    """What the name of the kept message says of the attempt: a code, or the class of the error."""
    sentence: str = NO_REPLY
    """What the operator is told."""
    again: State | str | None = ""
    """The state over a kept connection that does so, where it is another one."""
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    environ: dict[str, str] = {}  # noqa: RUF012
    farewell: bytes = b""
    """The last words of a server that ends the connection after the content."""


def login(answers: Replies, word: str = "", sentence: str = "", state: State | None = WAITING, **environ: str) -> Fault:
    """A server that offers three mechanisms, and what it answers to each."""
    return Fault({"EHLO": MECHANISMS, **answers}, state, word, sentence, options={"account": ACCOUNT}, environ=environ)


FAULTS = {
    # the way there
    "no server": Fault({}, WAITING, "ConnectionRefusedError", "the mail server cannot be reached: Connection refused"),
    "no host": Fault(
        {}, WAITING, "gaierror", "SMTP_HOST was not found: not a host name", environ={"SMTP_HOST": "mail..example.com"}
    ),
    "no STARTTLS": Fault(
        {},
        WAITING,
        "SMTPNotSupportedError",
        "STARTTLS extension not supported by server.",
        options={"account": ACCOUNT},
        environ={"SMTP_SECURITY": "starttls"},
    ),
    "no TLS": Fault(
        {},
        WAITING,
        "SSLError",
        "TLS with the mail server failed: wrong version number",
        options={"account": ACCOUNT},
        environ={"SMTP_SECURITY": "tls"},
    ),
    **{
        f"certificate {name} ({security})": Fault(
            {},
            WAITING,
            "SSLCertVerificationError",
            f"{NOT_TRUSTED}: {reason}",
            options=TLS | {"security": security, "certificate": certificate},
        )
        for security in ("starttls", "tls")
        for name, certificate, reason in [
            ("of an unknown authority", trustme.CA().issue_cert(HOST), "unable to get local issuer certificate"),
            (
                "for another name",
                authority().issue_cert("mail.example.com"),
                f"IP address mismatch, certificate is not valid for '{HOST}'.",
            ),
            ("expired", EXPIRED, "certificate has expired"),
        ]
    },
    # the beginning: the text is the operator's only clue, and quotes no address yet
    **{
        f"{stage} {reply[:3]}": Fault({stage: reply}, WAITING, reply[:3], f"{told}: {reply}", options=options)
        for stage, reply, told, options in [
            ("connect", "421 4.3.2 too busy", f"{REFUSAL} the connection", {}),
            ("connect", "554 5.3.2 no", f"{REFUSAL} the connection", {}),
            ("EHLO", "421 4.7.0 later", f"{REFUSAL} the greeting of this host", {}),
            ("EHLO", "502 5.5.1 no", f"{REFUSAL} the greeting of this host", {}),
            ("STARTTLS", "421 4.7.0 later", f"{REFUSAL} STARTTLS", TLS),
            ("STARTTLS", "454 4.7.0 not now", f"{REFUSAL} STARTTLS", TLS),
            ("second EHLO", "421 4.7.0 later", f"{REFUSAL} the greeting of this host", TLS),
            ("AUTH", "535 5.7.8 wrong", LOGIN, TLS),
            ("AUTH", "503 5.5.1 no", LOGIN, TLS),
        ]
    },
    "greeting of another protocol": Fault(
        {"connect": "HTTP/1.1 400 Bad Request"},
        WAITING,
        "SMTPConnectError",
        f"{REFUSAL} the connection: its reply is not SMTP",
    ),
    # the login: the first mechanism that works, else the last refusal
    "AUTH of a kind that is not known": login({"EHLO": "250-x\r\n250 AUTH XOAUTH2"}, "SMTPNotSupportedError", NO_WAY),
    "AUTH not offered": login({"EHLO": "250 x"}, "SMTPNotSupportedError", NO_WAY),
    "AUTH without sense": login(
        {"EHLO": "250-x\r\n250 AUTH CRAM-MD5", "AUTH": "334 abc"}, "SMTPException", "smtplib failed: Incorrect padding"
    ),
    "AUTH 421 to the first": login({"AUTH CRAM-MD5": "421 4.7.0 too many"}, "421", f"{LOGIN}: 421 4.7.0 too many"),
    "AUTH 535 to the first, gone at the second": login(
        {"AUTH CRAM-MD5": "535 5.7.8 no", "AUTH PLAIN": Act.DROP}, "535", f"{LOGIN}: 535 5.7.8 no"
    ),
    "AUTH 504 and 503": login({"AUTH": "504 5.5.4 no", "AUTH LOGIN": "503 5.5.1 no"}, "503", f"{LOGIN}: 503 5.5.1 no"),
    "AUTH in another charset": login(
        {"AUTH": "534 5.7.9 é\udcff"}, "534", f"{LOGIN}: 534 5.7.9 é\N{REPLACEMENT CHARACTER}"
    ),
    "AUTH 504 to the first": login({"AUTH CRAM-MD5": "504 5.5.4 unknown"}, state=TAKEN),
    "AUTH not set": login(
        {},
        "530",
        f"{REFUSAL} the sender: 530 5.7.0 Log in first",
        REFUSED,
        SMTP_USERNAME="",
        SMTP_PASSWORD="",
    ),
    "AUTH wrong": Fault(
        {},
        WAITING,
        "535",
        f"{LOGIN}: 535 5.7.8 Wrong credentials",
        "",
        TLS,
        {"SMTP_PASSWORD": "wrong"},
    ),
    # the envelope and the message
    "MAIL 421": Fault({"MAIL": "421 4.3.2 closing"}, WAITING, "421", f"{CLOSES}: 421 4.3.2 closing", TAKEN),
    "MAIL 451": Fault({"MAIL": "451 4.3.0 later"}, WAITING, "451", f"{REFUSAL} the sender: 451 4.3.0 later"),
    "MAIL 550": Fault({"MAIL": "550 5.7.1 no"}, REFUSED, "550", f"{REFUSAL} the sender: 550 5.7.1 no", TAKEN),
    "MAIL nonsense": Fault({"MAIL": "x"}, WAITING, "SMTPSenderRefused", f"{REFUSAL} the sender: its reply is not SMTP"),
    "RCPT 251": Fault({"RCPT": "251 2.1.5 will forward"}, TAKEN),
    "RCPT 421": Fault({"RCPT": "421 4.3.2 closing"}, WAITING, "421", f"{CLOSES}: 421 4.3.2 closing", TAKEN),
    "RCPT 450": Fault({"RCPT": "450 4.2.0 later"}, WAITING, "450", f"{REFUSAL} every recipient: 450 4.2.0 later"),
    "RCPT 550": Fault({"RCPT": NOBODY}, REFUSED, "550", f"{REFUSAL} every recipient: {NOBODY}"),
    "RCPT 550, DATA 354": Fault(
        {"RCPT": NOBODY, "DATA": "354 go ahead"},
        REFUSED,
        "550",
        f"{REFUSAL} every recipient: {NOBODY}",
    ),
    "RCPT 550 and 450": Fault(
        {"ventas@example.com": NOBODY, "otra@example.com": "450 4.2.1 busy"},
        WAITING,
        "450",
        f"{REFUSAL} every recipient: {NOBODY}; 450 4.2.1 busy",
        environ=TWO,
    ),
    "RCPT 550 and 250": Fault({"ventas@example.com": NOBODY}, TAKEN, environ=TWO),
    "RCPT 550 to one who is named twice": Fault(
        {"RCPT": NOBODY},
        REFUSED,
        "550",
        f"{REFUSAL} every recipient: {NOBODY}",
        environ=TWICE,
    ),
    "DATA 421": Fault({"DATA": "421 4.3.2 closing"}, WAITING, "421", f"{CLOSES}: 421 4.3.2 closing", TAKEN),
    "DATA 452": Fault({"DATA": "452 4.3.1 full"}, WAITING, "452", f"{REFUSAL} the message: 452 4.3.1 full"),
    "DATA 554": Fault({"DATA": "554 5.6.0 no"}, REFUSED, "554", f"{REFUSAL} the message: 554 5.6.0 no"),
    "content DROP": Fault({"content": Act.DROP}, IN_DOUBT, "", UNKNOWN),
    "content RESET": Fault({"content": Act.RESET}, IN_DOUBT, "", UNKNOWN),
    "message 421": Fault({"message": "421 4.3.2 closing"}, WAITING, "421", f"{REFUSAL} the message: 421 4.3.2 closing"),
    "message 451": Fault({"message": "451 4.3.0 later"}, WAITING, "451", f"{REFUSAL} the message: 451 4.3.0 later"),
    "message 554": Fault({"message": "554 5.6.0 no"}, REFUSED, "554", f"{REFUSAL} the message: 554 5.6.0 no"),
    "message nonsense": Fault({"message": "nonsense"}, IN_DOUBT, "", UNKNOWN),
    "message 354": Fault({"message": "354 go ahead"}, IN_DOUBT, "", UNKNOWN),
    "message 250 and 421": Fault({"message": "250 2.0.0 taken\r\n421 4.3.2 closing"}, TAKEN),
    **{
        f"message {reply!r} and the end": Fault({"message": Act.DROP}, IN_DOUBT, "", UNKNOWN, farewell=reply)
        for reply in (b"25", b"250", b"250 2.0.0 tak", b"554-5.6.0 n")
    },
    # how much is read
    **{
        f"{stage} largest {name}": Fault({stage: LARGEST[name]}, TAKEN)
        for stage in ("MAIL", "message")
        for name in LARGEST
    },
    **{f"MAIL larger {name}": Fault({"MAIL": f"{LARGEST[name]}x"}, again=TAKEN) for name in LARGEST},
    **{f"message larger {name}": Fault({"message": f"{LARGEST[name]}x"}, IN_DOUBT, "", UNKNOWN) for name in LARGEST},
    # what comes unasked
    **{
        f"{stage} twice": Fault({stage: reply + AGAIN}, sentence=MORE, again=again, options=TLS)
        for stage, reply, again in [
            ("connect", "220 mail.example.com ESMTP", ""),
            ("EHLO", "250-mail.example.com\r\n250 STARTTLS", ""),
            ("STARTTLS", "220 2.0.0 go ahead", ""),
            ("second EHLO", "250-mail.example.com\r\n250 AUTH PLAIN", ""),
            ("AUTH", "235 2.7.0 welcome", ""),
            ("MAIL", "250 2.1.0 OK", TAKEN),
            ("RCPT", "250 2.1.5 OK", TAKEN),
            ("DATA", "354 go ahead", TAKEN),
        ]
    },
    "DATA and a stale 250, message 554": Fault(
        {"DATA": f"354 go ahead{AGAIN}", "message": "554 5.6.0 no"}, sentence=MORE, again=TAKEN
    ),
}

STEPS = ("connect", "EHLO", "STARTTLS", "handshake", "second EHLO", "AUTH", "MAIL", "RCPT", "DATA")
ENVELOPE = {"MAIL", "RCPT", "DATA"}
ENDS = (Act.DROP, Act.RESET, Act.FLOOD_WITH_A_LINE, Act.FLOOD_WITH_LINES)
SILENCES = (Act.HANG, Act.DRIBBLE)

FAULTS |= {
    # What an end is called depends on how far the client has come then.
    f"{stage} {act.name}": Fault(
        {stage: act}, word="", sentence="", again=TAKEN if stage in ENVELOPE else "", options=TLS
    )
    for stage in STEPS
    for act in (ENDS if stage != "handshake" else ENDS[:1])
}
FAULTS |= {
    f"{stage} {act.name} ({security})": Fault(
        {stage: act}, word="TimeoutError", sentence=SILENT, options=TLS | {"security": security}, environ=SLOW
    )
    for security, stages in {"starttls": STEPS, "tls": ("handshake", "connect")}.items()
    for stage in stages
    for act in SILENCES
}
FAULTS |= {f"message {act.name}": Fault({"message": act}, IN_DOUBT, "", UNKNOWN) for act in ENDS + SILENCES}


class Case(NamedTuple):
    """A fault over one kind of connection."""

    fault: Fault
    pipelining: bool
    warm: bool
    """Whether the connection has served a message before."""


CASES = {
    f"{name}{', pipelining' * pipelining}{', kept connection' * warm}": Case(fault, pipelining, warm)
    for name, fault in FAULTS.items()
    for pipelining in (False, True)
    for warm in (False, True)
    if not warm or fault.replies.keys() & (ENVELOPE | {"content", "message"})
    if not pipelining or (fault.replies.keys() & ENVELOPE and "twice" not in name)  # there it may count for the next
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_message_is_taken_once_or_kept_in_its_state_and_delivered_once_by_a_resend(  # noqa: PLR0915 - a table
    make_mailer: MakeMailer,
    mail_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    case: Case,
) -> None:
    caplog.set_level("DEBUG")
    fault, warm = case.fault, case.warm
    server = SmtpServer({} if warm else fault.replies, pipelining=case.pipelining, **fault.options)
    is_silent = any(act in SILENCES for act in fault.replies.values())
    is_late = is_silent and "message" in fault.replies
    environ = server.environ | ({"SMTP_TIMEOUT": "60"} if warm or is_late else {}) | ({} if warm else fault.environ)
    state = fault.again if warm and fault.again != "" else fault.state
    noted: list[bool] = []

    def take_note() -> None:
        noted.append(kept(mail_dir)[0].is_doubtful)
        server.connections[-1].farewell = fault.farewell

    with nullcontext() if fault is FAULTS["no server"] else server:
        mailer = make_mailer(**environ)
        if warm:
            mailer.deliver(Message("<0@example.com>", CONTENT))
            server.connections[0].replies = fault.replies
            mailer._timeout = float(fault.environ.get("SMTP_TIMEOUT", 60))
        server.on_message = take_note
        begun = time.perf_counter()
        with monkeypatch.context() as patch, pytest.raises(DeliveryError) if state else nullcontext() as failure:
            if is_late:
                run_short_after_content(patch, allowed=60)
            mailer.deliver(Message("<1@example.com>", CONTENT))
        seconds = time.perf_counter() - begun

    assert seconds < MARGIN
    assert all(noted), "the content was sent before the doubt was noted"
    assert state == IN_DOUBT or len(server.taken) == warm + (state is TAKEN)
    assert len(server.connections) <= 1 + warm
    assert not (fault.sentence.startswith(NOT_SAFE) and server.logins), "it was told the password"
    assert all(connection.flooded < FLOOD / 8 for connection in server.connections)
    log = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("app"))
    assert not re.search(r"@(?!example\.com>)|ventas|correct horse", log)
    assert ("refused a recipient of <1@example.com> with 550" in log) == (NOBODY in fault.replies.values())
    if failure is None:
        assert kept(mail_dir) == []
        return
    (message,) = kept(mail_dir)
    assert (message.state, failure.value.kept) == (state, True)
    cause = failure.value.__cause__
    assert isinstance(cause, Exception)
    assert f"message <1@example.com> was not delivered: {failure_of(cause).logged}" in log
    assert failure_of(cause).sentence.startswith(fault.sentence)
    assert not fault.word or message.last_code == fault.word
    quoted = fault.sentence.partition(": ")[2]
    assert (quoted in log) == fault.sentence.startswith(BEFORE_LOGIN) or not quoted[:3].isdigit()
    if state == IN_DOUBT:
        assert len(server.arrivals) <= 1 + warm
        assert len(server.connections) == 1
    with SmtpServer(port=server.port) as healthy, Spool(mail_dir).claim(message) as claim:
        assert claim
        make_mailer(healthy).redeliver(claim)
    assert (len(healthy.taken), kept(mail_dir)) == (1, [])


SECOND = {
    "refused for now, then for good": ("RCPT 450", "RCPT 550", REFUSED),
    "refused for good, then for now": ("RCPT 550", "RCPT 450", WAITING),
    "refused, then the server is down": ("RCPT 450", "no server", WAITING),
    "refused, then in doubt": ("RCPT 450", "message DROP", IN_DOUBT),
    "in doubt twice": ("message DROP", "message DROP", IN_DOUBT),
    # Whether the first attempt has delivered it is not known any better than before.
    "in doubt, then the server is down": ("message DROP", "no server", IN_DOUBT),
    "in doubt, then refused": ("message DROP", "RCPT 450", IN_DOUBT),
    "in doubt, then the message refused": ("message DROP", "message 451", IN_DOUBT),
}


@pytest.mark.parametrize(("first", "second", "state"), SECOND.values(), ids=SECOND)
def test_a_second_attempt_in_vain_keeps_the_message(
    make_mailer: MakeMailer, mail_dir: Path, message: Message, first: str, second: str, state: State
) -> None:
    with SmtpServer(FAULTS[first].replies) as server, pytest.raises(DeliveryError):
        make_mailer(server).deliver(message)
    server.replies = FAULTS[second].replies
    with nullcontext() if second == "no server" else server, Spool(mail_dir).claim(*kept(mail_dir)) as claim:
        assert claim
        with suppress(OSError):
            make_mailer(server).redeliver(claim)

    (left,) = kept(mail_dir)
    assert (left.state, left.tries) == (state, 2)


def deliver(mailer: Mailer, number: int = 1) -> bytes:
    content = CONTENT + b"%d\r\n" % number
    mailer.deliver(Message(f"<{number}@example.com>", content))
    return content


def deliver_together(server: SmtpServer, mailer: Mailer, count: int) -> None:
    """Deliver so many messages at once, each over a connection of its own, and keep the connections."""
    server.replies, server.is_released = {"message": Act.HOLD}, False
    with ThreadPoolExecutor(count) as pool:
        deliveries = [pool.submit(deliver, mailer, number) for number in range(count)]
        server.wait_until_hung(count)
        server.release()
    for delivery in deliveries:
        delivery.result()
    server.replies = {}


def said(connection: Connection) -> list[str]:
    return [command.upper().split()[0] for command in connection.commands]


MODES = pytest.mark.parametrize("pipelining", [False, True], ids=["one by one", "pipelining"])
SECURITIES = pytest.mark.parametrize("security", ["none", "starttls", "tls"])
BEGINNING = {"none": ["EHLO", "AUTH"], "starttls": ["EHLO", "STARTTLS", "EHLO", "AUTH"], "tls": ["EHLO", "AUTH"]}

CONTENTS = {
    "dots at the start of lines": b".\r\n..\r\n.x\r\n...\r\n",
    "a line like the end of the data": b"Hola\r\n.\r\nadios\r\n",
    "empty lines at the end": b"Hola\r\n\r\n\r\n",
    "a line like an mbox separator": b"From maria\r\n>From maria\r\n",
    "the longest line": b"x" * 998 + b"\r\n",
    "a long message": b"0123456789abcdef\r\n" * 20_000,
}


@MODES
@SECURITIES
def test_a_connection_serves_several_messages_and_is_left_with_quit(
    make_mailer: MakeMailer, security: Security, *, pipelining: bool
) -> None:
    with SmtpServer(security=security, account=ACCOUNT, pipelining=pipelining) as server:
        mailer = make_mailer(server, SALES_EMAIL="primera@example.com,segunda@example.com")
        for content in CONTENTS.values():
            mailer.deliver(Message("<1@example.com>", content))
        mailer.close()
        wait_until(lambda: not server.connected())

    (connection,) = server.connections
    recipients = ["primera@example.com", "segunda@example.com"]
    assert server.taken == [
        Arrival("web@example.com", recipients, content, security != "none", ACCOUNT[0]) for content in CONTENTS.values()
    ]
    assert said(connection) == [*BEGINNING[security], *["MAIL", "RCPT", "RCPT", "DATA"] * len(CONTENTS), "QUIT"]


@SECURITIES
def test_a_server_that_is_not_ours_takes_a_message_in_each_mode(
    make_mailer: MakeMailer, message: Message, security: Security
) -> None:
    arrivals: list[tuple[Any, ...]] = []

    class Handler:
        async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
            arrivals.append((envelope.mail_from, envelope.rcpt_tos, envelope.content, session.authenticated))
            return "250 OK"

    ours = SmtpServer(security=security, account=ACCOUNT)
    controller = Controller(
        Handler(),
        hostname=HOST,
        port=ours.port,
        ssl_context=ours.tls if security == "tls" else None,
        tls_context=ours.tls if security == "starttls" else None,
        require_starttls=security == "starttls",
        auth_require_tls=security == "starttls",
        authenticator=lambda *arguments: AuthResult(success=arguments[-1] == tuple(map(str.encode, ACCOUNT))),
    )
    controller.start()
    try:
        mailer = make_mailer(ours)
        mailer.deliver(message)
        mailer.close()
        wait_until(lambda: not asyncio.all_tasks(controller.loop))  # else the connection would not be closed
    finally:
        controller.stop()

    assert arrivals == [("web@example.com", ["ventas@example.com"], message.content, True)]


IDLE_ENDS: dict[str, Callable[[Connection], None]] = {
    "421": lambda connection: connection.end(b"421 4.4.2 idle for too long\r\n"),
    "FIN": lambda connection: connection.end(),
    "RST": lambda connection: connection.end(reset=True),
    "421, and it listens on": lambda connection: connection.say_no_more(b"421 4.4.2 idle for too long\r\n"),
    "FIN, and it listens on": lambda connection: connection.say_no_more(),
}


@MODES
@SECURITIES
@pytest.mark.parametrize("end", IDLE_ENDS.values(), ids=IDLE_ENDS)
def test_a_connection_that_the_server_closed_while_idle_costs_nothing(
    make_mailer: MakeMailer, end: Callable[[Connection], None], security: Security, *, pipelining: bool
) -> None:
    with SmtpServer(security=security, pipelining=pipelining) as server:
        mailer = make_mailer(server)
        deliver_together(server, mailer, 3)
        before = [list(connection.segments) for connection in server.connections]
        for connection in server.connections:
            end(connection)
        last = deliver(mailer, 9)

    assert [connection.segments for connection in server.connections[:3]] == before
    assert [arrival.content for arrival in server.arrivals].count(last) == 1
    assert (len(server.taken), len(server.connections)) == (4, 4)


def test_a_message_is_tried_no_more_than_twice(make_mailer: MakeMailer) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
        deliver(mailer, 1)
        server.replies = {"MAIL": Act.DROP}
        with pytest.raises(DeliveryError):
            deliver(mailer, 2)

    assert (len(server.connections), len(server.taken)) == (2, 1)


@SECURITIES
@pytest.mark.parametrize("stage", ["DATA", "message"])
def test_what_the_server_says_unasked_between_two_steps_is_no_answer(
    make_mailer: MakeMailer, security: Security, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    with SmtpServer(security=security) as server:
        mailer = make_mailer(server)
        first = deliver(mailer, 1)
        assert mailer.sender
        ((_, idle),) = mailer.sender._idle
        connected = idle.sock
        assert connected
        server.connections[0].replies = {stage: Act.SPEAK_AGAIN}

        def let_it_speak() -> None:
            server.wait_until_hung()
            server.release()
            assert select.select([connected], [], [], 20)[0]

        if stage == "DATA":  # after its answer, and before the content is sent
            note = Claim.note
            steps = iter([let_it_speak])
            monkeypatch.setattr(Claim, "note", lambda *args, **options: (next(steps, int)(), note(*args, **options)))
            sent = [first, deliver(mailer, 2)]
        else:
            sent = [first, deliver(mailer, 2)]
            let_it_speak()
            sent.append(deliver(mailer, 3))

    assert [arrival.content for arrival in server.arrivals] == sent
    assert len(server.connections) == 2


def test_the_session_tickets_of_tls_are_no_words_of_the_server(
    make_mailer: MakeMailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmtpServer(security="starttls") as server:
        mailer = make_mailer(server)
        assert mailer.sender
        wrap = mailer.sender._tls.wrap_socket

        def wrap_and_wait_for_the_tickets(connected: socket.socket, **options: Any) -> ssl.SSLSocket:
            encrypted = wrap(connected, **options)
            assert encrypted.version() == "TLSv1.3"
            assert select.select([encrypted], [], [], 20)[0]
            return encrypted

        monkeypatch.setattr(mailer.sender._tls, "wrap_socket", wrap_and_wait_for_the_tickets)
        deliver(mailer)

    assert (len(server.taken), len(server.connections)) == (1, 1)


def test_connections_that_nobody_needs_any_more_are_left_with_quit(make_mailer: MakeMailer) -> None:
    with SmtpServer() as server, freeze_time() as clock:
        mailer = make_mailer(server)
        deliver_together(server, mailer, 3)
        for number in range(3, 6):
            clock.tick(smtp.IDLE_SECONDS / 2)
            deliver(mailer, number)

    assert sorted(said(connection).count("QUIT") for connection in server.connections) == [0, 1, 1]
    assert len(server.taken) == 6


def test_messages_at_the_same_time_do_not_share_a_connection(make_mailer: MakeMailer) -> None:
    with SmtpServer(pipelining=True) as server:
        mailer = make_mailer(server)
        deliver_together(server, mailer, 4)
        deliver_together(server, mailer, 4)

    # The second four went over the connections of the first.
    assert (len(server.connections), len(server.arrivals), len(server.taken)) == (4, 8, 8)


@MODES
def test_a_kept_connection_needs_two_round_trips_with_pipelining_and_five_without(
    make_mailer: MakeMailer, *, pipelining: bool
) -> None:
    with SmtpServer(pipelining=pipelining) as server:
        mailer = make_mailer(server, SALES_EMAIL="primera@example.com,segunda@example.com")
        deliver(mailer, 1)
        (connection,) = server.connections
        trips, segments = connection.round_trips, len(connection.segments)
        content = deliver(mailer, 2)

    commands = [b"MAIL FROM:<web@example.com>\r\n"]
    commands += [b"RCPT TO:<primera@example.com>\r\n", b"RCPT TO:<segunda@example.com>\r\n", b"DATA\r\n"]
    expected = [b"".join(commands)] if pipelining else commands
    assert connection.segments[segments:] == [*expected, content + b".\r\n"]
    assert connection.round_trips - trips == len(expected) + 1


def test_pipelining_counts_only_as_the_server_offers_it_inside_tls(make_mailer: MakeMailer) -> None:
    # What a server says before TLS is forgotten (RFC 3207, section 4.2).
    reply = "250-mail.example.com\r\n250-PIPELINING\r\n250 STARTTLS"

    with SmtpServer({"EHLO": reply}, security="starttls") as server:
        deliver(make_mailer(server))

    assert server.connections[0].segments[-4] == b"MAIL FROM:<web@example.com>\r\n"


@SECURITIES
def test_a_server_that_does_not_read_the_content_is_not_waited_for_beyond_the_time_allowed(
    make_mailer: MakeMailer, security: Security, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = CONTENT + (b"x" * 62 + b"\r\n") * 200_000  # more than the buffers between the two take

    with SmtpServer({"content": Act.HANG}, security=security) as server:
        mailer = make_mailer(server, SMTP_TIMEOUT="60")
        run_short_after_content(monkeypatch, allowed=60)
        begun = time.perf_counter()
        with pytest.raises(DeliveryError):
            mailer.deliver(Message("<1@example.com>", content))
        assert time.perf_counter() - begun < MARGIN
        server.wait_until_hung()

    assert server.arrivals == []


def test_no_name_server_is_waited_for_beyond_the_time_allowed(
    make_mailer: MakeMailer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    with monkeypatch.context() as patch:
        mailer = make_mailer(SmtpServer(), SMTP_HOST="localhost", SMTP_TIMEOUT="0.25")
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(2 * MARGIN) and [])
        begun = time.perf_counter()
        with pytest.raises(DeliveryError):
            deliver(mailer)
        assert time.perf_counter() - begun < MARGIN
        answered.set()


def test_the_time_allowed_begins_anew_with_each_message(make_mailer: MakeMailer) -> None:
    with SmtpServer() as server, freeze_time() as clock:
        mailer = make_mailer(server, SMTP_TIMEOUT="5")
        for number in range(3):
            deliver(mailer, number)
            clock.tick(4)

    assert (len(server.taken), len(server.connections)) == (3, 1)


def test_a_wait_for_the_server_ends_with_the_time_for_the_message(
    make_sender: MakeSender, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def let_twenty_seconds_pass() -> None:
        nonlocal now
        now += 20

    with SmtpServer() as server:
        sender = make_sender(server)
        sender.send(message, Deadline(30), before_data_ends=let_twenty_seconds_pass)
        ((_, connection),) = sender._idle
        assert connection.sock is not None
        last_timeout = connection.sock.gettimeout()
        sender.send(message, Deadline(30), before_data_ends=lambda: None)
        timeout_of_the_next = connection.sock.gettimeout()

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
    with SmtpServer() as server:
        addresses = [(None, (host, server.port)) for host in ("192.0.2.1", "192.0.2.2", HOST)]
        monkeypatch.setattr(Resolver, "addresses", lambda *_: addresses)
        make_sender(server).send(message, Deadline(60), before_data_ends=lambda: None)

    assert [arrival.content for arrival in server.taken] == [message.content]
    assert shares == [20, 20, 20]


def test_a_tls_handshake_ends_with_the_time_for_the_message(
    make_sender: MakeSender, message: Message, monkeypatch: pytest.MonkeyPatch
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
    with SmtpServer(security="starttls") as server:
        sender = make_sender(server)
        monkeypatch.setattr(sender._tls, "wrap_socket", give_up)
        with pytest.raises(ConnectionAbortedError):
            sender.send(message, deadline, before_data_ends=lambda: None)

    # Had the socket kept the timeout from before the last reply, it would be that second.
    assert now >= 3
    assert too_much == [0]
