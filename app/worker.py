"""The gunicorn worker of the service.

It answers malformed HTTP in the envelope, and before it stops it answers what waits to be accepted.
"""

import io
import logging
import select
import socket
import sys
from contextlib import suppress
from email.utils import formatdate
from typing import Any

from gunicorn.errors import AppImportError
from gunicorn.workers.gthread import ThreadWorker

from app.api.body import invalid_body
from app.errors import ApiError, ErrorCode
from app.logs import log_unforeseen
from app.settings import SettingsError

# Names that gunicorn does not document, so each release may break them:
# - gthread.ThreadWorker with handle_error: malformed HTTP is answered in the envelope (gunicorn's issue 993);
# - load_wsgi and errors.AppImportError: settings that the app cannot use stop the service for good;
# - set_accept_enabled, alive, sockets and accept: what waits in the backlog is answered before a stop (issue 3397).
# gunicorn.conf.py uses server.address and server.master_pid, to try BIND before a start and not after USR2.

logger = logging.getLogger(__name__)


class EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """A gthread worker. The app renders the errors that gunicorn would answer in HTML."""

    def load_wsgi(self) -> None:
        """Make the app. Settings that it cannot use stop the service; gunicorn would start workers without end.

        gunicorn.conf.py has read them already, but not what ``--env`` or an operator's own module sets later.
        """
        try:
            super().load_wsgi()
        except SettingsError as error:
            raise AppImportError(error) from None

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - gunicorn's signature
        """Accept connections or not. A stopping worker first accepts those that wait: nobody else answers them."""
        if not (enabled or self.alive):
            from wsgi import app  # noqa: PLC0415 - gunicorn has loaded it by now, perhaps in an operator's own module

            app.background.wind_down()
            with suppress(OSError):  # no descriptor is left: the worker goes on with the connections that it has
                for listener in self.sockets:
                    while select.select([listener], [], [], 0)[0]:
                        self.accept(listener)
        super().set_accept_enabled(enabled)

    def handle_error(self, req: object, client: socket.socket, addr: object, exc: BaseException) -> None:
        """Answer a request that could not be parsed, which has no ``req``, or that failed outside of the app."""
        from wsgi import app  # noqa: PLC0415 - as above

        if req is None:
            # gunicorn would log the address and a piece of the request, which can be personal data.
            logger.warning("malformed request refused: %s", type(exc).__name__)
            error = invalid_body("http")
        else:
            log_unforeseen(logger, exc, "the server")
            error = ApiError(ErrorCode.INTERNAL_ERROR)
        environ = _environ(client, addr)
        response = app.refuse(environ, error)
        headers = [
            ("Date", formatdate(usegmt=True)),
            ("Connection", "close"),
            *response.get_wsgi_headers(environ),
        ]
        head = [f"HTTP/1.1 {response.status}", *(f"{name}: {value}" for name, value in headers), "", ""]
        with suppress(OSError):  # the client has gone
            client.sendall("\r\n".join(head).encode("latin-1") + response.get_data())


def _environ(client: socket.socket, addr: object) -> dict[str, Any]:
    """The environ of PEP 3333. A request that could not be parsed has no method and no path: it counts as a GET."""
    local = client.getsockname()
    host, port = local[:2] if isinstance(local, tuple) else ("", "")  # a unix socket has neither
    return {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "",
        "QUERY_STRING": "",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": addr[0] if isinstance(addr, tuple) else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
