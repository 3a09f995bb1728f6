"""What of gunicorn the service replaces: its worker, to answer malformed HTTP in the envelope, and its logger."""

from __future__ import annotations

import io
import logging
import os
import socket
import sys
import threading
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.http.wsgi import Response, base_environ
from gunicorn.workers.gthread import ThreadWorker

from app.api.body import invalid_body
from app.api.hooks import REFUSED_BY_SERVER
from app.errors import ApiError, ErrorCode
from app.logs import log_unforeseen
from app.settings import SettingsError

logger = logging.getLogger(__name__)


class ServerLogger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's logger without its access log: addresses are personal data, and the service has a line of its own."""

    def access(self, *_: Any) -> None:
        """Do nothing; gunicorn would collect all that a line may show, even where none is written."""


class EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """A gthread worker that lets the app's own handlers render what gunicorn would answer in HTML."""

    def load_wsgi(self) -> None:
        """Make the app; settings that it cannot use stop the service, where gunicorn would try again without end."""
        try:
            super().load_wsgi()
        except SettingsError as error:
            self.log.error("%s", error)
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        threading.Thread(target=self._import_schema, name="import-schema", daemon=True).start()

    def _import_schema(self) -> None:
        """Import what is too heavy for the start, so that no form waits for it and no upgrade replaces it before.

        Without it no form can be taken: that stops the service, too.
        """
        try:
            import_module("app.contact.schema")
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the installation
            log_unforeseen(logger, error, "the import of the schema")
            os._exit(Arbiter.WORKER_BOOT_ERROR)

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - gunicorn's signature
        """Accept connections or not; a stopping worker takes those that wait first, for nobody else would answer."""
        if not (enabled or self.alive):
            for listener in self.sockets:
                taken = -1
                while taken < self.nr_conns:
                    taken = self.nr_conns
                    self.accept(listener)  # counts it in nr_conns, if there was one
        super().set_accept_enabled(enabled)

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
