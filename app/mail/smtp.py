"""SMTP: one deadline for a whole hand-over, connections that are kept, few round trips."""

import logging
import re
import smtplib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, cast

from app.mail.message import Message
from app.mail.resolver import Resolver, own_name
from app.settings import USUAL_SECURITY, Settings

IDLE_SECONDS = 30.0
"""Seconds for which a connection is kept for the next message; servers keep it for minutes (RFC 5321, 4.5.3.2.7)."""
CHECK_SECONDS = 10.0
"""The longest check of the mail server in seconds; a shorter SMTP_TIMEOUT limits it further."""
MAX_NOOPS = 20
"""The most NOOPs on a connection with no message between them; servers count them (Postfix drops after 100)."""

_LOGGED_IN, _OK, _WILL_FORWARD, _GO_AHEAD, _CLOSING = 235, 250, 251, 354, 421
_CHUNK = 16_384
_MOST_SHARES = 4  # a provider's name can have 16 addresses, and a sixteenth of the time is too short for a greeting
_LONGEST_REPLY = 65_536  # RFC 5321 allows 512 octets in a line (section 4.5.3.1.5) and any number of lines
_ENHANCED = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}(?!\S)")  # RFC 3463, section 2
_REPLY = re.compile(rb"(?:\d{3}-.*\n)*+(\d{3})?.*\n")  # a hyphen follows the code in all lines but the last

Reply = tuple[int, bytes]
logger = logging.getLogger(__name__)


class Receipt(NamedTuple):
    """The server's reply to a message that it has taken, and the recipients it has refused, each with its own."""

    reply: str
    refused: Mapping[str, Reply]


class InDoubtError(OSError):
    """The content was sent and no reply came, so the server may have taken the message."""


class ClosingError(smtplib.SMTPResponseException, smtplib.SMTPServerDisconnected):
    """The server announces with a reply that it closes the connection."""


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
        self._tls = ssl.create_default_context()
        self._idle: deque[tuple[float, _Connection]] = deque()

    def send(self, message: Message, deadline: Deadline, *, before_data_ends: Callable[[], None]) -> Receipt:
        """Return once the server has taken the message for at least one recipient.

        ``before_data_ends`` is called in each connection that is tried, before the content is sent. Raises InDoubtError
        when the server may have taken the message, another OSError (smtplib.SMTPException is one) when it has not.
        """
        if kept := self._take_idle(deadline):
            try:
                return self._transact(kept, message, before_data_ends)
            except (smtplib.SMTPServerDisconnected, smtplib.SMTPSenderRefused):
                # This sender was good enough before. Servers say in many ways that they take no further message in the
                # connection, or that they have forgotten the login.
                logger.debug("the mail server takes no further message in a kept connection")
        return self._transact(self._connect(deadline), message, before_data_ends)

    def check(self) -> None:
        """Make sure that there is a connection for the next message, be it kept or new; raises OSError."""
        seconds = min(self._settings.smtp_timeout, CHECK_SECONDS)
        deadline = Deadline(seconds)
        connection = self._take_idle(Deadline(seconds / 2))  # a silent connection leaves time for a new one
        if connection is None or not connection.accepts_noop():
            connection = self._connect(deadline)
        self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        """Close all kept connections."""
        while connection := self._take_idle(Deadline(1)):
            connection.leave()

    def _take_idle(self, deadline: Deadline) -> "_Connection | None":
        """The connection that was used last, if there is one; those that were idle for too long are closed."""
        with suppress(IndexError):  # there is none, or another thread has just taken it
            while time.monotonic() - self._idle[0][0] >= IDLE_SECONDS:
                self._idle.popleft()[1].leave()
            _, connection = self._idle.pop()
            connection.deadline = deadline
            return connection
        return None

    def _connect(self, deadline: Deadline) -> "_Connection":
        connection = self._reach(deadline)
        connection.deadline = deadline
        username, password = self._settings.smtp_username, self._settings.smtp_password
        if username and password:
            connection.take_steps(partial(connection.authenticate, username, password))
        return connection

    def _reach(self, deadline: Deadline) -> "_Connection":
        """Come as far as the login at the first address that lets it; each one gets its share of the time."""
        addresses = self._resolver.addresses(deadline.remaining())
        failure: OSError | None = None
        for number, (*_, address) in enumerate(addresses):
            left = len(addresses) - number
            share = Deadline(deadline.remaining() / min(left, _MOST_SHARES))
            try:
                connected = socket.create_connection(address[:2], share.remaining())
            except OSError as error:
                failure = failure or error
                continue
            try:
                return self._begin(connected, share)
            except OSError as error:
                failure = error  # it says more than an address that cannot be reached, such as IPv6 on many machines
                if left > 1:
                    logger.warning("an address of the mail server gives way to the next: %s", type(error).__name__)
        raise failure or OSError("the host has no address")

    def _begin(self, connected: socket.socket, deadline: Deadline) -> "_Connection":
        """Greet, and begin TLS if it is set."""
        try:
            if self._settings.smtp_security == "tls":
                connected.settimeout(deadline.remaining())
                connected = self._tls.wrap_socket(connected, server_hostname=self._host)
            connection = _Connection(connected, self._host, deadline)
        except OSError as error:
            self._note_likely_cause(error)
            raise
        connection.take_steps(connection.greet)
        if self._settings.smtp_security == "starttls":
            connection.take_steps(partial(connection.starttls, context=self._tls), connection.greet)
        return connection

    def _note_likely_cause(self, error: OSError) -> None:
        """Note at an error before the greeting that the port usually begins with TLS, or usually does not."""
        port, security = self._settings.smtp_port, self._settings.smtp_security
        usual = USUAL_SECURITY.get(port, security)
        if security == "tls":
            is_understood = isinstance(error, smtplib.SMTPException | ssl.SSLCertVerificationError)
        else:
            is_understood = getattr(error, "smtp_code", -1) >= 0
        if (security == "tls") != (usual == "tls") and not is_understood:
            error.add_note(f"port {port} usually takes SMTP_SECURITY={usual}")

    def _transact(self, connection: "_Connection", message: Message, before_data_ends: Callable[[], None]) -> Receipt:
        sender = self._settings.mail_from.address
        # An address that is given twice must count once, or nobody would notice that all recipients were refused.
        recipients = list(dict.fromkeys(mailbox.address for mailbox in self._settings.recipients(message.form_type)))
        replies = connection.dialogue([f"MAIL FROM:<{sender}>", *(f"RCPT TO:<{each}>" for each in recipients), "DATA"])
        refused = {}
        try:
            code, text = next(replies)
            if code != _OK:
                raise smtplib.SMTPSenderRefused(code, text, sender)
            for recipient, (code, text) in zip(recipients, replies, strict=False):
                if code not in (_OK, _WILL_FORWARD):
                    refused[recipient] = (code, text)
                    logger.warning("the mail server refused a recipient of %s with %d", message.message_id, code)
            if len(refused) == len(recipients):
                raise smtplib.SMTPRecipientsRefused(refused)
            code, text = next(replies)
            if code != _GO_AHEAD:
                raise smtplib.SMTPDataError(code, text)
            before_data_ends()
            connection.expect_silence()
            try:  # dots are doubled as in RFC 5321, section 4.5.2
                connection.transmit(re.sub(rb"^\.", b"..", message.content, flags=re.MULTILINE) + b".\r\n")
                code, text = connection.getreply()
            except OSError as error:
                raise InDoubtError from error
            if code != _OK:
                raise smtplib.SMTPDataError(code, text) if code in range(400, 600) else InDoubtError()
        except BaseException as error:
            connection.leave(politely=isinstance(error, smtplib.SMTPResponseException | smtplib.SMTPRecipientsRefused))
            raise
        connection.noops = 0
        self._idle.append((time.monotonic(), connection))
        return Receipt(f"{code} {text.decode(errors='replace')}", refused)


class _Connection(smtplib.SMTP):
    """smtplib's client with one deadline for all reads and writes, where smtplib has a timeout for each."""

    def __init__(self, connected: socket.socket, host: str, deadline: Deadline) -> None:
        self.deadline = deadline
        self.noops = 0  # since the last message
        self._connected, self._unread = connected, b""
        # The certificate for STARTTLS must have the name of the host.
        super().__init__(host, local_hostname=own_name(connected.getsockname()[0]))

    def _get_socket(self, *_: Any) -> socket.socket:
        """Called by smtplib, which lets its own SMTP_SSL change this alone: the socket, which is connected already."""
        self._connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connected

    def take_steps(self, *steps: Callable[[], object]) -> None:
        """Take steps before the first message; whatever fails ends the connection."""
        try:
            for step in steps:
                self.expect_silence()
                step()
        except BaseException as error:
            self.leave(politely=False)
            if isinstance(error, Exception) and not isinstance(error, OSError):
                raise smtplib.SMTPException(f"smtplib failed: {error}") from error
            raise

    def greet(self) -> None:
        """Send EHLO; raises SMTPHeloError. smtplib by itself would go on with HELO, and hide the refusal."""
        code, text = self.ehlo()
        if code != _OK:
            raise smtplib.SMTPHeloError(code, text)

    def authenticate(self, username: str, password: str) -> None:
        """Log in with the first mechanism that works. smtplib's ``login`` hides a refusal that ends the connection."""
        self.user, self.password = username, password
        offered = self.esmtp_features.get("auth", "").upper().split()
        failure: Exception = smtplib.SMTPNotSupportedError("the server offers no way of logging in that is known here")
        for name in [each for each in ("CRAM-MD5", "PLAIN", "LOGIN") if each in offered]:
            try:
                responses = getattr(self, f"auth_{name.lower().replace('-', '_')}")
                # Some servers ignore a name that comes with AUTH LOGIN, and then take the password for the name.
                code, text = self.auth(name, responses, initial_response_ok=name != "LOGIN")
                if code == _LOGGED_IN:
                    return
                raise smtplib.SMTPAuthenticationError(code, text)  # smtplib takes 503, too
            except smtplib.SMTPAuthenticationError as error:
                # Its text can quote the password.
                status = _ENHANCED.match(cast("bytes", error.smtp_error))
                failure = smtplib.SMTPAuthenticationError(error.smtp_code, status[0] if status else b"")
            except smtplib.SMTPServerDisconnected as error:
                raise failure if isinstance(failure, smtplib.SMTPAuthenticationError) else error from None
            except (smtplib.SMTPException, ValueError) as error:  # no MD5 here (FIPS), or a challenge without sense
                failure = error if isinstance(error, ValueError) else smtplib.SMTPException(f"AUTH {name} does not end")
                self.docmd("*")  # ends the exchange
        raise failure

    def accepts_noop(self) -> bool:
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
        """Make sure that nothing from the server is unread, so that the next reply answers the next command."""
        with self._limited_socket() as connected, suppress(BlockingIOError, ssl.SSLWantReadError):
            connected.settimeout(0)  # the session tickets of TLS are read and do not count
            said = self._unread or connected.recv(1)
            raise OSError("the server says more than it was asked" if said else "the server has ended the connection")

    def transmit(self, data: bytes) -> None:
        """Send in pieces, each with the time that is left: a TLS socket would give each record the whole time."""
        for start in range(0, len(data), _CHUNK):
            with self._limited_socket() as connected:
                connected.sendall(data[start : start + _CHUNK])

    def getreply(self) -> Reply:
        """Read a reply of at most 64 KiB before the deadline; the code is -1 when the reply has none."""
        while not (reply := _REPLY.match(self._unread, 0, _LONGEST_REPLY)):
            with self._limited_socket() as connected:
                received = connected.recv(_CHUNK) if len(self._unread) < _LONGEST_REPLY else b""
                if not received:
                    raise OSError("no whole reply came")
            self._unread += received
        self._unread = self._unread[reply.end() :]
        return int(reply[1] or -1), b"\n".join(line[4:].strip() for line in reply[0].splitlines())

    @contextmanager
    def _limited_socket(self) -> Iterator[socket.socket]:
        """The socket, with the time that is left as its timeout; whatever fails ends the connection."""
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("not connected")
        try:
            self.sock.settimeout(self.deadline.remaining())
            yield self.sock
            self.sock.settimeout(self.deadline.remaining())  # which a TLS handshake needs
        except OSError as error:
            self.leave(politely=False)
            raise smtplib.SMTPServerDisconnected(error.strerror or str(error)) from error

    def leave(self, *, politely: bool = True) -> None:
        """Close the connection: politely, with a QUIT whose reply is not waited for, or without a word."""
        if politely:
            self.deadline = Deadline(1)
            with suppress(OSError):  # the server may have left before
                self.expect_silence()
                self.transmit(b"QUIT\r\n")
        if self.sock is not None:
            self.sock.close()
            self.sock = None
