"""The gunicorn worker and logger of the service.

The worker answers malformed HTTP in the envelope, announces every close of a connection, and waits for no client on the
thread that accepts all others.
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
from gunicorn.glogging import Logger
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.http.wsgi import Response, base_environ
from gunicorn.workers.gthread import TConn, ThreadWorker

from app.api.admission import REFUSED_BY_SERVER
from app.api.body import invalid_body
from app.errors import ApiError, ErrorCode
from app.logs import log_unforeseen
from app.settings import SettingsError

LINGER_SECONDS = 2.0
"""The longest time for which a closed connection is read on, so that its client can read the answer."""

LINGER_BYTES = 1024 * 1024
"""The most that is read of it."""

MAX_LINGERING = 64
"""Connections that are read on at once."""

MAX_UNREAD_BYTES = 256 * 1024
"""The most that is read of a body that the app did not want, to keep the connection; the shipped nginx lets in less."""

_CHUNK = 65_536

_NO_CONNECTION = frozenset({errno.EAGAIN, errno.ECONNABORTED})
_PAUSE_SECONDS = 0.05
_SAY_AGAIN_SECONDS = 60.0

logger = logging.getLogger(__name__)


class ServerLogger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's logger without its access log: addresses are personal data, and the service has a line of its own."""

    def access(self, *_: Any) -> None:
        """Do nothing; gunicorn would collect all that a line may show, even where none is written."""


class Connection(TConn):  # type: ignore[misc]  # gunicorn ships no types
    """A connection whose close keeps nobody waiting."""

    def __init__(self, worker: EnvelopeWorker, client: socket.socket, address: Any, server: Any) -> None:
        super().__init__(worker.cfg, client, address, server)
        self._linger = worker.linger
        self.bytes_left = LINGER_BYTES

    def close(self, graceful: bool = False) -> None:  # noqa: FBT001, FBT002 - gunicorn's signature
        """Close it; where the client may still be sending, the worker reads on for a while."""
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
    """A gthread worker that lets the app's own handlers render what gunicorn would answer in HTML."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lingering: deque[Connection] = deque()
        self._say_from = 0.0

    def load_wsgi(self) -> None:
        """Make the app; settings that it cannot use stop the service, where gunicorn would try again without end."""
        try:
            super().load_wsgi()
        except SettingsError as error:
            self.log.error("%s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        self.wsgi.wsgi_app = self._announcing_close(self.wsgi.wsgi_app)

    def _announcing_close(self, app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """The app; its responses announce that their connection is closed, whenever it is (RFC 9112, section 9.6).

        gunicorn decides that before the app runs. It closes without a word if it is told to stop meanwhile, or if much
        of the body is left unread. A proxy would send the next client's request into such a connection.
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
        """Accept a connection; when that fails, without a free descriptor above all, go on with those there are."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno not in _NO_CONNECTION:
                self._pause(error)
            return
        self.nr_conns += 1
        # It gets a thread once it has said something. gunicorn would let one wait for that, five seconds each.
        conn = Connection(self, client, address, listener.getsockname())
        conn.set_timeout()
        self.pending_conns.append(conn)
        self.poller.register(client, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _pause(self, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._say_from:
            self.log.error("connections have to wait: %s", error.strerror)
        self._say_from = now + _SAY_AGAIN_SECONDS  # so that it is said once, however long it lasts
        # The listener stays readable: without a pause the loop would do nothing but try again.
        time.sleep(_PAUSE_SECONDS)

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - gunicorn's signature
        """Accept connections or not; a stopping worker first takes those that wait: nobody else would answer them."""
        if not (enabled or self.alive):
            for listener in self.sockets:
                taken = -1
                while taken < self.nr_conns:
                    taken = self.nr_conns
                    self.accept(listener)  # counts it in nr_conns, if there was one
        super().set_accept_enabled(enabled)

    def _cap_keepalive(self, deadline: float) -> None:
        """Let a stopping worker wait no longer for connections that have said nothing than for those that are kept."""
        super()._cap_keepalive(deadline)
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout, deadline)

    def linger(self, conn: Connection) -> None:
        """Read on what a client sends after its answer: a close at once would reset the connection, answer included.

        gunicorn waits for that on its main thread, client by client.
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
            return  # it made room for another one after the poller had found it readable
        self._lingering.remove(conn)
        self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """Close what has waited for data, and what has lingered, for long enough."""
        super().murder_pending()
        while self._lingering and self._lingering[0].timeout <= time.monotonic():
            self._let_go(self._lingering[0])

    def handle_error(self, _req: Any, client: socket.socket, addr: Any, exc: BaseException) -> None:
        """Answer a request that never reached the app, or that broke outside of it; the connection is closed after."""
        if isinstance(exc, ParseException) and not isinstance(exc, (InvalidResponseHeader, InvalidResponseHeaderName)):
            # gunicorn would log the address and a piece of the request, which can be personal data.
            self.log.warning("malformed request refused: %s", type(exc).__name__)
            error = invalid_body("http")
        else:
            log_unforeseen(logger, exc, "the server")
            error = ApiError(ErrorCode.INTERNAL_ERROR)
        # What could not be parsed has no method and no version: it is answered as the plainest of requests.
        request = SimpleNamespace(method="GET", version=(1, 1), headers=[], should_close=lambda: True)
        response = Response(request, client, self.cfg)
        try:
            for chunk in self.wsgi(self._environ(client, addr, error), response.start_response):
                response.write(chunk)
            response.close()
        except OSError:
            self.log.debug("the client of a malformed request is gone")

    def _environ(self, client: socket.socket, addr: Any, error: ApiError) -> dict[str, Any]:
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
            REFUSED_BY_SERVER: error,
        }


def _is_read(body: Any, client: socket.socket) -> bool:
    """Read what has come of a request's body, without waiting for more; returns whether that is all of it."""
    if body.failed:
        return False
    client.setblocking(False)
    try:
        return any(not body.read(_CHUNK) for _ in range(MAX_UNREAD_BYTES // _CHUNK + 1))
    except Exception:  # noqa: BLE001 - nothing has come, or what has come is malformed
        return False
    finally:
        client.setblocking(True)
