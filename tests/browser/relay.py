"""A way to the service on which the test chooses the client address, because all tests of a run share the service."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from itertools import count
from socketserver import BaseRequestHandler, ThreadingTCPServer

HOST = "127.0.0.1"


class Relay(ThreadingTCPServer):
    """Passes connections on as they are, each from the address that is the client's when it comes in."""

    daemon_threads = True
    block_on_close = False  # a browser keeps connections open that it no longer needs
    request_queue_size = 128

    def __init__(self, service_port: int) -> None:
        super().__init__((HOST, 0), _Connection)
        self.service_port = service_port
        self.open: set[socket.socket] = set()
        self._numbers = count(1)
        self.take_new_address()

    def take_new_address(self) -> None:
        """From here on requests come from a client that the service has not seen: all of 127/8 is this machine."""
        self.cut()  # a browser would go on using the connections that it has, from the address before
        high, low = divmod(next(self._numbers), 250)
        self.address = f"127.1.{high}.{low + 1}"

    def cut(self) -> None:
        """Close every connection, also where an answer is awaited."""
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Connection(BaseRequestHandler):
    server: Relay
    request: socket.socket

    def handle(self) -> None:
        service = (HOST, self.server.service_port)
        with suppress(OSError), socket.create_connection(service, source_address=(self.server.address, 0)) as upstream:
            other = {self.request: upstream, upstream: self.request}
            self.server.open.add(self.request)
            while True:
                for end in select.select(list(other), [], [])[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    other[end].sendall(data)

    def finish(self) -> None:
        self.server.open.discard(self.request)
