"""SMTP: one deadline for a whole hand-over, connections that are kept, few round trips."""

from __future__ import annotations

import binascii
import logging
import smtplib
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.mail.message import Message
from app.mail.names import Resolver, own_name
from app.settings import Settings

IDLE_SECONDS = 30.0
"""Seconds for which a connection is kept for the next message; servers keep it for minutes (RFC 5321, 4.5.3.2.7)."""

CHECK_SECONDS = 10.0
"""The longest check of the mail server in seconds; a shorter SMTP_TIMEOUT limits it further."""

MAX_NOOPS = 20
"""The most NOOPs on a connection with no message between them; servers count them (Postfix drops after 100).

With a check every 15 seconds, an idle process logs in every 21 checks: at most 12 times an hour.
"""

_READY, _OK, _WILL_FORWARD, _GO_AHEAD, _CLOSING = 220, 250, 251, 354, 421
_REFUSALS = range(400, 600)
PERMANENT = range(500, 600)
"""The reply codes after which no repetition helps (RFC 5321, section 4.2.1)."""
_CHUNK = 16_384
_REPLY_OCTETS = 65_536
"""The longest reply. RFC 5321 allows 512 octets in a line (section 4.5.3.1.5) and any number of lines."""
_REPLY_LINES = 100
_TIMEOUT_TOLERANCE = 0.005
"""Seconds by which a wait for the server may exceed the deadline."""

logger = logging.getLogger(__name__)

Reply = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of a message that the mail server has taken for at least one recipient."""

    answer: str
    """The server's answer to the content: its code and text."""
    refused: Mapping[str, Reply]
    """The addresses that were refused, each with its reply."""


class InDoubtError(OSError):
    """The content was sent and no answer came, so the server may have taken the message."""

    def __init__(self) -> None:
        super().__init__("no answer came, and the mail server may have taken the message")


class ClosingError(smtplib.SMTPServerDisconnected):
    """The server announces with a reply that it closes the connection."""

    def __init__(self, code: int, text: bytes) -> None:
        super().__init__(f"the server closes it: {code} {text.decode(errors='replace')}")
        self.smtp_code = code


class Deadline:
    """The moment at which all work for one message ends."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """The seconds until then; raises TimeoutError when there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the time for the hand-over is up")
        return seconds


class SmtpSender:
    """Hands messages over by SMTP (RFC 5321), in clear, with STARTTLS (RFC 3207) or inside TLS.

    A connection is kept for the next message. Before it is used again, the sender notices without a round trip if the
    server has closed it.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.smtp_host is None:
            raise ValueError("an SmtpSender needs SMTP_HOST")
        self._host = settings.smtp_host
        self._resolver = Resolver(settings.smtp_host, settings.smtp_port)
        self._settings = settings
        self._sender = settings.mail_from.address
        # An address that is given twice must count once, or nobody would notice that all recipients were refused.
        self._recipients = list(dict.fromkeys(mailbox.address for mailbox in settings.sales_email))
        self._tls = ssl.create_default_context()
        self._idle: deque[tuple[float, _Connection]] = deque()
        self._lock = threading.Lock()

    def send(self, message: Message, deadline: Deadline, *, before_data_ends: Callable[[], None]) -> Receipt:
        """Return once the server has taken the message for at least one recipient.

        ``before_data_ends`` is called before the content is sent: until then the server cannot have taken the message.
        It is called once for each connection that is tried. Raises InDoubtError when the server may have taken the
        message, another OSError (smtplib.SMTPException is one) when it has not.
        """
        kept = self._take_idle(deadline)
        if kept is not None:
            try:
                return self._transact(kept, message, before_data_ends)
            except smtplib.SMTPServerDisconnected:
                deadline.remaining()
                logger.debug("the mail server closed a kept connection before it took a message")
            except smtplib.SMTPSenderRefused as error:
                # This sender was good enough before. The server takes no further message in the connection, or has
                # forgotten the login.
                if error.smtp_code < PERMANENT.start:
                    raise
                deadline.remaining()
                logger.debug("the mail server takes no further message in a kept connection")
        return self._transact(self._connect(deadline), message, before_data_ends)

    def check(self) -> None:
        """Make sure that there is a connection for the next message; raises OSError.

        A kept connection is tried with NOOP. Only when there is none that answers, connect and log in as for a message.
        """
        seconds = min(self._settings.smtp_timeout, CHECK_SECONDS)
        deadline = Deadline(seconds)
        connection = self._take_idle(Deadline(seconds / 2))  # a silent connection leaves time for a new one
        if connection is None or not connection.answers_noop():
            connection = self._connect(deadline)
        self._keep(connection)

    def close(self) -> None:
        """Close all kept connections."""
        with self._lock:
            kept = [connection for _, connection in self._idle]
            self._idle.clear()
        for connection in kept:
            connection.leave()

    def _connect(self, deadline: Deadline) -> _Connection:
        settings = self._settings
        tls = self._tls if settings.smtp_security == "tls" else None
        addresses = self._resolver.addresses(deadline.remaining())
        connection = _Connection(self._host, settings.smtp_port, addresses, deadline, tls)
        try:
            connection.greet()
            if settings.smtp_security == "starttls":
                connection.expect_silence()
                connection.starttls(context=self._tls)
                connection.greet()
            if settings.smtp_username and settings.smtp_password:
                connection.expect_silence()
                connection.login(settings.smtp_username, settings.smtp_password)
        except (binascii.Error, UnicodeError) as error:  # smtplib cannot read the server's words
            connection.abandon()
            raise smtplib.SMTPException("the server does not speak SMTP") from error
        except BaseException:
            connection.abandon()
            raise
        return connection

    def _transact(self, connection: _Connection, message: Message, before_data_ends: Callable[[], None]) -> Receipt:
        try:
            refused = self._send_envelope(connection, message)
            before_data_ends()
            connection.expect_silence()
            try:
                connection.transmit(_dot_stuffed(message.content) + b".\r\n")
                code, text = connection.getreply()
            except smtplib.SMTPException as error:
                raise InDoubtError from error
            if code in _REFUSALS:
                raise smtplib.SMTPDataError(code, text)
            if code != _OK:
                raise InDoubtError
        except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused):
            connection.leave()
            raise
        except BaseException:
            connection.abandon()
            raise
        connection.noops = 0
        self._keep(connection)
        return Receipt(f"{code} {text.decode(errors='replace')}", refused)

    def _send_envelope(self, connection: _Connection, message: Message) -> dict[str, Reply]:
        """Send MAIL, RCPT and DATA; return the refused recipients once the server is ready for the content.

        Raises SMTPException when it is not.
        """
        sender, recipients = self._sender, self._recipients
        commands = [f"MAIL FROM:<{sender}>", *(f"RCPT TO:<{recipient}>" for recipient in recipients)]
        replies = connection.dialogue([*commands, "DATA"])
        code, text = next(replies)
        if code != _OK:
            raise smtplib.SMTPSenderRefused(code, text, sender)
        refused = {}
        for recipient, (code, text) in zip(recipients, replies, strict=False):
            if code not in (_OK, _WILL_FORWARD):
                refused[recipient] = (code, text)
                logger.warning("the mail server refused a recipient of %s with %d", message.message_id, code)
        if len(refused) == len(recipients):
            raise smtplib.SMTPRecipientsRefused(refused)
        code, text = next(replies)
        if code != _GO_AHEAD:
            raise smtplib.SMTPDataError(code, text)
        return refused

    def _take_idle(self, deadline: Deadline) -> _Connection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                kept_at, connection = self._idle.pop()
            if time.monotonic() - kept_at < IDLE_SECONDS:
                connection.deadline = deadline
                return connection
            connection.leave()

    def _keep(self, connection: _Connection) -> None:
        """Keep the connection for the next message, and close those that nobody has used for IDLE_SECONDS."""
        now = time.monotonic()
        with self._lock:
            self._idle.append((now, connection))
            expired = []
            while now - self._idle[0][0] >= IDLE_SECONDS:
                expired.append(self._idle.popleft()[1])
        for old in expired:
            old.leave()


class _Connection(smtplib.SMTP):
    """smtplib's client with one deadline for all reads and writes, where smtplib has a timeout for each.

    The methods with which smtplib connects and reads, and its socket, are all that this takes of its inside.
    """

    def __init__(
        self, host: str, port: int, addresses: list[Any], deadline: Deadline, tls: ssl.SSLContext | None
    ) -> None:
        """Connect to the first address that answers; raises OSError. ``host`` is the name for the certificate."""
        self.deadline = deadline
        self.noops = 0
        """NOOPs since the last message."""
        self._addresses = addresses
        self._implicit_tls = tls
        self._unread = bytearray()
        super().__init__(host, port, local_hostname="")  # without a name, smtplib would ask the DNS

    def greet(self) -> None:
        """Say who is there; raises SMTPHeloError when the server refuses both EHLO and HELO."""
        self.expect_silence()
        name = own_name(self._connected().getsockname()[0])
        code, text = self.ehlo(name)
        if code != _OK:
            code, text = self.helo(name)
        if code != _OK:
            raise smtplib.SMTPHeloError(code, text)

    def dialogue(self, commands: list[str]) -> Iterator[Reply]:
        """Send the commands and yield their replies; all at once if the server allows pipelining (RFC 2920).

        Raises SMTPServerDisconnected for a 421 too, which announces that the server closes the connection.
        """
        pipelining = self.has_extn("pipelining")
        if pipelining:
            self.expect_silence()
            self.transmit("".join(f"{command}\r\n" for command in commands).encode("ascii"))
        for command in commands:
            code, text = self.getreply() if pipelining else self.ask(command)
            if code == _CLOSING:
                raise ClosingError(code, text)
            yield code, text

    def expect_silence(self) -> None:
        """Make sure that nothing from the server is unread, so that the next reply answers the next command.

        If the server has closed the connection, or has sent something that nobody asked for, this closes it too and
        raises SMTPServerDisconnected. TLS session tickets do not count: they are not part of SMTP.
        """
        connected = self._connected()
        connected.settimeout(0)
        try:
            if not self._unread:
                connected.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._limited()
            return
        except OSError:
            logger.debug("the mail server has reset the connection")
        self.abandon()
        raise smtplib.SMTPServerDisconnected("the server has ended the connection, or said more than it was asked")

    def answers_noop(self) -> bool:
        """Send NOOP and return True when the server agrees; else leave or close the connection."""
        if self.noops < MAX_NOOPS:
            self.noops += 1
            try:
                code, _ = self.ask("NOOP")
            except OSError:
                logger.debug("a kept connection to the mail server is gone")
                self.abandon()
                return False
            if code == _OK:
                return True
        self.leave()
        return False

    def leave(self) -> None:
        """Send QUIT and close without waiting for the answer."""
        self.deadline = Deadline(1)
        try:
            self.expect_silence()
            self.transmit(b"QUIT\r\n")
        except OSError:
            logger.debug("the mail server had left before")
        self.abandon()

    def abandon(self) -> None:
        """Close the connection without a word."""
        connected, self.sock = self.sock, None
        if connected is not None:
            connected.close()

    def ask(self, command: str) -> Reply:
        """Send a command, once nothing from the server is unread, and read the reply."""
        self.expect_silence()
        return self.docmd(command)

    def transmit(self, data: bytes) -> None:
        """Send in pieces, each with the time that is left: a TLS socket would give each record the whole time.

        Raises SMTPServerDisconnected when the server does not take it all.
        """
        try:
            for start in range(0, len(data), _CHUNK):
                self._limited().sendall(data[start : start + _CHUNK])
        except OSError as error:
            self.abandon()
            raise smtplib.SMTPServerDisconnected("the server does not take what is sent") from error

    def getreply(self) -> Reply:
        """Read a reply before the deadline; the code is -1 when the reply has none.

        If no complete reply of at most 64 KiB and 100 lines comes, this closes the connection and raises
        SMTPServerDisconnected.
        """
        try:
            return self._read_reply()
        except OSError as error:
            self.abandon()
            raise smtplib.SMTPServerDisconnected("no whole reply came") from error

    def _read_reply(self) -> Reply:
        texts: list[bytes] = []
        left = _REPLY_OCTETS
        while len(texts) < _REPLY_LINES:
            line = self._read_line(left)
            left -= len(line)
            texts.append(line[4:].strip())
            code = int(line[:3]) if line[:3].isdigit() else -1
            if code < 0 or line[3:4] != b"-":
                return code, b"\n".join(texts)
        raise OSError("the reply has too many lines")

    def _read_line(self, most: int) -> bytes:
        """The next line with its line end; raises OSError when it has more than ``most`` octets."""
        searched = 0
        while not (size := self._unread.find(b"\n", searched, most) + 1):
            searched = len(self._unread)
            if searched >= most:
                raise OSError("the reply is too long")
            received = self._limited().recv(_CHUNK)
            if not received:
                raise OSError("the server has ended the connection")
            self._unread += received
            self._limited()  # a TLS handshake may follow and needs the time that is left now
        line = bytes(self._unread[:size])
        del self._unread[:size]
        return line

    def _limited(self) -> socket.socket:
        """The socket with the time left as its timeout; raises TimeoutError when there is none.

        Each change of the timeout is a system call, so a difference of a few milliseconds is left.
        """
        connected = self._connected()
        left = self.deadline.remaining()
        if not left <= (connected.gettimeout() or 0) <= left + _TIMEOUT_TOLERANCE:
            connected.settimeout(left)
        return connected

    def _connected(self) -> socket.socket:
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("not connected")
        return self.sock

    def _get_socket(self, host: str, _port: int, _timeout: float) -> socket.socket:
        """Connect to the first address that answers, as smtplib does; each gets its share of the time."""
        failure = OSError("the host has no address")
        for left in range(len(self._addresses), 0, -1):
            family, kind, protocol, _, address = self._addresses[-left]
            connected = socket.socket(family, kind, protocol)
            try:
                connected.settimeout(self.deadline.remaining() / left)
                connected.connect(address)
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connected.settimeout(self.deadline.remaining())
                if self._implicit_tls is not None:
                    return self._implicit_tls.wrap_socket(connected, server_hostname=host)
            except OSError as error:
                connected.close()
                failure = error
            else:
                return connected
        raise failure


def _dot_stuffed(content: bytes) -> bytes:
    """The content with a second dot before each dot that begins a line (RFC 5321, section 4.5.2)."""
    return (b"." if content.startswith(b".") else b"") + content.replace(b"\n.", b"\n..")
