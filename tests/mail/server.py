"""A real SMTP server on loopback that keeps what arrives and misbehaves as a test asks."""

from __future__ import annotations

import asyncio
import email
import email.policy
import functools
import socket
import ssl
import threading
from asyncio import BaseTransport
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from types import TracebackType
from typing import AnyStr, Literal, Self

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.ports import reserve_port

Security = Literal["none", "starttls", "tls"]

HOST = "127.0.0.1"
HANG = "hang"
"""A reply that never comes."""
DROP = "drop"
"""The connection is closed in place of a reply."""


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
    """A message as the server received it, whatever it answered."""

    sender: str | None
    recipients: list[str]
    content: bytes
    encrypted: bool
    username: str | None


def parse(arrival: Arrival) -> EmailMessage:
    return email.message_from_bytes(arrival.content, policy=email.policy.default)


def text_of(arrival: Arrival, subtype: str = "plain") -> str:
    part = parse(arrival).get_body((subtype,))
    assert isinstance(part, EmailMessage)
    return str(part.get_content()).replace("\r\n", "\n")


class SmtpServer:
    """Listens from ``with`` on, under the same port each time it is entered again.

    ``replies`` maps a stage (connect, EHLO, MAIL, RCPT, DATA, message for the end of the data, NOOP) or a recipient's
    address to a reply line, HANG or DROP. ``credentials`` are required of the client when given. ``on_message`` runs
    before a message is answered. ``seconds_per_byte`` is how slowly the server speaks.
    """

    def __init__(
        self,
        security: Security = "none",
        *,
        credentials: tuple[str, str] | None = None,
        certificate: trustme.LeafCert | None = None,
        smtputf8: bool = False,
        pipelining: bool = False,
        replies: Mapping[str, str] | None = None,
        on_message: Callable[[], None] = lambda: None,
        seconds_per_byte: float = 0,
    ) -> None:
        self.security = security
        self.credentials = credentials
        self.smtputf8 = smtputf8
        self.pipelining = pipelining
        self.replies = dict(replies or {})
        self.on_message = on_message
        self.seconds_per_byte = seconds_per_byte
        self.port = 0
        self.arrivals: list[Arrival] = []
        self.refused: list[Arrival] = []
        """Those of the arrivals that were not answered with 250."""
        self.logins: list[bytes] = []
        """The names under which clients tried to log in."""
        self.connected: set[_Protocol] = set()
        self.most_connected = 0
        """How many connections were open at once, at most."""
        self.hung = threading.Event()
        """Set once a client waits for a reply that never comes."""
        self._tls = None if security == "none" else tls_of(certificate)

    @property
    def environ(self) -> dict[str, str]:
        """The settings under which the service reaches this server."""
        username, password = self.credentials or ("", "")
        return {
            "SMTP_HOST": HOST,
            "SMTP_PORT": str(self.port),
            "SMTP_SECURITY": self.security,
            "SMTP_USERNAME": username,
            "SMTP_PASSWORD": password,
            "SALES_EMAIL": "ventas@example.com",
            "MAIL_FROM": "web@example.com",
        }

    def __enter__(self) -> Self:
        self.port = self.port or reserve_port(self)
        listener = socket.create_server((HOST, self.port))
        # asyncio does this only for sockets that name their protocol. Else each reply to EHLO waits 40 ms for an ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        # A handshake that a client breaks off is what some tests are about: asyncio has no need to report it.
        self._loop.set_exception_handler(lambda *_: None)
        self._thread = threading.Thread(target=self._run, args=(listener,), name="smtp-server")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def disconnect(self, farewell: bytes = b"") -> None:
        """Close every open connection, after a last line if there is one."""
        asyncio.run_coroutine_threadsafe(self._disconnect(farewell), self._loop).result()

    def _run(self, listener: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        server = await self._loop.create_server(
            lambda: _Protocol(self, self._loop, self._tls),
            sock=listener,
            ssl=self._tls if self.security == "tls" else None,
        )
        await self._stop.wait()
        # asyncio loses a connection that it has accepted but not yet begun when the server closes.
        self._loop.remove_reader(listener)
        await asyncio.sleep(0)
        server.close()  # without waiting: from Python 3.12 on that is for the connections which are ended below
        while (tasks := asyncio.all_tasks() - {asyncio.current_task()}) or self.connected:
            await self._disconnect(b"")
            await asyncio.wait([*tasks, asyncio.create_task(asyncio.sleep(0))], timeout=0.01)

    async def _disconnect(self, farewell: bytes) -> None:
        for protocol in list(self.connected):
            if isinstance(protocol.transport, asyncio.Transport):
                protocol.transport.write(farewell)
                protocol.transport.abort()
            await protocol.gone.wait()


class _Protocol(SMTP):
    """One connection."""

    def __init__(self, server: SmtpServer, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self._server = server
        self.gone = asyncio.Event()
        super().__init__(
            _Handler(server),
            hostname="mail.example.com",
            enable_SMTPUTF8=server.smtputf8,
            tls_context=tls if server.security == "starttls" else None,
            require_starttls=server.security == "starttls",
            auth_require_tls=server.security == "starttls",
            authenticator=self._check_credentials,
            loop=loop,
        )

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._server.connected.add(self)
        self._server.most_connected = max(self._server.most_connected, len(self._server.connected))

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connected.discard(self)
        self.gone.set()
        super().connection_lost(error)

    def eof_received(self) -> bool:
        super().eof_received()
        return False  # closes this side too, which aiosmtpd forgets when it was not reading

    async def push(self, status: AnyStr) -> None:
        if not self._server.seconds_per_byte:
            await super().push(status)
            return
        for byte in status.encode() if isinstance(status, str) else status:
            self._writer.write(bytes([byte]))
            await asyncio.sleep(self._server.seconds_per_byte)
        self._writer.write(b"\r\n")

    async def _handle_client(self) -> None:
        if "connect" in self._server.replies:
            await self.push(await self.reply_to("connect"))
        await super()._handle_client()

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802 - named by aiosmtpd
        if "DATA" in self._server.replies:
            await self.push(await self.reply_to("DATA"))
        else:
            await super().smtp_DATA(arg)

    async def reply_to(self, stage: str) -> str:
        reply = self._server.replies.get(stage, "250 OK")
        if reply == DROP:
            self._writer.close()
        if reply == HANG:
            self._server.hung.set()
        if reply in {HANG, DROP}:
            # aiosmtpd cancels this once the connection is gone.
            await asyncio.Event().wait()
        return reply

    def _check_credentials(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, login: LoginPassword
    ) -> AuthResult:
        self._server.logins.append(login.login)
        expected = tuple(text.encode() for text in self._server.credentials or ())
        return AuthResult(success=tuple(login) == expected, handled=False, auth_data=login)


class _Handler:
    """What aiosmtpd asks about the commands of a connection."""

    def __init__(self, server: SmtpServer) -> None:
        self._server = server

    async def handle_EHLO(  # noqa: N802 - named by aiosmtpd, like the others
        self, protocol: _Protocol, session: Session, _envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        if "EHLO" in self._server.replies:
            return [await protocol.reply_to("EHLO")]
        first, *others = responses
        return [first, "250-PIPELINING", *others] if self._server.pipelining else responses

    async def handle_MAIL(  # noqa: N802
        self, protocol: _Protocol, session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self._server.credentials and not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        return await protocol.reply_to("MAIL")

    async def handle_RCPT(  # noqa: N802
        self, protocol: _Protocol, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        reply = await protocol.reply_to(address if address in self._server.replies else "RCPT")
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, protocol: _Protocol, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        assert protocol.transport is not None
        login = session.auth_data
        arrival = Arrival(
            sender=envelope.mail_from,
            recipients=[str(address) for address in envelope.rcpt_tos],
            content=envelope.content,
            encrypted=protocol.transport.get_extra_info("ssl_object") is not None,
            username=login.login.decode() if isinstance(login, LoginPassword) else None,
        )
        self._server.arrivals.append(arrival)
        await asyncio.to_thread(self._server.on_message)
        reply = await protocol.reply_to("message")
        if not reply.startswith("250"):
            self._server.refused.append(arrival)
        return reply

    async def handle_NOOP(  # noqa: N802
        self, protocol: _Protocol, _session: Session, _envelope: Envelope, _argument: str
    ) -> str:
        return await protocol.reply_to("NOOP")

    async def handle_exception(self, error: Exception) -> str:
        return f"451 {type(error).__name__}"
