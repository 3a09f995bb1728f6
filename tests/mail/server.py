"""An SMTP server on loopback that keeps what arrives and does at each step what a test says, down to single bytes."""

from __future__ import annotations

import base64
import email
import email.policy
import functools
import re
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from enum import Enum
from socket import (
    IPPROTO_TCP,
    SHUT_RD,
    SHUT_WR,
    SO_LINGER,
    SO_SNDBUF,
    SOL_SOCKET,
    TCP_NODELAY,
    create_connection,
    create_server,
    socket,
)
from types import TracebackType
from typing import Literal, Self

import trustme

from tests.ports import reserve_port

Security = Literal["none", "starttls", "tls"]

HOST = "127.0.0.1"
ACCOUNT = ("web", "correct horse")
SECONDS_PER_BYTE = 0.01
LONG_REPLY = b"250 " + b"x" * 4200 + b"\r\n"
"""It takes 42 seconds at that pace, which no test's deadline allows."""

FLOOD = 8 * 1024 * 1024
"""Octets of a reply without end after which the server gives up: the client reads on for ever."""


class Act(Enum):
    """What a server can do in place of a reply."""

    HANG = "hangs until it is released, then drops the connection"
    HOLD = "hangs until it is released, then answers as usual"
    DROP = "ends the connection with a FIN"
    RESET = "ends the connection with an RST"
    DRIBBLE = "sends a long reply, or its part of the TLS handshake, byte by byte"
    FLOOD_WITH_LINES = "sends lines of a reply without end"
    FLOOD_WITH_A_LINE = "sends a line without end"
    SPEAK_AGAIN = "answers as usual, hangs until it is released, and answers once more"


_FLOODS = {Act.FLOOD_WITH_LINES: b"250-x\r\n" * 2048, Act.FLOOD_WITH_A_LINE: b"x" * 16_384}

Replies = Mapping[str, str | Act]


@functools.cache
def authority() -> trustme.CA:
    """The authority of the session, which certifies every server that is not given another certificate."""
    return trustme.CA()


@functools.cache
def tls_of(certificate: trustme.LeafCert | None) -> ssl.SSLContext:
    """The server's side of TLS. All servers without a certificate of their own share one: it takes long to make."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (certificate or authority().issue_cert(HOST)).configure_cert(context)
    return context


@dataclass(frozen=True)
class Arrival:
    """A message of which the end came, whatever was answered."""

    sender: str
    recipients: list[str]
    content: bytes
    encrypted: bool = False
    username: str | None = None


def parse(arrival: Arrival) -> EmailMessage:
    return email.message_from_bytes(arrival.content, policy=email.policy.default)


def text_of(arrival: Arrival, subtype: str = "plain") -> str:
    part = parse(arrival).get_body((subtype,))
    assert isinstance(part, EmailMessage)
    return str(part.get_content()).replace("\r\n", "\n")


class _Gone(Exception):  # noqa: N818 - it ends a connection as planned
    """The connection is over."""


class SmtpServer:
    """Listens from ``with`` on; its port is its own before and after that, too.

    ``replies`` maps a stage to a reply or an Act; what it does not mention goes well. The stages are connect, EHLO,
    STARTTLS, handshake, second EHLO (inside TLS), AUTH (or AUTH PLAIN), MAIL, RCPT (or a recipient's address), DATA,
    content (the middle of it), message (its end) and NOOP. ``account`` must log in when it is given. ``on_message``
    runs before a message is answered.
    """

    def __init__(
        self,
        replies: Replies | None = None,
        *,
        security: Security = "none",
        account: tuple[str, str] | None = None,
        pipelining: bool = False,
        certificate: trustme.LeafCert | None = None,
        on_message: Callable[[], None] = lambda: None,
        seconds_per_reply: float = 0,
        port: int = 0,
    ) -> None:
        self.replies: Replies = replies or {}
        self.security = security
        self.account = account
        self.pipelining = pipelining
        self.on_message = on_message
        self.seconds_per_reply = seconds_per_reply
        self.port = port or reserve_port(self)
        self.connections: list[Connection] = []
        self.arrivals: list[Arrival] = []
        self.taken: list[Arrival] = []
        """Those of the arrivals that were answered with 250; what was not answered is in neither list."""
        self.refused: list[Arrival] = []
        self.tls = tls_of(certificate)
        self.hung = threading.Semaphore(0)
        """Released once for each connection that begins to hang."""
        self.is_released = False
        self._is_stopping = False

    @property
    def environ(self) -> dict[str, str]:
        """The settings under which the service reaches this server."""
        username, password = self.account or ("", "")
        return {
            "SMTP_HOST": HOST,
            "SMTP_PORT": str(self.port),
            "SMTP_SECURITY": self.security,
            "SMTP_USERNAME": username,
            "SMTP_PASSWORD": password,
            "SALES_EMAIL": "ventas@example.com",
            "MAIL_FROM": "web@example.com",
        }

    @property
    def logins(self) -> int:
        """How often clients tried to log in."""
        return sum(command.startswith("AUTH") for connection in self.connections for command in connection.commands)

    def __enter__(self) -> Self:
        self._is_stopping = self.is_released = False
        self._listener = create_server((HOST, self.port), backlog=128)
        self._thread = threading.Thread(target=self._accept, name="smtp-server")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_stopping = True
        create_connection((HOST, self.port)).close()
        self._thread.join()
        self._listener.close()
        self.disconnect()

    def reply_to(self, stage: str) -> str | Act | None:
        """What the server does at a stage; None when it does the usual."""
        return self.replies.get(stage)

    def connected(self) -> int:
        """How many connections are open."""
        return sum(connection.is_open for connection in self.connections)

    def disconnect(self, farewell: bytes = b"") -> None:
        """Close every open connection, after a last line if there is one."""
        for connection in list(self.connections):
            connection.end(farewell)

    def release(self) -> None:
        """Let the connections that hang go on; from now on none hangs."""
        self.is_released = True
        for connection in self.connections:
            connection.released.set()

    def wait_until_hung(self, connections: int = 1) -> None:
        for _ in range(connections):
            assert self.hung.acquire(timeout=20), "no client has come as far as the stage that hangs"

    def _accept(self) -> None:
        while True:
            accepted, _ = self._listener.accept()
            if self._is_stopping:
                accepted.close()
                return
            connection = Connection(self, accepted)
            self.connections.append(connection)
            connection.begin()


class Connection:
    """One client's, served by a thread of its own. Replies of its own take the place of the server's."""

    def __init__(self, server: SmtpServer, accepted: socket) -> None:
        self.replies: Replies | None = None
        self.commands: list[str] = []
        self.segments: list[bytes] = []
        """What each read brought."""
        self.round_trips = 0
        """How often the client began to speak after the server had spoken."""
        self.flooded = 0
        """How many octets of a reply without end the client has let the server send."""
        self.farewell = b""
        """What is sent last, however the connection ends."""
        self.released = threading.Event()
        self.is_open = True
        self._server = server
        self._socket = accepted
        self._socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._server_spoke_last = False
        self._sender = ""
        self._recipients: list[str] = []
        self._username: str | None = None
        self._is_encrypted = False
        self._reset = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="smtp-connection")

    def begin(self) -> None:
        self._thread.start()

    def end(self, farewell: bytes = b"", *, reset: bool = False) -> None:
        """Close the connection from the server's side; it is closed when this returns."""
        self.farewell, self._reset = farewell or self.farewell, self._reset or reset
        self._ended.set()
        self.released.set()
        with suppress(OSError):
            socket.shutdown(self._socket, SHUT_RD)  # wakes the thread, and leaves TLS alone
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def say_no_more(self, farewell: bytes = b"") -> None:
        """End the server's side of the connection and go on listening; a farewell does not go through TLS."""
        socket.sendall(self._socket, farewell)
        socket.shutdown(self._socket, SHUT_WR)

    def _serve(self) -> None:
        with suppress(_Gone, OSError):
            if self._server.security == "tls":
                self._encrypt()
            self._answer("connect", "220 mail.example.com ESMTP")
            while True:
                self._obey(self._read_line().decode())
        with suppress(OSError):
            self._socket.sendall(self.farewell)
        if self._reset:
            self._socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()
        self.is_open = False

    def _obey(self, command: str) -> None:  # noqa: C901 - a case for each command
        self.commands.append(command)
        address = "".join(re.findall("<(.*?)>", command))
        match command.upper().split()[0]:
            case "EHLO":
                self._answer("second EHLO" if self._is_encrypted else "EHLO", self._extensions())
            case "STARTTLS":
                self._answer("STARTTLS", "220 2.0.0 go ahead")
                self._encrypt()
            case "AUTH":
                self._log_in(*command.split()[1:])
            case "MAIL":
                self._sender, self._recipients = address, []
                self._answer("MAIL", "250 2.1.0 OK" if self._may_send() else "530 5.7.0 Log in first")
            case "RCPT":
                stage = address if self._act_at(address) else "RCPT"
                if self._answer(stage, "250 2.1.5 OK").startswith("25"):
                    self._recipients.append(address)
            case "DATA":
                usual = "354 go ahead" if self._recipients else "503 5.5.1 no valid recipient"
                if self._answer("DATA", usual).startswith("354"):
                    self._take_message()
            case "NOOP":
                self._answer("NOOP", "250 2.0.0 OK")
            case "QUIT":
                self._say("221 2.0.0 bye")
                raise _Gone
            case _:
                self._say("501 5.7.0 cancelled" if command == "*" else "250 2.0.0 OK")

    def _extensions(self) -> str:
        names = ["mail.example.com", "8BITMIME", *["PIPELINING"] * self._server.pipelining]
        if self._server.security == "starttls" and not self._is_encrypted:
            names.append("STARTTLS")
        elif self._server.account:
            names.append("AUTH PLAIN")
        return "\r\n".join([*(f"250-{name}" for name in names[:-1]), f"250 {names[-1]}"])

    def _log_in(self, mechanism: str, response: str = "") -> None:
        stage = f"AUTH {mechanism}"
        login = base64.b64decode(response).decode().split("\0")[1:] if mechanism == "PLAIN" else []
        usual = "235 2.7.0 welcome" if tuple(login) == self._server.account else "535 5.7.8 Wrong credentials"
        if self._answer(stage if self._act_at(stage) else "AUTH", usual).startswith("235"):
            self._username = login[0]

    def _may_send(self) -> bool:
        server = self._server
        return (server.security == "none" or self._is_encrypted) and (not server.account or self._username is not None)

    def _take_message(self) -> None:
        lines: list[bytes] = []
        while (line := self._read_line()) != b".":
            if not lines and self._act_at("content"):
                self._act("content", "")
            lines.append(line.removeprefix(b".") + b"\r\n")
        arrival = Arrival(self._sender, self._recipients, b"".join(lines), self._is_encrypted, self._username)
        self._server.arrivals.append(arrival)
        self._server.on_message()
        reply = self._act("message", "250 2.0.0 taken")
        (self._server.taken if reply.startswith("250") else self._server.refused).append(arrival)
        self._say(reply)

    def _act_at(self, stage: str) -> str | Act | None:
        return self._server.reply_to(stage) if self.replies is None else self.replies.get(stage)

    def _answer(self, stage: str, usual: str) -> str:
        reply = self._act(stage, usual)
        self._say(reply)
        return reply

    def _act(self, stage: str, usual: str) -> str:
        """Do what the replies say for the stage; returns the reply if there is to be one."""
        act = self._act_at(stage) or usual
        if act in {Act.HANG, Act.HOLD}:
            self._wait_for_release()
            act = usual if act is Act.HOLD else Act.DROP
        if act is Act.SPEAK_AGAIN:
            self._say(usual)
            self._wait_for_release()
            act = "250 2.0.0 stale"
        if act is Act.DRIBBLE:
            self._dribble(LONG_REPLY)
        if act in _FLOODS:
            self._flood(_FLOODS[act])
        if isinstance(act, Act):
            self._reset = act is Act.RESET
            raise _Gone
        return act

    def _wait_for_release(self) -> None:
        self.released.clear()
        if not self._ended.is_set() and not self._server.is_released:
            self._server.hung.release()
            self.released.wait()

    def _say(self, reply: str) -> None:
        self._pause(self._server.seconds_per_reply)
        self._server_spoke_last = True
        self._socket.sendall(reply.encode(errors="surrogateescape") + b"\r\n")
        if reply.startswith("421"):  # RFC 5321, section 3.8
            raise _Gone

    def _dribble(self, data: bytes) -> None:
        for byte in data:
            self._socket.sendall(bytes([byte]))
            self._pause(SECONDS_PER_BYTE)

    def _flood(self, data: bytes) -> None:
        self._socket.setsockopt(SOL_SOCKET, SO_SNDBUF, len(data))
        while self.flooded < FLOOD:
            self._socket.sendall(data)
            self.flooded += len(data)

    def _pause(self, seconds: float) -> None:
        if self._ended.wait(seconds):
            raise _Gone

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            data = self._socket.recv(65_536)
            if not data:
                raise _Gone
            self.round_trips += self._server_spoke_last
            self._server_spoke_last = False
            self.segments.append(data)
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _encrypt(self) -> None:
        act = self._act_at("handshake")
        if act is Act.DRIBBLE:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            incoming.write(self._socket.recv(65_536))
            with suppress(ssl.SSLWantReadError):
                self._server.tls.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
            self._dribble(outgoing.read())
        if act is not None:
            self._act("handshake", "")
        self._socket = self._server.tls.wrap_socket(self._socket, server_side=True)
        self._is_encrypted = True
