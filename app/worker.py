"""The gunicorn worker: it answers malformed HTTP in the envelope, and accepts all waiting connections at once."""

import logging
import select
import socket
from email.utils import formatdate

from gunicorn.workers.gthread import ThreadWorker
from werkzeug import Response
from werkzeug.test import EnvironBuilder

# Undocumented names of gunicorn, which any release may break: gthread.ThreadWorker with handle_error (gunicorn's issue
# 993), wsgi, alive, and accept and set_accept_enabled (issue 3397). gunicorn.conf.py reads GUNICORN_PID.

AT_ONCE = 32
"""Connections that are accepted in one go. gunicorn.conf.py reserves descriptors for them."""

logger = logging.getLogger(__name__)


class EnvelopeWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """A gthread worker. The app answers what gunicorn would answer in HTML or not at all."""

    def accept(self, listener: socket.socket) -> None:
        """Accept all waiting connections. gunicorn accepts one; when it stops, the others get no response."""
        for _ in range(AT_ONCE):
            if not select.select([listener], [], [], 0)[0]:
                return
            super().accept(listener)

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - as gunicorn calls it
        """Accept once more before a stop: connections since the last poll would get no response."""
        if not self.alive:
            for listener in self.sockets:
                self.accept(listener)
        super().set_accept_enabled(enabled)

    def handle_error(self, req: object, client: socket.socket, addr: object, exc: BaseException) -> None:
        """Answer an unparsable request, for which ``req`` is None."""
        if req is not None:
            super().handle_error(req, client, addr, exc)  # an error outside the app
            return
        # gunicorn would log the address and a piece of the request, which can be personal data.
        logger.warning("malformed request refused: %s", type(exc).__name__)
        environ = EnvironBuilder().get_environ()
        # The app refuses an empty path as malformed. A unix socket has no address.
        environ |= {"PATH_INFO": "", "REMOTE_ADDR": addr[0] if isinstance(addr, tuple) else ""}
        response = Response.from_app(self.wsgi, environ, buffered=True)
        fields = [("Date", formatdate(usegmt=True)), ("Connection", "close"), *response.get_wsgi_headers(environ)]
        head = [f"HTTP/1.1 {response.status}", *(f"{name}: {value}" for name, value in fields), "", ""]
        client.sendall("\r\n".join(head).encode("latin-1") + response.get_data())
