"""SMTP: one deadline for a whole hand-over, connections that are kept, few round trips."""

from __future__ import annotations

import binascii
import logging
import re
import smtplib
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.mail.message import Message
from app.mail.resolver import Resolver, own_name
from app.settings import Settings

IDLE_SECONDS = 30.0
"""Seconds for which a connection is kept for the next message; servers keep it for minutes (RFC 5321, 4.5.3.2.7)."""

CHECK_SECONDS = 10.0
"""The longest check of the mail server in seconds; a shorter SMTP_TIMEOUT limits it further."""

MAX_NOOPS = 20
"""The most NOOPs on a connection with no message between them; servers count them (Postfix drops after 100)."""

PERMANENT = range(500, 600)
"""The reply codes after which no repetition helps (RFC 5321, section 4.2.1)."""

_REFUSALS = range(400, 600)
_OK, _WILL_FORWARD, _GO_AHEAD, _CLOSING = 250, 251, 354, 421
_CHUNK = 16_384
_REPLY_OCTETS = 65_536
"""The longest reply. RFC 5321 allows 512 octets in a line (section 4.5.3.1.5) and any number of lines."""
_REPLY = re.compile(rb"(?:\d{3}-.*\n)*+(\d{3})?.*\n")
"""A whole reply: each line but the last has a hyphen after the code (RFC 5321, section 4.2.1)."""

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
    """Hands messages over by SMTP (RFC 5321) and keeps the connections for the next messages."""

    def __init__(self, settings: Settings) -> None:
        if settings.smtp_host is None:
            raise ValueError("an SmtpSender needs SMTP_HOST")
        self._host = settings.smtp_host
        self._resolver = Resolver(settings.smtp_host, settings.smtp_port)
        self._settings = settings
        # An address that is given twice must count once, or nobody would notice that all recipients were refused.
        self._recipients = list(dict.fromkeys(mailbox.address for mailbox in settings.sales_email))
        self._tls = ssl.create_default_context()
        self._idle: deque[tuple[float, _Connection]] = deque()
        self._lock = threading.Lock()

    def send(self, message: Message, deadline: Deadline, *, before_data_ends: Callable[[], None]) -> Receipt:
        """Return once the server has taken the message for at least one recipient.

        ``before_data_ends`` is called in each connection that is tried, before the content is sent. Raises InDoubtError
        when the server may have taken the message, another OSError (smtplib.SMTPException is one) when it has not.
        """
        kept = self._take_idle(deadline)
        if kept is not None:
            try:
                return self._transact(kept, message, before_data_ends)
            except smtplib.SMTPServerDisconnected:
                logger.debug("the mail server closed a kept connection before it took a message")
            except smtplib.SMTPSenderRefused as error:
                # This sender was good enough before. With a 5xx the server says that it takes no further message in the
                # connection, or that it has forgotten the login.
                if error.smtp_code < PERMANENT.start:
                    raise
                logger.debug("the mail server takes no further message in a kept connection")
        return self._transact(self._connect(deadline), message, before_data_ends)

    def check(self) -> None:
        """Make sure that there is a connection for the next message, be it kept or new; raises OSError."""
        seconds = min(self._settings.smtp_timeout, CHECK_SECONDS)
        deadline = Deadline(seconds)
        connection = self._take_idle(Deadline(seconds / 2))  # a silent connection leaves time for a new one
        if connection is None or not connection.answers_noop():
            connection = self._connect(deadline)
        self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        """Close all kept connections."""
        with self._lock:
            while self._idle:
                self._idle.popleft()[1].leave()

    def _take_idle(self, deadline: Deadline) -> _Connection | None:
        """The connection that was used last, if there is one; those that were idle for too long are closed."""
        with self._lock:
            while self._idle and time.monotonic() - self._idle[0][0] >= IDLE_SECONDS:
                self._idle.popleft()[1].leave()
            if not self._idle:
                return None
            _, connection = self._idle.pop()
        connection.deadline = deadline
        return connection

    def _connect(self, deadline: Deadline) -> _Connection:
        settings = self._settings
        connection = _Connection(self._open_socket(deadline), self._host, deadline)
        try:
            connection.greet()
            if settings.smtp_security == "starttls":
                connection.expect_silence()
                connection.starttls(context=self._tls)
                connection.greet()
            if settings.smtp_username and settings.smtp_password:
                connection.expect_silence()
                connection.login(settings.smtp_username, settings.smtp_password)
        except BaseException as error:
            connection.abandon()
            if isinstance(error, binascii.Error | UnicodeError):  # smtplib cannot read the server's words
                raise smtplib.SMTPException("the server does not speak SMTP") from error
            raise
        return connection

    def _open_socket(self, deadline: Deadline) -> socket.socket:
        """Connect to the first address that answers; each one gets its share of the time."""
        addresses = self._resolver.addresses(deadline.remaining())
        failure = OSError("the host has no address")
        for number, (family, kind, protocol, _, address) in enumerate(addresses):
            connected = socket.socket(family, kind, protocol)
            try:
                connected.settimeout(deadline.remaining() / (len(addresses) - number))
                connected.connect(address)
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connected.settimeout(deadline.remaining())
                if self._settings.smtp_security == "tls":
                    connected = self._tls.wrap_socket(connected, server_hostname=self._host)
            except OSError as error:
                connected.close()
                failure = error
            else:
                return connected
        raise failure

    def _transact(self, connection: _Connection, message: Message, before_data_ends: Callable[[], None]) -> Receipt:
        content = re.sub(rb"^\.", b"..", message.content, flags=re.MULTILINE)  # RFC 5321, section 4.5.2
        try:
            refused = self._send_envelope(connection, message)
            before_data_ends()
            connection.expect_silence()
            try:
                connection.transmit(content + b".\r\n")
                code, text = connection.getreply()
            except smtplib.SMTPException as error:
                raise InDoubtError from error
            if code != _OK:
                raise smtplib.SMTPDataError(code, text) if code in _REFUSALS else InDoubtError()
        except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused):
            connection.leave()
            raise
        except BaseException:
            connection.abandon()
            raise
        connection.noops = 0
        self._idle.append((time.monotonic(), connection))
        return Receipt(f"{code} {text.decode(errors='replace')}", refused)

    def _send_envelope(self, connection: _Connection, message: Message) -> dict[str, Reply]:
        """Return the refused recipients once the server is ready for the content; raises SMTPException."""
        sender, recipients = self._settings.mail_from.address, self._recipients
        commands = [f"MAIL FROM:<{sender}>", *(f"RCPT TO:<{recipient}>" for recipient in recipients), "DATA"]
        replies = connection.dialogue(commands)
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


class _Connection(smtplib.SMTP):
    """smtplib's client with one deadline for all reads and writes, where smtplib has a timeout for each."""

    def __init__(self, connected: socket.socket, host: str, deadline: Deadline) -> None:
        """Read the server's greeting. ``host`` is the name that the certificate for STARTTLS must have."""
        self.deadline = deadline
        self.noops = 0  # since the last message
        self._connected = connected
        self._unread = b""
        super().__init__(host, local_hostname=own_name(connected.getsockname()[0]))

    def connect(self, *_: Any, **__: Any) -> Reply:
        """Called by smtplib: take the socket, which is connected already, and read the greeting."""
        self.sock = self._connected
        return self.getreply()

    def greet(self) -> None:
        """Say EHLO or, to a server that refuses it, HELO."""
        self.expect_silence()
        self.ehlo_or_helo_if_needed()

    def answers_noop(self) -> bool:
        """Send NOOP and return True when the server agrees; else close the connection."""
        self.noops += 1
        with suppress(OSError):
            if self.noops <= MAX_NOOPS and next(self.dialogue(["NOOP"]))[0] == _OK:
                return True
        self.leave()
        return False

    def dialogue(self, commands: list[str]) -> Iterator[Reply]:
        """Send the commands, together if the server allows pipelining (RFC 2920), and yield their replies."""
        for group in [commands] if self.has_extn("pipelining") else [[command] for command in commands]:
            self.expect_silence()
            self.transmit("".join(f"{command}\r\n" for command in group).encode("ascii"))
            for _ in group:
                code, text = self.getreply()
                if code == _CLOSING:
                    raise ClosingError(code, text)
                yield code, text

    def expect_silence(self) -> None:
        """Make sure that nothing from the server is unread, so that the next reply answers the next command.

        Raises SMTPServerDisconnected if the server has closed the connection or said something that nobody asked for.
        TLS session tickets do not count: they are not part of SMTP.
        """
        connected = self._limited_socket()
        connected.settimeout(0)
        try:
            if not self._unread:
                connected.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._limited_socket()
        except OSError as error:
            raise smtplib.SMTPServerDisconnected("the server has reset the connection") from error
        else:
            raise smtplib.SMTPServerDisconnected("the server has ended the connection, or said more than it was asked")

    def transmit(self, data: bytes) -> None:
        """Send in pieces, each with the time that is left: a TLS socket would give each record the whole time."""
        try:
            for start in range(0, len(data), _CHUNK):
                self._limited_socket().sendall(data[start : start + _CHUNK])
        except OSError as error:
            raise smtplib.SMTPServerDisconnected("the server does not take what is sent") from error

    def getreply(self) -> Reply:
        """Read a reply before the deadline; the code is -1 when the reply has none.

        If no whole reply of at most 64 KiB comes, this closes the connection and raises SMTPServerDisconnected.
        """
        try:
            while not (reply := _REPLY.match(self._unread, 0, _REPLY_OCTETS)):
                if len(self._unread) >= _REPLY_OCTETS:
                    raise OSError("the reply is too long")
                received = self._limited_socket().recv(_CHUNK)
                if not received:
                    raise OSError("the server has ended the connection")
                self._unread += received
            self._limited_socket()  # a TLS handshake may follow and needs the time that is left now
        except OSError as error:
            self.abandon()
            raise smtplib.SMTPServerDisconnected("no whole reply came") from error
        self._unread = self._unread[reply.end() :]
        return int(reply[1] or -1), b"\n".join(line[4:].strip() for line in reply[0].splitlines())

    def _limited_socket(self) -> socket.socket:
        """The socket, with the time that is left as its timeout."""
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("not connected")
        self.sock.settimeout(self.deadline.remaining())
        return self.sock

    def leave(self) -> None:
        """Send QUIT and close without waiting for the answer."""
        self.deadline = Deadline(1)
        with suppress(OSError):  # the server may have left before
            self.expect_silence()
            self.transmit(b"QUIT\r\n")
        self.abandon()

    def abandon(self) -> None:
        """Close the connection without a word."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None
