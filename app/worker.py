"""The gunicorn worker and logger of the service.

The worker answers malformed HTTP in the envelope and announces every close of a connection. Its main thread, which
accepts connections, waits for no client.
"""

from __future__ import annotations

import errno
import io
import logging
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

from gunicorn import util
from gunicorn.arbiter import Arbiter
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.http.wsgi import Response, base_environ
from gunicorn.instrument.statsd import Statsd
from gunicorn.workers.gthread import TConn, ThreadWorker

from app.api.body import invalid_body
from app.errors import ApiError, ErrorCode
from app.logs import drop_exception_text, log_unforeseen
from app.settings import SettingsError

LINGER_SECONDS = 2.0
"""Seconds for which a closed connection is still read, so that its client can read the answer."""

LINGER_BYTES = 1024 * 1024
"""Bytes that are still read of a closed connection."""

MAX_LINGERING = 64
"""Closed connections that are still read at the same time."""

MAX_UNREAD_BYTES = 256 * 1024
"""Bytes that are read of a body that the app did not read, to keep the connection. The shipped nginx lets in less."""

_CHUNK = 65_536

_NO_CONNECTION = frozenset({errno.EAGAIN, errno.ECONNABORTED})
_PAUSE_SECONDS = 0.05
_SAY_AGAIN_SECONDS = 60.0

logger = logging.getLogger(__name__)


class ServerLogger(Statsd):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's logger with its statsd metrics. Its access log, which shows addresses, is silent (app/logs.py)."""

    sock: Any
    """The socket of the statsd receiver; None without one."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        if self.sock:
            self.sock = _Packets(self.sock, self)
        elif cfg.statsd_host:
            self.warning("statsd gets nothing until the next start: its socket or its name is not there")

    def access(self, *args: Any) -> None:
        """Send the metrics of a request, when somebody receives them."""
        if self.sock:
            super().access(*args)

    def atoms(self, *_: Any) -> dict[str, Any]:
        """The parts of a line of the access log: none, because no line is written."""
        return {}


class _Packets:
    """A statsd socket that never waits and never fails: a receiver that hangs or is away misses packets.

    gunicorn would let every thread wait for the receiver on a full unix socket, and log a traceback for every packet.
    """

    def __init__(self, sock: socket.socket, log: ServerLogger) -> None:
        self._sock = sock
        self._log = log
        self._say_from = 0.0

    def send(self, packet: bytes) -> None:
        """Send a packet, or lose it and say so once a minute at most."""
        try:
            self._sock.send(packet, socket.MSG_DONTWAIT)
        except OSError as error:
            now = time.monotonic()
            if now >= self._say_from:
                self._say_from = now + _SAY_AGAIN_SECONDS
                self._log.warning("statsd misses packets: %s", error.strerror)


class Connection(TConn):  # type: ignore[misc]  # gunicorn ships no types
    """A connection that closes without holding up the worker."""

    def __init__(self, worker: EnvelopeWorker, client: socket.socket, address: Any, server: Any) -> None:
        super().__init__(worker.cfg, client, address, server)
        self._linger = worker.linger
        self.bytes_left = LINGER_BYTES

    def close(self, graceful: bool = False) -> None:  # noqa: FBT001, FBT002 - gunicorn's signature
        """Close it. If the client may still be sending, the worker first reads on for a while."""
        if graceful and self.sock.fileno() >= 0 and self._may_be_sending():
            self._linger(self)
        else:
            util.close(self.sock)

    def _may_be_sending(self) -> bool:
        parser = self.parser
        parsed = parser is not None and parser.mesg is not None and parser.mesg.req_number == parser.req_count
        if not (parsed and _is_read(parser.mesg.body, self.sock)):
            return True
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False


class EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """A gthread worker. The app's error handlers render the errors that gunicorn would answer in HTML."""

    wsgi: Any
    """The application that gunicorn calls for each request: ours, in a function around it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lingering: deque[Connection] = deque()
        self._say_from = 0.0

    def load_wsgi(self) -> None:
        """Make the app. Settings that it cannot use stop the service; gunicorn would start workers without end."""
        try:
            super().load_wsgi()
        except SettingsError as error:
            self.log.error("%s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        self.background = self.wsgi.background
        app = self.wsgi
        self.wsgi = self._announcing_close(app)
        self.wsgi.refuse = app.refuse
        # Until here an exception can only tell the operator why the start failed. From here on it can quote a visitor.
        self.log.error_log.addFilter(drop_exception_text)

    def _announcing_close(self, app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """The app, whose responses announce every close of their connection (RFC 9112, section 9.6).

        gunicorn decides about the close before the app runs. Later it closes without an announcement when it has been
        told to stop, or when much of the body was not read. A proxy would send the next request into that connection.

        This is around all of the app: what extensions put around it may pass on a ``start_response`` of their own.
        """

        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            def begin(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
                has_body = "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ
                if not self.alive or (has_body and not _is_read(environ["wsgi.input"], environ["gunicorn.socket"])):
                    response: Response = start_response.__self__  # type: ignore[attr-defined]  # a bound method
                    response.force_close()
                return start_response(status, headers, exc_info)

            return app(environ, begin)

        return serve

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection. When that fails, mostly for want of descriptors, go on with the others."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno not in _NO_CONNECTION:
                self._pause(error)
            return
        self.nr_conns += 1
        # It gets a thread when it has sent something. gunicorn would let a thread wait up to five seconds for that.
        conn = Connection(self, client, address, listener.getsockname())
        conn.set_timeout()
        self.pending_conns.append(conn)
        self.poller.register(client, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _pause(self, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._say_from:
            self.log.error("connections have to wait: %s", error.strerror)
        self._say_from = now + _SAY_AGAIN_SECONDS  # one line, however long it lasts
        # The listener stays readable, so without a pause the loop would try again all the time.
        time.sleep(_PAUSE_SECONDS)

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - gunicorn's signature
        """Accept connections or not. A stopping worker first accepts those that wait: nobody else answers them."""
        if not (enabled or self.alive):
            self.background.wind_down()
            for listener in self.sockets:
                taken = -1
                while taken < self.nr_conns:
                    taken = self.nr_conns
                    self.accept(listener)  # raises nr_conns when it has accepted one
        super().set_accept_enabled(enabled)

    def _cap_keepalive(self, deadline: float) -> None:
        """Limit how long a stopping worker keeps connections: those that have sent nothing, too."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def linger(self, conn: Connection) -> None:
        """Go on reading from a client that has its answer. Closing at once could lose the answer.

        gunicorn would do so on its main thread, one client after the other.
        """
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            conn.close()
            return
        if len(self._lingering) >= MAX_LINGERING:
            self._let_go(self._lingering[0])
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._read_on, conn))
        conn.timeout = time.monotonic() + LINGER_SECONDS
        self._lingering.append(conn)
        self.nr_conns += 1

    def _read_on(self, conn: Connection, client: socket.socket) -> None:
        try:
            size = len(client.recv(_CHUNK))
        except OSError:
            size = 0
        conn.bytes_left -= size
        if not size or conn.bytes_left < 0:
            self._let_go(conn)

    def _let_go(self, conn: Connection) -> None:
        if conn not in self._lingering:
            return  # it has made room for another one since the poller found it readable
        self._lingering.remove(conn)
        self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """Close the connections whose time to send or to linger is over."""
        super().murder_pending()
        while self._lingering and self._lingering[0].timeout <= time.monotonic():
            self._let_go(self._lingering[0])

    def handle_error(self, _req: Any, client: socket.socket, addr: Any, exc: BaseException) -> None:
        """Answer a request that never reached the app or failed outside of it, and close the connection."""
        if isinstance(exc, ParseException) and not isinstance(exc, (InvalidResponseHeader, InvalidResponseHeaderName)):
            # gunicorn would log the address and a piece of the request, which can be personal data.
            self.log.warning("malformed request refused: %s", type(exc).__name__)
            error = invalid_body("http")
        else:
            log_unforeseen(logger, exc, "the server")
            error = ApiError(ErrorCode.INTERNAL_ERROR)
        # A request that could not be parsed has no method and no version. It is answered like a plain GET.
        request = SimpleNamespace(method="GET", version=(1, 1), headers=[], should_close=lambda: True)
        response = Response(request, client, self.cfg)
        try:
            environ = self._environ(client, addr)
            for chunk in self.wsgi.refuse(environ, error)(environ, response.start_response):
                response.write(chunk)
            response.close()
        except OSError:
            self.log.debug("the client of a malformed request is gone")

    def _environ(self, client: socket.socket, addr: Any) -> dict[str, Any]:
        local = client.getsockname()
        host, port = local[:2] if isinstance(local, tuple) else ("", "")  # a unix socket has neither
        environ: dict[str, Any] = base_environ(self.cfg)
        return environ | {
            "REQUEST_METHOD": "GET",
            "SCRIPT_NAME": "",
            "PATH_INFO": "",
            "QUERY_STRING": "",
            "SERVER_NAME": host,
            "SERVER_PORT": str(port),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": addr[0] if isinstance(addr, tuple) else "",
            "wsgi.input": io.BytesIO(),
            "wsgi.url_scheme": "http",
        }


def _is_read(body: Any, client: socket.socket) -> bool:
    """Read the part of a body that has arrived, without waiting. True when it is complete."""
    if body.failed:
        return False
    client.setblocking(False)
    try:
        return any(not body.read(_CHUNK) for _ in range(MAX_UNREAD_BYTES // _CHUNK + 1))
    except Exception:  # noqa: BLE001 - nothing has come, or what has come is malformed
        return False
    finally:
        client.setblocking(True)
