"""What takes the requests that the service and its scripts make of other services, and keeps them."""

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Sent(NamedTuple):
    path: str
    content_type: str
    content: bytes
    """Unpacked."""


class Receiver(ThreadingHTTPServer):
    """Takes what is posted to it, and answers with its status."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = HTTPStatus.OK
        self.sent: list[Sent] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            content = gzip.decompress(content)
        self.server.sent.append(Sent(self.path, self.headers["Content-Type"], content))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver, ThreadPoolExecutor(1) as pool:
        pool.submit(receiver.serve_forever, 0.01)  # by default it would notice its end after half a second
        try:
            yield receiver
        finally:
            receiver.shutdown()
