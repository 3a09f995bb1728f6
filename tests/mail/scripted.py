"""An SMTP server that does at each step what a test says, down to single bytes and segments."""

from __future__ import annotations

import ssl
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
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
from typing import Self

import trustme

from tests.mail.server import HOST, Security, tls_of
from tests.ports import reserve_port

SECONDS_PER_BYTE = 0.1
LONG_REPLY = b"250 " + b"x" * 400 + b"\r\n"
"""It takes 40 seconds at that pace, which no test's deadline allows."""

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


Script = Mapping[str, str | Act]


class _Gone(Exception):  # noqa: N818 - it ends a connection as planned
    """The connection is over."""


class ScriptedServer:
    """Listens from ``with`` on, under the same port each time it is entered again.

    The script maps a stage to a reply or an Act; what it does not mention goes well. The stages are connect, EHLO,
    STARTTLS, handshake, second EHLO (inside TLS), AUTH (or AUTH PLAIN), MAIL, RCPT, DATA, content (the middle of it),
    message (its end) and NOOP. A new script counts for the connections that come after.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        security: Security = "none",
        auth: bool = False,
        pipelining: bool = False,
        certificate: trustme.LeafCert | None = None,
        seconds_per_reply: float = 0,
        port: int = 0,
    ) -> None:
        self.script: Script = script or {}
        self.security = security
        self.auth = auth
        self.pipelining = pipelining
        self.seconds_per_reply = seconds_per_reply
        self.port = port
        self.connections: list[Connection] = []
        self.received: list[bytes] = []
        """The messages of which the end came, whatever was answered."""
        self.taken: list[bytes] = []
        """The messages that were answered with 250."""
        self.hung = threading.Semaphore(0)
        """Released once for each connection that begins to hang."""
        self.released = threading.Event()
        self.tls = tls_of(certificate)

    @property
    def environ(self) -> dict[str, str]:
        """The settings under which the service reaches this server."""
        return {
            "SMTP_HOST": HOST,
            "SMTP_PORT": str(self.port),
            "SMTP_SECURITY": self.security,
            "SMTP_USERNAME": "web" if self.auth else "",
            "SMTP_PASSWORD": "correct horse" if self.auth else "",
            "SALES_EMAIL": "ventas@example.com",
            "MAIL_FROM": "web@example.com",
        }

    def __enter__(self) -> Self:
        self.released.clear()
        self._stopping = False
        self.port = self.port or reserve_port(self)
        self._listener = create_server((HOST, self.port))
        self._thread = threading.Thread(target=self._accept, name="scripted-server")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self.released.set()
        create_connection((HOST, self.port)).close()
        self._thread.join()
        self._listener.close()
        for connection in self.connections:
            connection.end()

    def wait_until_hung(self, connections: int = 1) -> None:
        for _ in range(connections):
            assert self.hung.acquire(timeout=20), "no client has come as far as the stage that hangs"

    def _accept(self) -> None:
        while True:
            accepted, _ = self._listener.accept()
            if self._stopping:
                accepted.close()
                return
            connection = Connection(self, accepted)
            self.connections.append(connection)
            connection.begin()


class Connection:
    """One client's, served by a thread of its own."""

    def __init__(self, server: ScriptedServer, accepted: socket) -> None:
        self.script = server.script
        self.commands: list[str] = []
        self.segments: list[bytes] = []
        """What each read brought."""
        self.round_trips = 0
        """How often the client began to speak after the server had spoken."""
        self.flooded = 0
        """How many octets of a reply without end the client has let the server send."""
        self._server = server
        self._socket = accepted
        self._socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._buffer = b""
        self._server_spoke_last = False
        self._has_recipient = False
        self._encrypted = False
        self._farewell = b""
        self._reset = False
        self._thread = threading.Thread(target=self._serve, name="scripted-connection")

    def begin(self) -> None:
        self._thread.start()

    def end(self, farewell: bytes = b"", *, reset: bool = False) -> None:
        """Close the connection from the server's side; it is closed when this returns."""
        self._farewell, self._reset = farewell, self._reset or reset
        with suppress(OSError):
            socket.shutdown(self._socket, SHUT_RD)  # wakes the thread, and leaves TLS alone
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
            self._socket.sendall(self._farewell)
        if self._reset:
            self._socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _obey(self, command: str) -> None:
        self.commands.append(command)
        match command.upper().split()[0]:
            case "EHLO":
                self._answer("second EHLO" if self._encrypted else "EHLO", self._extensions())
            case "STARTTLS":
                self._answer("STARTTLS", "220 2.0.0 go ahead")
                self._encrypt()
            case "AUTH":
                mechanism = f"AUTH {command.split()[1]}"
                self._answer(mechanism if mechanism in self.script else "AUTH", "235 2.7.0 welcome")
            case "MAIL":
                self._has_recipient = False
                self._answer("MAIL", "250 2.1.0 OK")
            case "RCPT":
                self._has_recipient |= self._answer("RCPT", "250 2.1.5 OK").startswith("250")
            case "DATA":
                usual = "354 go ahead" if self._has_recipient else "503 5.5.1 no valid recipient"
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
        names = ["mail.example.com", "8BITMIME"]
        if self._server.pipelining:
            names.append("PIPELINING")
        if self._server.security == "starttls" and not self._encrypted:
            names.append("STARTTLS")
        elif self._server.auth:
            names.append("AUTH PLAIN")
        return "\r\n".join([*(f"250-{name}" for name in names[:-1]), f"250 {names[-1]}"])

    def _take_message(self) -> None:
        content = b""
        while (line := self._read_line()) != b".":
            if not content and "content" in self.script:
                self._act("content", "")
            content += line.removeprefix(b".") + b"\r\n"
        self._server.received.append(content)
        reply = self._act("message", "250 2.0.0 taken")
        if reply.startswith("250"):
            self._server.taken.append(content)
        self._say(reply)

    def _answer(self, stage: str, usual: str) -> str:
        reply = self._act(stage, usual)
        self._say(reply)
        return reply

    def _act(self, stage: str, usual: str) -> str:
        """Do what the script says for the stage; returns the reply if there is to be one."""
        act = self.script.get(stage, usual)
        if act in {Act.HANG, Act.HOLD}:
            self._server.hung.release()
            self._server.released.wait()
            act = usual if act is Act.HOLD else Act.DROP
        if act is Act.SPEAK_AGAIN:
            self._say(usual)
            self._server.hung.release()
            self._server.released.wait()
            act = "250 2.0.0 stale"
        if act is Act.DRIBBLE:
            self._dribble(LONG_REPLY)
        if act in _FLOODS:
            self._flood(_FLOODS[act])
        if isinstance(act, Act):
            self._reset = act is Act.RESET
            raise _Gone
        return act

    def _say(self, reply: str) -> None:
        if self._server.seconds_per_reply:
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
        if self._server.released.wait(seconds):
            raise _Gone

    def _read_line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            data = self._socket.recv(65_536)
            if not data:
                raise _Gone
            self.round_trips += self._server_spoke_last
            self._server_spoke_last = False
            self.segments.append(data)
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _encrypt(self) -> None:
        act = self.script.get("handshake")
        if act is Act.DRIBBLE:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            incoming.write(self._socket.recv(65_536))
            with suppress(ssl.SSLWantReadError):
                self._server.tls.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
            self._dribble(outgoing.read())
        if act is not None:
            self._act("handshake", "")
        self._socket = self._server.tls.wrap_socket(self._socket, server_side=True)
        self._encrypted = True
