"""The company's website: examples/contact-form under an origin of its own, as a developer would copy it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

FOLDER = Path(__file__).parents[2] / "examples" / "contact-form"
ACTION = re.compile(r'(?<=action=")http://127\.0\.0\.1:8000(/[^"]*)(?=")')
(POLICY,) = re.findall("`(default-src [^`]+)`", (FOLDER / "README.md").read_text())
"""The Content-Security-Policy under which the example promises to work."""


class Website:
    """Serves the example to any number of visitors, to each with the service that their address names."""

    def __init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self.edits: dict[str, Callable[[str], str]] = {}
        """What a test changes in the files, by their names."""

    def address(self, service: str, path: str | None = None, query: str = "") -> str:
        """Where the form posts to ``service``, and to ``path`` in place of its own."""
        return f"http://127.0.0.1:{self.server.server_port}/{quote(service + (path or ''), safe='')}/{query}"


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, website: Website, *args: Any, **kwargs: Any) -> None:
        self._edits = website.edits
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:
        _, quoted, file = urlsplit(self.path).path.split("/", 2)
        file = file or "index.html"
        target = unquote(quoted)
        service, path = urljoin(target, "/").removesuffix("/"), urlsplit(target).path
        text, replaced = ACTION.subn(lambda known: service + (path or known[1]), (FOLDER / file).read_text())
        assert replaced == (file == "index.html")
        body = self._edits.get(file, str)(text).encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{self.guess_type(file)}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY.replace("<service>", service))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving_form() -> Iterator[Website]:
    website = Website()
    with website.server as server:
        thread = threading.Thread(target=server.serve_forever, name="website")
        thread.start()
        try:
            yield website
        finally:
            server.shutdown()
            thread.join()
