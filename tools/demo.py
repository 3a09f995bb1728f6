"""``make demo``: the service, the form of docs/contact-form that posts to it, and an inbox with what arrived."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from email import message_from_bytes, policy

from flask import Flask, render_template
from werkzeug.serving import make_server

from app.mail.spool import Spool
from app.metrics.listener import require_free
from app.settings import Settings
from tools import ROOT

FORM = ROOT / "docs" / "contact-form"
LINK = '<p style="text-align: center"><a href="/inbox">Demo: lo que ha llegado</a></p></body>'
PRIVACY = """<!doctype html><html lang="es"><title>Privacidad</title><link rel="stylesheet" href="/page.css">
<meta name="viewport" content="width=device-width"><main><h1>Política de privacidad</h1>
<p>Aquí va la de su empresa. <a href="/">Volver al formulario</a></main>"""
ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD}
"""The signals that end the demo; the last one means that the service has ended."""


def create_app(service: str = "http://127.0.0.1:8000") -> Flask:
    """The website of the demo. Its form posts to ``service``, and its inbox shows the messages in MAIL_DIR."""
    app = Flask(__name__, static_folder=FORM, static_url_path="/", template_folder=".")
    # Otherwise a foreign page could read the inbox through a name of its own that it points to this machine.
    app.config["TRUSTED_HOSTS"] = ["127.0.0.1", "localhost"]
    spool = Spool(Settings.from_env(os.environ).mail_dir)

    @app.get("/")
    @app.get("/index.html")
    def form() -> str:
        page = (FORM / "index.html").read_text("utf-8").replace("</body>", LINK)
        return re.sub(r'(?<= action=")https?://[^/]+', service, page)

    @app.get("/privacidad")
    def privacy() -> str:
        return PRIVACY

    @app.get("/inbox")
    @app.get("/inbox/<name>")
    def inbox(name: str | None = None) -> str:
        messages = {}
        for kept in reversed(spool.messages()):
            with suppress(FileNotFoundError):  # it has just been delivered
                messages[kept.local_part] = message_from_bytes(spool.read(kept), policy=policy.default)
        return render_template("inbox.html", messages=messages, name=name or next(iter(messages), None))

    return app


def main() -> int:
    """Serve the website and the service until a signal or the service's end; returns the service's exit status."""
    bind = Settings.from_env(os.environ).bind
    host, _, port = bind.rpartition(":")
    if bind.startswith("unix:") or int(port) == 0:
        sys.exit(f"BIND={bind!r}: the demo needs HOST:PORT, because a browser must find the service")
    if host in {"0.0.0.0", "[::]"}:  # noqa: S104 - only compared
        host = "127.0.0.1"
    require_free("BIND", bind)
    demo_port = os.environ.get("DEMO_PORT") or "8080"
    try:
        listener = socket.create_server(("127.0.0.1", int(demo_port)))
    except (OSError, OverflowError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a port"
        sys.exit(f"DEMO_PORT={demo_port!r}: {reason}: set DEMO_PORT to another port, such as 8081")
    site_host, site_port = listener.getsockname()
    site = f"http://{site_host}:{site_port}"
    website = make_server(
        site_host, site_port, create_app(f"http://{host}:{port}"), threaded=True, fd=listener.fileno()
    )
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # the terminal is for the service's log
    print(f"The form: {site}   What arrived: {site}/inbox", flush=True)  # noqa: T201
    # Its own process group keeps the terminal's signals away: a worker can hang if it receives one twice.
    gunicorn = subprocess.Popen([sys.executable, "-m", "gunicorn"], process_group=0)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # otherwise another thread may take the signal
    threading.Thread(target=website.serve_forever, daemon=True).start()
    signal.sigwait(ENDS)
    gunicorn.terminate()
    return gunicorn.wait()


if __name__ == "__main__":
    sys.exit(main())
