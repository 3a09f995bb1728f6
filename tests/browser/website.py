"""The company's website: examples/contact-form under an origin of its own, as a developer would copy it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples" / "contact-form"
ACTION = re.compile(r'(?<=action=")http://127\.0\.0\.1:8000(/[^"]*)(?=")')


@contextmanager
def serving_form(service: str, path: str | None = None) -> Iterator[str]:
    """Serves the example and gives its address; the form posts to ``service``, and to ``path`` in place of its own.

    The policy of the pages allows nothing but the page's own files and the service.
    """
    policy = f"default-src 'self'; connect-src {service}; form-action {service}"

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, directory=str(FOLDER), **kwargs)

        def do_GET(self) -> None:
            if self.path == "/":
                self._send_page()
            else:
                super().do_GET()

        def _send_page(self) -> None:
            page, replaced = ACTION.subn(
                lambda known: service + (path or known[1]), (FOLDER / "index.html").read_text()
            )
            assert replaced == 1
            body = page.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", policy)
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="website")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
