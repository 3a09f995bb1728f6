"""An SMTP server on loopback that keeps what arrives and does at each step what a test says."""

import base64
import functools
import re
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from email.message import EmailMessage
from enum import Enum
from socket import IPPROTO_TCP, SHUT_RD, SO_LINGER, SOL_SOCKET, TCP_NODELAY, create_connection, create_server, socket
from typing import Literal, Self

import trustme

from tests import messages
from tests.ports import reserve_port

Security = Literal["none", "starttls", "tls"]

HOST = "127.0.0.1"
ACCOUNT = ("web", "correct horse")


class Act(Enum):
    """What a server can do in place of a reply."""

    HANG = "hangs until it is released, then drops the connection"
    HOLD = "hangs until it is released, then answers as usual"
    DROP = "ends the connection with a FIN"
    RESET = "ends the connection with an RST"
    DRIBBLE = "sends a long line byte by byte"
    FLOOD_WITH_A_LINE = "sends a line of eight million characters"


Replies = Mapping[str, str | bytes | Act]
"""What is done at each stage; after bytes, the connection ends."""


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
    return messages.parse(arrival.content)


def text_of(arrival: Arrival, subtype: str = "plain") -> str:
    return messages.body_of(parse(arrival), subtype)


@dataclass(eq=False)
class SmtpServer:
    """Listens from ``with`` on; its port is its own before and after that, too.

    What ``replies`` does not mention goes well. The stages are connect, EHLO, STARTTLS, handshake, second EHLO (inside
    TLS), AUTH (or AUTH PLAIN), MAIL, RCPT (or a recipient's address), DATA, content (the middle of it), message (its
    end, of all messages or of those to a recipient: message to ADDRESS) and NOOP. ``account`` is the one that may log
    in. ``on_message`` runs before a message is answered.
    """

    replies: Replies = field(default_factory=dict)
    _: KW_ONLY
    security: Security = "none"
    account: tuple[str, str] | None = None
    pipelining: bool = False
    certificate: trustme.LeafCert | None = None
    on_message: Callable[[], None] = lambda: None
    seconds_per_reply: float = 0
    port: int = 0

    def __post_init__(self) -> None:
        self.port = self.port or reserve_port(self)
        self.tls = tls_of(self.certificate)
        self.connections: list[Connection] = []
        self.arrivals: list[Arrival] = []
        self.taken: list[Arrival] = []
        """Those of the arrivals that were answered with 250."""
        self.hung = threading.Semaphore(0)
        """Released once for each connection that begins to hang."""
        self.released = threading.Event()
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
        self._is_stopping = False
        self.released.clear()
        self._listener = create_server((HOST, self.port), backlog=128)
        self._thread = threading.Thread(target=self._accept, name="smtp-server")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        create_connection((HOST, self.port)).close()
        self._thread.join()
        self._listener.close()
        self.release()
        self.disconnect()

    def reply_to(self, stage: str) -> str | bytes | Act | None:
        """What the server does at a stage; None when it does the usual."""
        return self.replies.get(stage)

    def disconnect(self) -> None:
        """Close every open connection."""
        for connection in list(self.connections):
            connection.end()

    def release(self) -> None:
        """Let the connections that hang go on; from now on none hangs."""
        self.released.set()

    def wait_until_hung(self, connections: int = 1) -> None:
        for _ in range(connections):
            assert self.hung.acquire(timeout=20), "no client has come as far as the stage that hangs"

    def _accept(self) -> None:
        while True:
            accepted, _ = self._listener.accept()
            if self._is_stopping:
                accepted.close()
                return
            self.connections.append(Connection(self, accepted))
            self.connections[-1].thread.start()


class Connection:
    """One client's, served by a thread of its own. Replies of its own take the place of the server's."""

    def __init__(self, server: SmtpServer, accepted: socket) -> None:
        self.replies: Replies | None = None
        self.commands: list[str] = []
        self.segments: list[bytes] = []
        """What each read brought."""
        self.thread = threading.Thread(target=self._serve, name="smtp-connection")
        self._server = server
        self._socket = accepted
        self._socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        self._lines = self._read_lines()
        self._sender = ""
        self._recipients: list[str] = []
        self._username: str | None = None
        self._is_encrypted = False
        self._farewell = b""
        self._reset = False

    def end(self, farewell: bytes = b"") -> None:
        """Close the connection from the server's side; it is closed when this returns."""
        self._farewell = farewell
        with suppress(OSError):
            socket.shutdown(self._socket, SHUT_RD)  # wakes the thread, and leaves TLS alone
        if threading.current_thread() is not self.thread:
            self.thread.join()

    def _serve(self) -> None:
        with suppress(OSError, StopIteration):
            if self._server.security == "tls":
                self._encrypt()
            self._answer("220 mail.example.com ESMTP", "connect")
            while True:
                # A client that begins TLS here sends random bytes, which may have the end of a line in them.
                self._obey(next(self._lines).decode(errors="replace"))
        with suppress(OSError):
            self._socket.sendall(self._farewell)
        if self._reset:
            self._socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _read_lines(self) -> Iterator[bytes]:
        rest = b""
        while data := self._socket.recv(65_536):
            self.segments.append(data)
            *lines, rest = (rest + data).split(b"\r\n")
            yield from lines

    def _obey(self, command: str) -> None:
        self.commands.append(command)
        address = "".join(re.findall("<(.*?)>", command))
        match command.upper().partition(" ")[0]:
            case "EHLO":
                self._answer(self._extensions(), "second EHLO" if self._is_encrypted else "EHLO")
            case "STARTTLS":
                self._answer("220 2.0.0 go ahead", "STARTTLS")
                self._encrypt()
            case "AUTH":
                self._log_in(*command.split()[1:])
            case "MAIL":
                self._sender, self._recipients = address, []
                self._answer("250 2.1.0 OK", "MAIL")
            case "RCPT":
                if self._answer("250 2.1.5 OK", address, "RCPT").startswith("25"):
                    self._recipients.append(address)
            case "DATA":
                usual = "354 go ahead" if self._recipients else "503 5.5.1 no valid recipient"
                if self._answer(usual, "DATA").startswith("354"):
                    self._take_message()
            case "QUIT":
                self._answer("221 2.0.0 bye", "QUIT")
                raise ConnectionAbortedError
            case other:
                self._answer("501 5.7.0 cancelled" if command == "*" else "250 2.0.0 OK", other)

    def _extensions(self) -> str:
        names = ["mail.example.com", "8BITMIME", *["PIPELINING"] * self._server.pipelining]
        if self._server.security == "starttls" and not self._is_encrypted:
            names.append("STARTTLS")
        elif self._server.account:
            names.append("AUTH PLAIN")
        return "\r\n".join([*(f"250-{name}" for name in names[:-1]), f"250 {names[-1]}"])

    def _log_in(self, mechanism: str, response: str = "") -> None:
        login = base64.b64decode(response).decode().split("\0")[1:] if mechanism == "PLAIN" else []
        if mechanism == "LOGIN" and not self._server.reply_to("AUTH LOGIN"):
            login = [self._ask("Username:"), self._ask("Password:")]  # it ignores a name that came too early
        usual = "235 2.7.0 welcome" if tuple(login) == self._server.account else "535 5.7.8 Wrong credentials"
        if self._answer(usual, f"AUTH {mechanism}", "AUTH").startswith("235"):
            self._username = login[0]

    def _ask(self, question: str) -> str:
        self._say(f"334 {base64.b64encode(question.encode()).decode()}")
        return base64.b64decode(next(self._lines)).decode()

    def _take_message(self) -> None:
        lines: list[bytes] = []
        while (line := next(self._lines)) != b".":
            if not lines:
                self._act("", "content")
            lines.append(line.removeprefix(b".") + b"\r\n")
        arrival = Arrival(self._sender, self._recipients, b"".join(lines), self._is_encrypted, self._username)
        self._server.arrivals.append(arrival)
        self._server.on_message()
        reply = self._act("250 2.0.0 taken", *(f"message to {each}" for each in self._recipients), "message")
        if reply.startswith("250"):
            self._server.taken.append(arrival)
        self._say(reply)

    def _answer(self, usual: str, *stages: str) -> str:
        reply = self._act(usual, *stages)
        self._say(reply)
        return reply

    def _act(self, usual: str, *stages: str) -> str:
        """Do what the replies say for the first of the stages that they mention; returns the reply to be sent."""
        reply_to = self._server.reply_to if self.replies is None else self.replies.get
        act = next(filter(None, map(reply_to, stages)), usual)
        if act in {Act.HANG, Act.HOLD} and not self._server.released.is_set():
            self._server.hung.release()
            self._server.released.wait()
        if act is Act.HOLD:
            return usual
        if act is Act.DRIBBLE:
            for _ in range(4_200):  # 42 seconds, which no test's deadline allows
                self._socket.sendall(b"x")
                if self._server.released.wait(0.01):
                    break
        if act is Act.FLOOD_WITH_A_LINE:
            return "x" * 2**23
        if isinstance(act, str):
            return act
        self._reset = act is Act.RESET
        self._farewell = act if isinstance(act, bytes) else b""
        raise ConnectionAbortedError

    def _say(self, reply: str) -> None:
        self._server.released.wait(self._server.seconds_per_reply)
        self._socket.sendall(reply.encode(errors="surrogateescape") + b"\r\n")
        if reply.startswith("421"):  # RFC 5321, section 3.8
            raise ConnectionAbortedError

    def _encrypt(self) -> None:
        self._act("", "handshake")
        self._socket = self._server.tls.wrap_socket(self._socket, server_side=True)
        self._is_encrypted = True
