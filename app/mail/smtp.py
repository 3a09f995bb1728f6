"""SMTP with one deadline per delivery attempt, kept connections and few round trips."""

import logging
import re
import smtplib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from typing import NamedTuple, cast

from app.mail.message import Message
from app.resolver import Resolver
from app.settings import USUAL_SECURITY, Settings

IDLE_SECONDS = 30.0
"""Seconds for which a connection is kept for the next message; servers keep it for minutes (RFC 5321, 4.5.3.2.7)."""
CHECK_SECONDS = 10.0  # the longest check of the mail server in seconds; a shorter SMTP_TIMEOUT limits it further
MAX_NOOPS = 20
"""The most NOOPs on a connection with no message between them; servers count them (Postfix drops after 100)."""

_READY, _LOGGED_IN, _OK, _WILL_FORWARD, _GO_AHEAD, _CLOSING = 220, 235, 250, 251, 354, 421
_CHUNK = 16_384
_MOST_SHARES = 4  # a provider's name can have 16 addresses, and a sixteenth of the time is too short for a greeting
_LONGEST_REPLY = 65_536  # RFC 5321 allows 512 octets in a line (section 4.5.3.1.5) and any number of lines
_ENHANCED = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}(?!\S)")  # RFC 3463, section 2
_REPLY = re.compile(rb"(?:\d{3}-.*\n)*+(\d{3})?.*\n")  # a hyphen follows the code in all lines but the last

Reply = tuple[int, bytes]  # a reply's code, -1 when it has none, and its text
logger = logging.getLogger(__name__)


class Step(Enum):
    """A step of a delivery attempt. The value is the operator's text for its failure."""

    LOOKUP = "SMTP_HOST was not found"
    CONNECTION = "the mail server cannot be reached"
    TLS = "TLS with the mail server failed"
    GREETING = "the mail server refused the connection"
    EHLO = "the mail server refused this host's EHLO"
    STARTTLS = "the mail server refused STARTTLS"
    AUTH = "the mail server refused SMTP_USERNAME with SMTP_PASSWORD"
    MAIL = "the mail server refused the sender"
    RCPT = "the mail server refused every recipient"
    DATA = "the mail server refused DATA"
    CONTENT = "the mail server refused the message"
    CLOSING = "the mail server closes the connection"


class SmtpError(OSError):
    """A failed step of a delivery attempt: a sentence for the operator and a one-word code."""

    is_of_connection = True  # a new connection may help

    def __init__(self, step: Step, reason: str, code: str) -> None:
        super().__init__(reason)
        self.step, self.reason, self.code = step, reason, code


class RefusedError(SmtpError):
    """The server refused a step with a reply, or every recipient with a reply of its own."""

    def __init__(self, step: Step, *replies: Reply, recipients: Mapping[str, Reply] | None = None) -> None:
        super().__init__(step, step.value, step.name.lower())
        self.replies, self.recipients = replies, recipients or {}
        self.is_of_connection = step in (Step.MAIL, Step.CLOSING)


class InDoubtError(SmtpError):
    """The content was sent and no reply came, so the server may have taken the message."""

    is_of_connection = False

    def __init__(self) -> None:
        super().__init__(Step.CONTENT, "no valid reply, so the mail server may have taken the message", "")


@contextmanager
def _at(step: Step) -> Iterator[None]:
    """Turn the errors of smtplib, ssl and socket at a step into SmtpError."""
    try:
        yield
    except TimeoutError as error:
        raise SmtpError(step, "the mail server did not reply within SMTP_TIMEOUT", "timeout") from error
    except ssl.SSLCertVerificationError as error:
        reason = f"the certificate of the mail server is not trusted: {error.verify_message}"
        raise SmtpError(step, reason, "certificate") from error
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, ssl.SSLError) and error.reason:
            reason = error.reason.lower().replace("_", " ")
        if step in (Step.LOOKUP, Step.CONNECTION, Step.TLS):
            raise SmtpError(step, f"{step.value}: {reason}", step.name.lower()) from error
        raise SmtpError(step, f"the connection to the mail server was lost: {reason}", "lost") from error


def _expect(step: Step, reply: Reply, code: int) -> None:
    """Raise RefusedError unless the reply has this code."""
    if reply[0] != code:
        raise RefusedError(step, reply)


class Receipt(NamedTuple):
    """The server's reply to a message that it has taken, and the recipients it has refused, each with its own."""

    reply: str
    refused: Mapping[str, Reply]


class Deadline:
    """The moment at which all work on one message ends."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """The seconds until then; raises TimeoutError when there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the time for the attempt is up")
        return seconds


class SmtpSender:
    """Sends messages by SMTP (RFC 5321) and keeps the connections for the next ones."""

    def __init__(self, settings: Settings) -> None:
        if settings.smtp_host is None:
            raise ValueError("an SmtpSender needs SMTP_HOST")
        self._host = settings.smtp_host
        self._resolver = Resolver(settings.smtp_host, settings.smtp_port)
        self._settings = settings
        self._tls = ssl.create_default_context()
        self._idle: deque[tuple[float, _Connection]] = deque()

    def send(self, message: Message, deadline: Deadline, *, before_content: Callable[[], None]) -> Receipt:
        """Send a message; the server must take it for at least one recipient.

        ``before_content`` is called on each connection that is tried, before the content is sent. Raises InDoubtError
        when the server may have taken the message, another SmtpError when not, and what ``before_content`` raises.
        """
        if kept := self._take_idle(deadline):
            try:
                return self._transact(kept, message, before_content)
            except SmtpError as error:
                # The server accepted this sender earlier. Servers have many ways to say that they take no more messages
                # on the connection or have lost the login.
                if not error.is_of_connection:
                    raise
                logger.debug("a kept connection failed; trying a new one")
        return self._transact(self._connect(deadline), message, before_content)

    def check(self) -> None:
        """Make sure that there is a connection, kept or new, for the next message; raises OSError."""
        seconds = min(self._settings.smtp_timeout, CHECK_SECONDS)
        deadline = Deadline(seconds)
        connection = self._take_idle(Deadline(seconds / 2))  # a silent connection leaves time for a new one
        if connection is None or not connection.accepts_noop():
            connection = self._connect(deadline)
        self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        """Close all kept connections."""
        while connection := self._take_idle(Deadline(1)):
            connection.quit_and_close()

    def _take_idle(self, deadline: Deadline) -> "_Connection | None":
        """The connection that was used last, if there is one; those that were idle for too long are closed."""
        with suppress(IndexError):  # there is none, or another thread has just taken it
            while time.monotonic() - self._idle[0][0] >= IDLE_SECONDS:
                self._idle.popleft()[1].quit_and_close()
            _, connection = self._idle.pop()
            connection.deadline = deadline
            return connection
        return None

    def _connect(self, deadline: Deadline) -> "_Connection":
        connection = self._reach(deadline)
        connection.deadline = deadline
        username, password = self._settings.smtp_username, self._settings.smtp_password
        if username and password:
            with connection.closed_on_failure():
                connection.authenticate(username, password)
        return connection

    def _reach(self, deadline: Deadline) -> "_Connection":
        """Connect to the first address that is ready for the login; each one gets its share of the time."""
        with _at(Step.LOOKUP):
            addresses = self._resolver.addresses(deadline.remaining())
        failure: SmtpError | None = None
        for number, (*_, address) in enumerate(addresses):
            left = len(addresses) - number
            try:
                with _at(Step.CONNECTION):
                    share = Deadline(deadline.remaining() / min(left, _MOST_SHARES))
                    connection = _Connection(socket.create_connection(address[:2], share.remaining()), share)
            except SmtpError as error:
                failure = failure or error
                continue
            try:
                return self._begin(connection)
            except SmtpError as error:
                failure = error  # it says more than an unreachable address, such as IPv6 on many machines
                if left > 1:
                    logger.warning("trying the server's next address after: %s", error.reason)
        raise failure or SmtpError(Step.LOOKUP, f"{Step.LOOKUP.value}: it has no address", "lookup")

    def _begin(self, connection: "_Connection") -> "_Connection":
        """Wait for the greeting, send EHLO and start TLS if it is set."""
        security = self._settings.smtp_security
        with connection.closed_on_failure():
            try:
                if security == "tls":
                    connection.start_tls(self._tls, self._host)
                with _at(Step.GREETING):
                    greeting = connection.getreply()
                _expect(Step.GREETING, greeting, _READY)
            except SmtpError as error:
                self._note_likely_cause(error)
                raise
            connection.take_step(Step.EHLO, connection.ehlo, _OK)
            if security == "starttls":
                if not connection.has_extn("starttls"):
                    raise SmtpError(Step.STARTTLS, "the server offers no STARTTLS", "starttls")
                connection.take_step(Step.STARTTLS, partial(connection.docmd, "STARTTLS"), _READY)
                connection.start_tls(self._tls, self._host)
                connection.take_step(Step.EHLO, connection.ehlo, _OK)
        return connection

    def _note_likely_cause(self, error: SmtpError) -> None:
        """Note on an error before EHLO which SMTP_SECURITY the port usually has."""
        port, security = self._settings.smtp_port, self._settings.smtp_security
        usual = USUAL_SECURITY.get(port, security)
        if security == "tls":
            is_understood = error.step is not Step.TLS or error.code == "certificate"
        else:
            is_understood = isinstance(error, RefusedError) and error.replies[0][0] >= 0
        if (security == "tls") != (usual == "tls") and not is_understood:
            error.add_note(f"port {port} usually needs SMTP_SECURITY={usual}")

    def _transact(self, connection: "_Connection", message: Message, before_content: Callable[[], None]) -> Receipt:
        # An address that is given twice must count once, or nobody would notice that all recipients were refused.
        recipients = list(dict.fromkeys(mailbox.address for mailbox in self._settings.recipients(message.form_type)))
        replies = connection.dialogue(
            (Step.MAIL, f"MAIL FROM:<{self._settings.mail_from.address}>"),
            *((Step.RCPT, f"RCPT TO:<{recipient}>") for recipient in recipients),
            (Step.DATA, "DATA"),
        )
        refused: dict[str, Reply] = {}
        try:
            _expect(Step.MAIL, next(replies), _OK)
            for recipient, reply in zip(recipients, replies, strict=False):
                if reply[0] not in (_OK, _WILL_FORWARD):
                    refused[recipient] = reply
                    logger.warning("the mail server refused a recipient of %s with %d", message.message_id, reply[0])
            if len(refused) == len(recipients):
                raise RefusedError(Step.RCPT, *refused.values(), recipients=refused)
            _expect(Step.DATA, next(replies), _GO_AHEAD)
            before_content()
            with _at(Step.CONTENT):
                connection.expect_silence()
            try:  # dots are doubled as in RFC 5321, section 4.5.2
                connection.send(re.sub(rb"^\.", b"..", message.content, flags=re.MULTILINE) + b".\r\n")
                code, text = connection.getreply()
            except OSError as error:
                raise InDoubtError from error
            if code != _OK:
                raise RefusedError(Step.CONTENT, (code, text)) if code in range(400, 600) else InDoubtError
        except BaseException as error:
            if isinstance(error, RefusedError):
                connection.quit_and_close()
            connection.close()
            raise
        connection.noops = 0
        self._idle.append((time.monotonic(), connection))
        return Receipt(f"{code} {text.decode(errors='replace')}", refused)


def own_name(address: str) -> str:
    """The name of this host for EHLO, without the DNS: a domain, else ``address`` (RFC 5321, 4.1.1.1 and 4.1.3)."""
    name, label = socket.gethostname(), "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
    if re.fullmatch(rf"{label}(?:\.{label})+", name):
        return name
    address = address.partition("%")[0]  # the zone has a meaning on this host only
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


class _Connection(smtplib.SMTP):
    """smtplib's client with one deadline for all reads and writes, where smtplib has a timeout for each."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        super().__init__(local_hostname=own_name(connected.getsockname()[0]))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock: socket.socket | None = connected
        self.deadline = deadline
        self.noops = 0  # since the last message
        self._unread = b""

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """Close the connection on any exception."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def take_step(self, step: Step, command: Callable[[], Reply], code: int) -> None:
        """Send a command; raises SmtpError unless the reply has this code."""
        with _at(step):
            self.expect_silence()
            reply = command()
        _expect(step, reply, code)

    def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Encrypt the connection; the certificate must have the name of the host. Raises SmtpError."""
        with _at(Step.TLS), self._limited_socket() as connected:
            self.sock = context.wrap_socket(connected, server_hostname=host)

    def authenticate(self, username: str, password: str) -> None:
        """Log in with the first mechanism that works; raises SmtpError.

        smtplib's ``login`` hides a refusal that ends the connection.
        """
        self.user, self.password = username, password
        offered = self.esmtp_features.get("auth", "").upper().split()
        failure = SmtpError(Step.AUTH, "the server offers no supported AUTH mechanism", "auth")
        for name in [each for each in ("CRAM-MD5", "PLAIN", "LOGIN") if each in offered]:
            try:
                with _at(Step.AUTH):
                    reply = self._attempt(name)
            except SmtpError as error:
                raise failure if isinstance(failure, RefusedError) else error from None
            if reply is None:
                failure = SmtpError(Step.AUTH, f"AUTH {name} was not completed", "auth")
            elif reply[0] == _LOGGED_IN:  # smtplib takes 503, too
                return
            else:
                status = _ENHANCED.match(reply[1])  # its text can quote the password
                failure = RefusedError(Step.AUTH, (reply[0], status[0] if status else b""))
        raise failure

    def _attempt(self, mechanism: str) -> Reply | None:
        """The last reply to an AUTH; None when the exchange was malformed."""
        self.expect_silence()
        try:
            responses = getattr(self, f"auth_{mechanism.lower().replace('-', '_')}")
            # Some servers ignore a user name sent with AUTH LOGIN, and then take the password for it.
            return self.auth(mechanism, responses, initial_response_ok=mechanism != "LOGIN")
        except smtplib.SMTPAuthenticationError as error:
            return error.smtp_code, cast("bytes", error.smtp_error)
        except (smtplib.SMTPException, ValueError):  # no MD5 here (FIPS), or a malformed challenge
            self.docmd("*")  # ends the exchange
            return None

    def accepts_noop(self) -> bool:
        """Send NOOP; return True when it is accepted, else close the connection."""
        self.noops += 1
        with suppress(OSError):
            if self.noops <= MAX_NOOPS and next(self.dialogue((Step.CONNECTION, "NOOP")))[0] == _OK:
                return True
        self.quit_and_close()
        return False

    def dialogue(self, *commands: tuple[Step, str]) -> Iterator[Reply]:
        """Send the commands, together if the server allows pipelining (RFC 2920), and yield their replies."""
        for group in [commands] if self.has_extn("pipelining") else [(command,) for command in commands]:
            with _at(group[0][0]):
                self.expect_silence()
                self.send("".join(f"{command}\r\n" for _, command in group))
            for step, _ in group:
                with _at(step):
                    reply = self.getreply()
                if reply[0] == _CLOSING:
                    raise RefusedError(Step.CLOSING, reply)
                yield reply

    def expect_silence(self) -> None:
        """Raise OSError if unread data is there, so that the next reply belongs to the next command."""
        with self._limited_socket() as connected, suppress(BlockingIOError, ssl.SSLWantReadError):
            connected.settimeout(0)  # the session tickets of TLS are read and do not count
            received = self._unread or connected.recv(1)
            raise OSError("unexpected data from the server" if received else "the server closed the connection")

    def send(self, data: bytes | str) -> None:  # type: ignore[override]  # smtplib allows more types
        """Send in pieces, each with the time that is left: a TLS socket would give each record the whole time."""
        octets = data.encode("ascii") if isinstance(data, str) else data
        for start in range(0, len(octets), _CHUNK):
            with self._limited_socket() as connected:
                connected.sendall(octets[start : start + _CHUNK])

    def getreply(self) -> Reply:
        """Read a reply of at most 64 KiB before the deadline."""
        while not (reply := _REPLY.match(self._unread, 0, _LONGEST_REPLY)):
            with self._limited_socket() as connected:
                received = connected.recv(_CHUNK) if len(self._unread) < _LONGEST_REPLY else b""
                if not received:
                    raise OSError("no complete reply")
            self._unread += received
        self._unread = self._unread[reply.end() :]
        return int(reply[1] or -1), b"\n".join(line[4:].strip() for line in reply[0].splitlines())

    @contextmanager
    def _limited_socket(self) -> Iterator[socket.socket]:
        """The socket, with the time that is left as its timeout; whatever fails closes the connection."""
        if self.sock is None:
            raise OSError("not connected")
        with self.closed_on_failure():
            self.sock.settimeout(self.deadline.remaining())
            yield self.sock

    def quit_and_close(self) -> None:
        """Send QUIT and close the connection without awaiting a reply."""
        self.deadline = Deadline(1)
        with suppress(OSError):  # the server may be gone already
            self.expect_silence()
            self.send(b"QUIT\r\n")
        self.close()
