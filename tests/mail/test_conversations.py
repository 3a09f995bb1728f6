"""Every conversation with a mail server: what it does, what becomes of the message, and what is said of it."""

import asyncio
import base64
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from app.mail import smtp
from app.mail.failures import failure_of
from app.mail.health import Check
from app.mail.mailer import DeliveryError, Mailer
from app.mail.message import Message
from app.mail.queued import State
from app.mail.smtp import RefusedError, Step
from app.mail.spool import Spool
from app.resolver import Resolver
from tests.mail.conftest import CONTENT, Clock, MailCommand, MakeMailer, kept
from tests.mail.server import ACCOUNT, HOST, Act, Arrival, Connection, Replies, Security, SmtpServer, authority
from tests.timeline import assert_went
from tests.waiting import wait_until

TAKEN = "taken"
WAITING, IN_DOUBT, REFUSED = State.WAITING, State.IN_DOUBT, State.REFUSED
MARGIN = 15
"""Seconds: a server that dribbles needs 40 for one reply, and one that hangs never comes to an end."""
SOON, LATE = {"SMTP_TIMEOUT": "0.1"}, {"SMTP_TIMEOUT": "60"}
"""The time for a server that is silent, and for one that is silent once it has the message: then most of it passes."""

LARGE = CONTENT + (b"x" * 998 + b"\r\n") * 12_000
"""More than the buffers between client and server take: the server must read it."""

VENTAS, OTRA = "ventas@example.com", "otra@example.com"
TWO, TWO_ALIKE = {"SALES_EMAIL": f"{VENTAS},{OTRA}"}, {"SALES_EMAIL": f"{VENTAS},{VENTAS}"}
NOBODY, BUSY, CLOSING = "550 5.1.1 <otra@example.org> no", "450 4.2.1 busy", "421 4.3.2 closing"
ACCOUNTS: dict[str, Any] = {"account": ACCOUNT}
TLS = ACCOUNTS | {"security": "starttls"}
ASKED = "334 Y29ycmVjdCBob3JzZQ=="
RESPONSE = base64.b64encode("\0".join(["", *ACCOUNT]).encode()).decode().upper()
"""The server answers the response of PLAIN by asking again."""
STEPS = ("connect", "EHLO", "STARTTLS", "handshake", "second EHLO", "AUTH", "MAIL", "RCPT", "DATA")
BEFORE_LOGIN = {"connect", "EHLO", "STARTTLS"}
"""Until then the server's words are in the log, too: the operator's only clue. Later they can quote an address."""
ENVELOPE = {"MAIL", "RCPT", "DATA"}

NO = "the mail server refused"
LOGIN, EVERY = f"{NO} SMTP_USERNAME with SMTP_PASSWORD", f"{NO} every recipient"
BROKE_OFF = "the connection to the mail server was lost"
CLOSES = "the mail server closes the connection"
SILENT = "the mail server did not reply within SMTP_TIMEOUT"
UNKNOWN = "no valid reply, so the mail server may have taken the message"
NO_STARTTLS = "the server offers no STARTTLS"
NO_TLS = "TLS with the mail server failed"
NOT_TRUSTED = "the certificate of the mail server is not trusted"


class Fault(NamedTuple):
    """One way of a server, and what becomes of a message."""

    replies: Replies
    state: str = WAITING
    word: str = ""
    """What the name of the kept message says of the attempt: a code, or the class of the error."""
    told: str = ""
    """What the operator is told."""
    again: str = ""
    """The state over a kept connection that does so, where it is another one."""
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    environ: dict[str, str] = {}  # noqa: RUF012


def no_way(word: str, told: str, options: dict[str, Any], **environ: str) -> Fault:
    """A server that is not reached, or not as the settings ask for it."""
    return Fault({}, WAITING, word, told, options=options, environ=environ)


def login(answers: Replies, word: str = "", told: str = "", state: str = WAITING) -> Fault:
    """A server that offers three mechanisms, and what it answers to each."""
    offer = {"EHLO": "250-mail.example.com\r\n250 AUTH CRAM-MD5 PLAIN LOGIN"}
    return Fault(offer | dict(answers), state, word, told, options=ACCOUNTS)


def cut_off(act: str | bytes | Act, stage: str = "message") -> Fault:
    """A server that has been sent the content, and whose answer is none."""
    return Fault({stage: act}, IN_DOUBT, "", UNKNOWN, environ=LATE if act is Act.HANG else {})


def ended(stage: str, act: str | Act, word: str = "", told: str = "") -> Fault:
    """A server with which the connection ends. In the place of a kept one there is another."""
    return Fault({stage: act}, WAITING, word, told, TAKEN if stage in ENVELOPE else "", TLS)


UNTRUSTED = [
    ("of an unknown authority", trustme.CA().issue_cert(HOST), "unable to get local issuer certificate"),
    ("for another name", authority().issue_cert("mail.example.com"), "IP address mismatch"),
    ("expired", authority().issue_cert(HOST, not_after=datetime(2020, 1, 1, tzinfo=UTC)), "certificate has expired"),
]

NOT_OURS = {"certificate": UNTRUSTED[0][1]}

REPLIES = [
    ("connect", "421 4.3.2 too busy", f"{NO} the connection", WAITING, ""),
    ("connect", "554 5.3.2 no", f"{NO} the connection", WAITING, ""),
    ("EHLO", "502 5.5.1 no", f"{NO} this host's EHLO", WAITING, ""),
    ("STARTTLS", "454 4.7.0 not now", f"{NO} STARTTLS", WAITING, ""),
    ("AUTH", "535 5.7.8 wrong", LOGIN, WAITING, ""),
    ("AUTH", "503 5.5.1 no", LOGIN, WAITING, ""),
    ("MAIL", CLOSING, CLOSES, WAITING, TAKEN),
    ("MAIL", "451 4.3.0 later", f"{NO} the sender", WAITING, TAKEN),
    ("MAIL", "452 4.5.3 enough for this connection", f"{NO} the sender", WAITING, TAKEN),
    ("MAIL", "550 5.7.1 no", f"{NO} the sender", REFUSED, TAKEN),
    ("RCPT", BUSY, EVERY, WAITING, ""),
    ("RCPT", CLOSING, CLOSES, WAITING, TAKEN),
    ("RCPT", NOBODY, EVERY, REFUSED, ""),
    ("DATA", "452 4.3.1 full", f"{NO} DATA", WAITING, ""),
    ("DATA", CLOSING, CLOSES, WAITING, TAKEN),
    ("DATA", "554 5.6.0 no", f"{NO} DATA", REFUSED, ""),
    ("message", CLOSING, f"{NO} the message", WAITING, ""),
    ("message", "451 4.3.0 later", f"{NO} the message", WAITING, ""),
    ("message", "554 5.6.0 no", f"{NO} the message", REFUSED, ""),
]
"""Stage, reply, what the operator is told before it, and the state; last the one over a kept connection, if another."""

USUAL = {"connect": 220, "STARTTLS": 220, "AUTH": 235, "MAIL": 250, "DATA": 354}

FAULTS = {
    # the way there
    "no server": no_way("connection", "the mail server cannot be reached: Connection refused", {}),
    "no host": no_way("lookup", "SMTP_HOST was not found: not a host name", {}, SMTP_HOST="mail..example.com"),
    "no STARTTLS": no_way("starttls", NO_STARTTLS, ACCOUNTS, SMTP_SECURITY="starttls"),
    "no TLS": no_way("tls", f"{NO_TLS}: wrong version number", ACCOUNTS, SMTP_SECURITY="tls"),
    **{
        f"certificate {name} ({security})": no_way(
            "certificate",
            f"{NOT_TRUSTED}: {why}",
            ACCOUNTS | {"security": security, "certificate": certificate},
        )
        for security in ("starttls", "tls")
        for name, certificate, why in UNTRUSTED
    },
    # replies
    **{
        # Only the codes of what is said at the login are passed on: the rest can quote the password.
        f"{stage} {reply[:3]}": Fault(
            {stage: reply}, state, reply[:3], f"{told}: {reply[:9] if stage == 'AUTH' else reply}", again, TLS
        )
        for stage, reply, told, state, again in REPLIES
    },
    "connect nonsense": Fault({"connect": "HTTP/1.1 400"}, told=f"{NO} the connection: not an SMTP reply"),
    "MAIL nonsense": Fault({"MAIL": "nonsense"}, told=f"{NO} the sender: not an SMTP reply", again=TAKEN),
    "MAIL 354": Fault({"MAIL": "354 go ahead"}, WAITING, "354", f"{NO} the sender: 354 go ahead", TAKEN),
    "message nonsense": cut_off("nonsense"),
    "message 250 and 421": Fault({"message": f"250 2.0.0 taken\r\n{CLOSING}"}, TAKEN),
    # the login: the first mechanism that works, else the last refusal
    "AUTH of an unknown kind": login(
        {"EHLO": "250-x\r\n250 AUTH XOAUTH2"}, told="the server offers no supported AUTH mechanism"
    ),
    "AUTH 535, then DROP": login({"AUTH CRAM-MD5": "535 no", "AUTH PLAIN": Act.DROP}, "535", f"{LOGIN}: 535"),
    "AUTH 535 that quotes the password": login({"AUTH": "535 5.7.8.1 correct horse"}, "535", f"{LOGIN}: 535"),
    "AUTH that does not end": login(
        {"EHLO": "250-x\r\n250 AUTH PLAIN", "AUTH": ASKED, RESPONSE: ASKED},
        "auth",
        "AUTH PLAIN was not completed",
    ),
    "AUTH 504 to the first": login({"AUTH CRAM-MD5": "504 5.5.4 unknown"}, state=TAKEN),
    "AUTH without sense by the first": login({"AUTH CRAM-MD5": "334 abc"}, state=TAKEN),
    **{
        f"AUTH offered as {offer}": login({"EHLO": f"250-x\r\n250-{offer}\r\n250 HELP"}, state=TAKEN)
        for offer in ("AUTH LOGIN", "auth login", "AUTH Plain Gssapi", "AUTH=plain")
    },
    "AUTH LOGIN 535": login(
        {"EHLO": "250-x\r\n250 AUTH login", "AUTH LOGIN": "535 5.7.8 no"}, "535", f"{LOGIN}: 535 5.7.8"
    ),
    # the recipients
    "RCPT 251": Fault({"RCPT": "251 2.1.5 will forward"}, TAKEN),
    "RCPT 550 to one named twice": Fault({"RCPT": NOBODY}, REFUSED, "550", f"{EVERY}: {NOBODY}", environ=TWO_ALIKE),
    "RCPT 550 and 450": Fault({VENTAS: NOBODY, OTRA: BUSY}, WAITING, "450", f"{EVERY}: {NOBODY}; {BUSY}", environ=TWO),
    "RCPT 250 and 421": Fault(
        {VENTAS: "250 OK", OTRA: CLOSING}, WAITING, "421", f"{CLOSES}: {CLOSING}", TAKEN, environ=TWO
    ),
    "RCPT 550 and 250": Fault({VENTAS: NOBODY}, TAKEN, environ=TWO),
    # what comes unasked, in the same segment; what an end is called depends on how far the client has come then
    **{
        f"{stage} twice": ended(stage, f"{code} 2.0.0 yes\r\n250 2.0.0 stale", "lost", BROKE_OFF)
        for stage, code in USUAL.items()
    },
    **{f"{stage} DROP": ended(stage, Act.DROP) for stage in STEPS},
    "MAIL RESET": ended("MAIL", Act.RESET),
    "MAIL FLOOD": ended("MAIL", Act.FLOOD_WITH_A_LINE, "lost", f"{BROKE_OFF}: no complete reply"),
    **{f"content {act.name}": cut_off(act, "content") for act in (Act.DROP, Act.HANG)},
    "message b'250 2.0.0 tak' and the end": cut_off(b"250 2.0.0 tak"),
    **{f"message {act.name}": cut_off(act) for act in (Act.HANG, Act.DROP, Act.RESET, Act.FLOOD_WITH_A_LINE)},
    # silences
    **{
        f"{stage} {act.name}": Fault({stage: act}, WAITING, "timeout", SILENT, "", TLS, SOON)
        for stage, act in [*((stage, Act.HANG) for stage in STEPS), ("connect", Act.DRIBBLE), ("MAIL", Act.DRIBBLE)]
    },
}

CONNECTIONS = {"new": set[str](), "pipelining": ENVELOPE, "kept": ENVELOPE | {"message"}}
"""The kinds of a connection, and the stages at which it matters; a new one counts always."""

CASES = {
    f"{name}, {connection} connection": (fault, connection)
    for name, fault in FAULTS.items()
    for connection, stages in CONNECTIONS.items()
    if fault.replies.keys() & stages or not stages
    if not (connection == "pipelining" and "twice" in name)  # there the second reply may count for the next command
    if not (connection == "kept" and fault.environ is SOON)  # the first message must have its time
}


@pytest.mark.parametrize(("fault", "connection"), CASES.values(), ids=CASES)
def test_a_message_is_taken_once_or_kept_in_its_state_and_delivered_once_by_a_resend(
    make_mailer: MakeMailer,
    mail_dir: Path,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    fault: Fault,
    connection: str,
) -> None:
    caplog.set_level("DEBUG")
    is_kept = connection == "kept"
    server = SmtpServer({} if is_kept else fault.replies, pipelining=connection == "pipelining", **fault.options)
    state = (is_kept and fault.again) or fault.state
    noted: list[bool] = []
    failure: DeliveryError | None = None
    with nullcontext() if fault is FAULTS["no server"] else server:
        mailer = make_mailer(**server.environ | fault.environ)
        if is_kept:
            mailer.deliver(Message("<0@example.com>", CONTENT))
            server.connections[0].replies = fault.replies
        server.on_message = lambda: noted.append(kept(mail_dir)[0].is_doubtful)
        begun = time.perf_counter()
        if fault.environ is LATE:
            clock: Clock = request.getfixturevalue("clock")
            clock.skip_after(b"\r\n\r\n", 59.9)  # between header and body: no command has it
        try:
            mailer.deliver(Message("<1@example.com>", LARGE if fault.replies == {"content": Act.HANG} else CONTENT))
        except DeliveryError as error:
            failure = error
        seconds = time.perf_counter() - begun

    cause, left = failure and failure.__cause__, kept(mail_dir)
    sentence = failure_of(cause).sentence if isinstance(cause, Exception) else ""
    told = "" if state == TAKEN else fault.told
    assert_went(
        [f"the message is {state}", f"the operator is told: {told}"],
        [
            f"the message is {left[0].state if left else TAKEN}",
            f"the operator is told: {told if sentence.startswith(told) else sentence}",
        ],
    )
    assert seconds < MARGIN
    assert all(noted), "the content was sent before the doubt was noted"
    assert state == IN_DOUBT or len(server.taken) == is_kept + (state == TAKEN)
    assert len(server.connections) <= 1 + (is_kept and state != IN_DOUBT)
    assert not (fault.told.startswith((NOT_TRUSTED, NO_STARTTLS, NO_TLS)) and server.logins), "it knows the password"
    log = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("app"))
    assert not re.search(r"@(?!example\.com>)|ventas|correct horse", log)
    assert ("refused a recipient of <1@example.com> with 550" in log) == (NOBODY in fault.replies.values())
    if failure is None:
        assert left == []
        return
    (message,) = left
    assert failure.kept
    assert isinstance(cause, Exception)
    assert f"message <1@example.com> was not delivered: {failure_of(cause).logged}" in log
    assert ACCOUNT[1] not in sentence
    assert not fault.word or message.last_code == fault.word
    quoted = fault.told.partition(": ")[2]
    assert (quoted in log) == (fault.replies.keys() <= BEFORE_LOGIN) or not re.match(r"\d{3} ", quoted)
    with SmtpServer(port=server.port) as healthy, Spool(mail_dir).claim(message) as claim:
        assert claim
        make_mailer(healthy).redeliver(claim)
    assert (len(healthy.taken), kept(mail_dir)) == (1, [])


SECOND = {
    "refused for now, then for good": ("RCPT 450", "RCPT 550", REFUSED),
    "refused for good, then for now": ("RCPT 550", "RCPT 450", WAITING),
    # Whether the first attempt has delivered it is not known any better than before.
    "in doubt, then the server is down": ("message DROP", "no server", IN_DOUBT),
    "in doubt, then refused": ("message DROP", "message 451", IN_DOUBT),
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
    assert (left.state, left.attempts) == (state, 2)


def deliver_together(server: SmtpServer, mailer: Mailer, count: int) -> None:
    """Deliver so many messages at once, each over a connection of its own, and keep the connections."""
    server.replies = {"message": Act.HOLD}
    server.released.clear()
    with ThreadPoolExecutor(count) as pool:
        deliveries = [pool.submit(mailer.deliver, Message(f"<{n}@example.com>", CONTENT)) for n in range(count)]
        server.wait_until_hung(count)
        server.release()
    for delivery in deliveries:
        delivery.result()
    server.replies = {}


def said(connection: Connection) -> list[str]:
    return [command.upper().split()[0] for command in connection.commands]


BEGINNING = {"none": ["EHLO", "AUTH"], "starttls": ["EHLO", "STARTTLS", "EHLO", "AUTH"], "tls": ["EHLO", "AUTH"]}
CONTENTS = {
    "dots at the start of lines": b".\r\n..\r\n.x\r\n...\r\n",
    "a line like the end of the data": b"Hola\r\n.\r\nadios\r\n",
    "empty lines at the end": b"Hola\r\n\r\n\r\n",
    "a long message": b"0123456789abcdef\r\n" * 20_000,
    "the longest line": b"x" * 998 + b"\r\n",
}


@pytest.mark.parametrize("pipelining", [False, True], ids=["one by one", "pipelining"])
@pytest.mark.parametrize("security", BEGINNING)
def test_a_connection_serves_several_messages_in_few_segments_and_is_left_with_quit(
    make_mailer: MakeMailer, security: Security, *, pipelining: bool
) -> None:
    with SmtpServer(security=security, account=ACCOUNT, pipelining=pipelining) as server:
        mailer = make_mailer(server, **TWO)
        for content in CONTENTS.values():
            mailer.deliver(Message("<1@example.com>", content))
        mailer.close()

    (connection,) = server.connections
    arrival = Arrival("web@example.com", [VENTAS, OTRA], b"", security != "none", ACCOUNT[0])
    assert server.taken == [replace(arrival, content=content) for content in CONTENTS.values()]
    assert said(connection) == [*BEGINNING[security], *["MAIL", "RCPT", "RCPT", "DATA"] * len(CONTENTS), "QUIT"]
    commands = [b"MAIL FROM:<web@example.com>\r\n", *(b"RCPT TO:<%s>\r\n" % it.encode() for it in (VENTAS, OTRA))]
    commands = [b"".join([*commands, b"DATA\r\n"])] if pipelining else [*commands, b"DATA\r\n"]
    last = [*commands, CONTENTS["the longest line"] + b".\r\n", b"QUIT\r\n"]
    assert connection.segments[-len(last) :] == last


@pytest.mark.parametrize("security", ["none", "starttls"])
@pytest.mark.parametrize("farewell", [b"421 4.4.2 idle for too long\r\n", b""], ids=["421", "FIN"])
def test_a_connection_that_the_server_closed_while_idle_costs_nothing(
    make_mailer: MakeMailer, message: Message, farewell: bytes, security: Security
) -> None:
    with SmtpServer(security=security) as server:
        mailer = make_mailer(server)
        deliver_together(server, mailer, 2)
        for connection in server.connections:
            connection.end(farewell)
        mailer.deliver(message)

    assert len(server.arrivals) == len(server.taken) == len(server.connections) == 3


def test_messages_at_the_same_time_have_connections_of_their_own_which_are_left_when_nobody_needs_them(
    make_mailer: MakeMailer, message: Message, clock: Clock
) -> None:
    with SmtpServer(pipelining=True) as server:
        mailer = make_mailer(server)
        deliver_together(server, mailer, 3)
        deliver_together(server, mailer, 3)
        for _ in range(3):
            clock.passed += smtp.IDLE_SECONDS / 2
            mailer.deliver(message)

    assert (len(server.connections), len(server.taken)) == (3, 9)
    assert sorted(said(connection).count("QUIT") for connection in server.connections) == [0, 1, 1]


def test_a_tls_handshake_has_the_time_that_is_left(make_mailer: MakeMailer, message: Message, clock: Clock) -> None:
    class Slow(SmtpServer):
        def reply_to(self, stage: str) -> Act | None:
            if stage == "STARTTLS":
                time.sleep(0.1)  # until the client waits for the reply
                clock.passed += 59.9
            return Act.HANG if stage == "handshake" else None

    begun = time.perf_counter()
    with Slow(security="starttls") as server, pytest.raises(DeliveryError):
        make_mailer(server, **LATE).deliver(message)

    assert time.perf_counter() - begun < MARGIN


@pytest.mark.parametrize(
    "shares", [[20, 20, 20], [15, 11.25, *[8.4375] * 4]], ids=["three", "as many as providers have"]
)
def test_addresses_that_swallow_connections_leave_time_for_the_next(
    make_mailer: MakeMailer, message: Message, clock: Clock, monkeypatch: pytest.MonkeyPatch, shares: list[float]
) -> None:
    connect, given = socket.create_connection, []

    def connect_unless_swallowed(address: tuple[str, int], seconds: float) -> socket.socket:
        given.append(seconds)
        if address[0] == HOST:
            return connect(address, seconds)
        clock.passed += seconds
        raise TimeoutError

    with SmtpServer() as server, monkeypatch.context() as patch:
        patch.setattr(socket, "create_connection", connect_unless_swallowed)
        addresses = [(None, (host, server.port)) for host in ["192.0.2.1"] * (len(shares) - 1) + [HOST]]
        patch.setattr(Resolver, "addresses", lambda *_: addresses)
        make_mailer(server, **LATE).deliver(message)

    assert [arrival.content for arrival in server.taken] == [message.content]
    assert given == shares


BUSY_GREETING: dict[str, Any] = {"replies": {"connect": "421 4.3.2 too busy"}}
FIRST_ADDRESSES: dict[str, tuple[dict[str, Any] | None, Security]] = {
    "refuses the connection": (None, "none"),
    "greets with 421": (BUSY_GREETING, "starttls"),
    "greets with 421 within TLS": (BUSY_GREETING, "tls"),
    "greets with 554": ({"replies": {"connect": "554-5.3.2 no\r\n554 at all"}}, "none"),
    "greets with nonsense": ({"replies": {"connect": "HTTP/1.1 400"}}, "none"),
    "greets too late": ({"replies": {"connect": Act.DRIBBLE}}, "starttls"),
    "greets too late within TLS": ({"replies": {"connect": Act.DRIBBLE}}, "tls"),
    "says half of a greeting and leaves": ({"replies": {"connect": b"220-mail.exam"}}, "none"),
    "leaves": ({"replies": {"connect": Act.DROP}}, "none"),
    "begins no TLS": ({"replies": {"handshake": Act.DROP}}, "tls"),
    **{f"is not trusted ({it})": (NOT_OURS, it) for it in ("tls", "starttls")},
    "greets twice": ({"replies": {"connect": "220 mail.example.com\r\n421 4.3.2 closing"}}, "none"),
    **{
        f"{stage} {act}": ({"replies": {stage: act}}, "starttls")
        for stage, act in (
            ("EHLO", CLOSING),
            ("STARTTLS", "454 4.7.0 no"),
            ("second EHLO", Act.DROP),
            ("EHLO", Act.DRIBBLE),
        )
    },
}
"""What the server does at the first of two addresses, where there is one, and how the connection is secured."""


@pytest.fixture
def at_addresses(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives the mail server's name the addresses of these servers."""

    def give(*servers: SmtpServer) -> None:
        monkeypatch.setattr(Resolver, "addresses", lambda *_: [(None, (HOST, server.port)) for server in servers])

    return give


@pytest.mark.parametrize(("first", "security"), FIRST_ADDRESSES.values(), ids=FIRST_ADDRESSES)
def test_an_address_that_is_not_ready_for_the_login_gives_way_to_the_next(
    make_mailer: MakeMailer,
    message: Message,
    clock: Clock,
    at_addresses: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    first: dict[str, Any] | None,
    security: Security,
) -> None:
    class Other(SmtpServer):
        def reply_to(self, stage: str) -> str | bytes | Act | None:
            act = super().reply_to(stage)
            clock.passed += 30 if act is Act.DRIBBLE else 0  # its share
            return act

    other = Other(security=security, account=ACCOUNT, **first or {})
    with other if first else nullcontext(), SmtpServer(security=security, account=ACCOUNT) as server:
        at_addresses(other, server)
        mailer = make_mailer(server, **LATE)
        mailer.deliver(message)
        mailer.deliver(message)

    assert (len(server.taken), len(server.connections)) == (2, 1)
    assert (len(other.connections), other.logins, other.arrivals) == (bool(first), 0, [])
    warned = [record.getMessage().partition(": ")[0] for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["trying the server's next address after"] * bool(first)


@pytest.mark.parametrize(("security", "stage"), [("none", "connect"), ("tls", "handshake")])
def test_an_address_that_is_silent_gives_way_to_the_next(
    make_mailer: MakeMailer, message: Message, at_addresses: Callable[..., None], security: Security, stage: str
) -> None:
    with SmtpServer({stage: Act.HANG}, security=security) as silent, SmtpServer(security=security) as server:
        at_addresses(silent, server)
        make_mailer(server, SMTP_TIMEOUT="3").deliver(message)

    assert (len(silent.connections), len(server.taken)) == (1, 1)


def test_the_address_that_is_ready_has_all_the_time_that_is_left(
    make_mailer: MakeMailer, message: Message, clock: Clock, at_addresses: Callable[..., None]
) -> None:
    with SmtpServer() as server:
        at_addresses(server, server)
        clock.skip_after(b"MAIL", 40)
        make_mailer(server, **LATE).deliver(message)

    assert len(server.taken) == 1


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
def test_an_address_that_accepts_says_more_than_one_that_cannot_be_reached(
    make_mailer: MakeMailer, message: Message, at_addresses: Callable[..., None], *, is_first: bool
) -> None:
    nobody = SmtpServer()
    with SmtpServer(**BUSY_GREETING) as busy:
        at_addresses(*(busy, nobody) if is_first else (nobody, busy))
        mailer = make_mailer(busy)
        with pytest.raises(DeliveryError) as failure:
            mailer.deliver(message)

    assert isinstance(failure.value.__cause__, RefusedError)


HALF = {"SMTP_TIMEOUT": "0.5"}
"""Enough to connect on a busy machine: the likely cause is named from then on."""
PLAIN, IN_TLS = Fault({}), Fault({}, options={"security": "tls"})
TO_TLS, TO_STARTTLS = (
    f"port {port} usually needs SMTP_SECURITY={it}" for port, it in ((465, "tls"), (587, "starttls"))
)
PORTS: dict[str, tuple[int, Security, Fault, str]] = {
    "465: starttls, both wait": (465, "starttls", IN_TLS._replace(environ=HALF), TO_TLS),
    "465: none, both wait": (465, "none", IN_TLS._replace(environ=HALF), TO_TLS),
    "465: starttls, the server ends": (465, "starttls", Fault({"connect": Act.DROP}), TO_TLS),
    "465: starttls, but the server greets": (465, "starttls", PLAIN, ""),
    "465: starttls, but the server greets with 421": (465, "starttls", Fault(BUSY_GREETING["replies"]), ""),
    "465: tls, the server ends": (465, "tls", Fault({"connect": Act.DROP}), ""),
    "587: tls, the server greets at once": (587, "tls", PLAIN, TO_STARTTLS),
    "587: tls, the server greets at once with 554": (587, "tls", Fault({"connect": "554 5.3.2 no"}), TO_STARTTLS),
    "587: tls, the server greets late": (587, "tls", Fault({"connect": Act.HANG}, environ=HALF), TO_STARTTLS),
    "587: tls, the server ends": (587, "tls", Fault({"connect": Act.DROP}), TO_STARTTLS),
    "587: tls, but the certificate is wrong": (587, "tls", IN_TLS._replace(options=IN_TLS.options | NOT_OURS), ""),
    "465: starttls, the server greets with nonsense": (465, "starttls", Fault({"connect": "\x15\x03\x03"}), TO_TLS),
    "587: tls, but the server ends within TLS": (587, "tls", IN_TLS._replace(replies={"connect": Act.DROP}), ""),
    "587: none, the server ends": (587, "none", Fault({"connect": Act.DROP}), ""),
    "587: starttls, the server ends": (587, "starttls", Fault({"connect": Act.DROP}), ""),
    "2525: tls, the server greets at once": (2525, "tls", PLAIN, ""),
}
"""The port and the security that are set, what the server does, and the likely cause that the operator is told."""


@pytest.mark.parametrize(("port", "security", "fault", "cause"), PORTS.values(), ids=PORTS)
def test_the_log_and_mail_test_name_the_likely_cause_when_the_security_does_not_fit_the_port(
    make_mailer: MakeMailer,
    mail: MailCommand,
    at_addresses: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    port: int,
    security: Security,
    fault: Fault,
    cause: str,
) -> None:
    with SmtpServer(fault.replies, **fault.options) as server:
        at_addresses(server)
        environ = {"SMTP_PORT": str(port), "SMTP_SECURITY": security} | fault.environ
        sender = make_mailer(server, **environ).sender
        assert sender
        Check("server", sender.check).run()
        result = mail("test", server=server, **environ)

    (logged,) = caplog.messages
    assert logged.startswith("the mail check fails: server=fail (")
    assert (result.exit_code, result.output[:7]) == (1, "Error: ")
    told = [said.strip(")\n").partition("; ")[2] for said in (logged, result.output)]
    assert told == [cause, cause]


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_a_server_that_is_not_ours_takes_a_login_and_a_message(
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
    mailer = make_mailer(ours)
    mailer.deliver(message)
    mailer.close()
    wait_until(lambda: not asyncio.all_tasks(controller.loop))  # else the connection would not be closed
    controller.stop()

    assert arrivals == [("web@example.com", [VENTAS], message.content, True)]


def test_what_the_server_said_does_not_get_into_a_log_with_the_failure() -> None:
    assert "ana@example.com" not in repr(failure_of(RefusedError(Step.RCPT, (550, b"unknown: ana@example.com"))))
