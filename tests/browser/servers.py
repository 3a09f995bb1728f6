"""The company's website, and the way from its visitors to the service."""

import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from app import CONTACT_POLICY
from tests.server.gunicorn import ROOT, Server

FOLDER = ROOT / "docs" / "contact-form"
(POLICY,) = re.findall("(?m)^default-src .+", (FOLDER / "README.md").read_text())
"""The Content-Security-Policy under which the example promises to work."""


EXAMPLES = re.findall("(?s)```html\n(.*?)```", (FOLDER / "README.md").read_text())
"""The markup that the example tells a website to write: the element, and a field of its own."""
LANDING = "portada.html"
"""A page of the website to which its advertisements lead."""
ELEMENT = "elemento.html"
"""A page with the element in place of the copy."""
PAGES = {
    LANDING: """<!doctype html><html lang="es"><title>Portada</title>
<script type="module" src="contact-form.js"></script><a href="./">Contacto</a>""",
    ELEMENT: f"""<!doctype html><html lang="es"><meta charset="utf-8"><title>Contacto comercial</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><main><h1>Contacto</h1>{EXAMPLES[0]}</main>""",
}
SERVICE = re.compile('(?<= action=")https?://[^/"]+')


class Website(ThreadingHTTPServer):
    """Serves the example under an origin of its own, each page with the service whose port its address names."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.edits: dict[str, Callable[[str], str]] = {}
        """What a test changes in the files, by their names."""

    def address(self, service_port: int) -> str:
        return f"http://127.0.0.1:{self.server_port}/{service_port}/"


class _Page(SimpleHTTPRequestHandler):
    server: Website

    def do_GET(self) -> None:
        _, port, name = urlsplit(self.path).path.split("/", 2)
        file, service = name or "index.html", f"http://127.0.0.1:{port}"
        text = SERVICE.sub(service, PAGES.get(file) or (FOLDER / file).read_text())
        body = self.server.edits.get(file, str)(text.replace('="/contact', '="contact')).encode()
        self.send_response_only(200)
        self.send_header("Content-Type", f"{self.guess_type(file)}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY.replace("<service>", service))
        self.end_headers()
        self.wfile.write(body)


class Relay(ThreadingHTTPServer):
    """Passes each form on from a client address of its own, because all tests of a run share the service."""

    def __init__(self, service: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Form)
        self.service = service
        self.loses_answer = False
        """Whether the next answer is lost, with the connection."""


class _Form(BaseHTTPRequestHandler):
    server: Relay

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"]))
        headers = dict(self.headers) | {"Connection": "close"}
        client = self.server.service.new_client()
        for _ in range(CONTACT_POLICY.quota - 1):  # so that the visitor's form is the last that the quota takes
            client.request("POST", "/contact.php")
        answer, body = client.request("POST", self.path, form, headers)
        if self.server.loses_answer:
            self.server.loses_answer = False
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
