"""The company's website: examples/contact-form under an origin of its own, as a developer would copy it."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FOLDER = Path(__file__).parents[2] / "examples" / "contact-form"
(POLICY,) = re.findall("`(default-src [^`]+)`", (FOLDER / "README.md").read_text())
"""The Content-Security-Policy under which the example promises to work."""


class Website(ThreadingHTTPServer):
    """Serves the example to any number of visitors, to each with the service whose port their address names."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.edits: dict[str, Callable[[str], str]] = {}
        """What a test changes in the files, by their names."""

    def address(self, service_port: int) -> str:
        return f"http://127.0.0.1:{self.server_port}/{service_port}/"


class _Handler(SimpleHTTPRequestHandler):
    server: Website

    def do_GET(self) -> None:
        _, port, name = urlsplit(self.path).path.split("/", 2)
        file, service = name or "index.html", f"http://127.0.0.1:{port}"
        text = (FOLDER / file).read_text().replace('action="http://127.0.0.1:8000', f'action="{service}')
        body = self.server.edits.get(file, str)(text).encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{self.guess_type(file)}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY.replace("<service>", service))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
