"""``make demo``: the service, and the form of examples/contact-form posting to it."""  # noqa: INP001 - no package

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from ipaddress import ip_address
from pathlib import Path
from typing import BinaryIO, ClassVar

from app.settings import Settings

FOLDER = Path(__file__).resolve().parent / "contact-form"
PAGE = FOLDER / "index.html"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""The signals that end a demo."""


class Form(SimpleHTTPRequestHandler):
    """Serves the folder of the form; its page posts to ``service`` in place of the default address."""

    service: ClassVar[str]

    def send_head(self) -> BinaryIO | None:
        """Send the header fields of the page or of a file, and return what is to follow."""
        if Path(self.translate_path(self.path)) not in {FOLDER, PAGE}:
            return super().send_head()
        page = re.sub(r'(?<= action=")https?://[^/]+', self.service, PAGE.read_text("utf-8")).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        return BytesIO(page)

    def log_message(self, *_: object) -> None:
        """Log nothing: the lines are the service's."""


def main() -> int:
    """Serve both until a signal comes or the service ends; returns its exit status."""
    bind = Settings.from_env(os.environ).bind
    host, _, port = bind.rpartition(":")
    if bind.startswith("unix:") or int(port) == 0:
        sys.exit(f"BIND={bind!r}: the demo needs HOST:PORT, because a browser must find the service")
    Form.service = f"http://{'127.0.0.1' if _is_anywhere(host) else host}:{port}"
    form_port = os.environ.get("DEMO_PORT") or "8080"
    try:
        form = ThreadingHTTPServer(("127.0.0.1", int(form_port)), partial(Form, directory=str(FOLDER)))
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no port"
        sys.exit(f"DEMO_PORT={form_port!r}: {reason}: set DEMO_PORT to another port, such as 8081")
    threading.Thread(target=form.serve_forever, daemon=True).start()
    print(f"The service: {Form.service}   The form: http://127.0.0.1:{form.server_port}", flush=True)  # noqa: T201
    # A process group of its own keeps the terminal's signals away: a worker can hang when one comes twice.
    gunicorn = subprocess.Popen([sys.executable, "-m", "gunicorn"], process_group=0)
    for number in SIGNALS:
        signal.signal(number, lambda *_: gunicorn.terminate())
    return gunicorn.wait()


def _is_anywhere(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:  # a name
        return False


if __name__ == "__main__":
    sys.exit(main())
