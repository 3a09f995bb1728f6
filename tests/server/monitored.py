"""The service as deploy/monitoring has it watched, its visitors, and the receiver of what it tells about them."""

from __future__ import annotations

import gzip
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

import pytest

from tests.server.gunicorn import PATIENCE, ROOT, Server, serving

FOLDER = ROOT / "deploy" / "monitoring"

WORD = "MARIA-4929"
"""It is in every part of a request that a visitor chooses, in the method of some, too."""

TRACE_ID = "4929abcd" * 4

T = TypeVar("T")

SPEAKING = ("Cookie", "Referer", "User-Agent", "Authorization", "X-Forwarded-For", "X-Real-IP", "Accept", "X-Other")


class Sent(NamedTuple):
    path: str
    content: bytes


class Receiver(ThreadingHTTPServer):
    """Takes what it is sent, and keeps it unpacked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: list[Sent] = []

    @property
    def everything(self) -> bytes:
        return b"".join(sent.content for sent in self.sent)

    def the_only(self, find: Callable[[], list[T]]) -> T:
        """The only thing that is found in what was sent, as soon as there is one."""
        deadline = time.monotonic() + PATIENCE
        while not (found := find()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        (only,) = found
        return only


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            content = gzip.decompress(content)
        self.server.sent.append(Sent(self.path, content))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


@contextmanager
def watched(directory: Path, name: str, *, added: str = "", **environ: str) -> Iterator[Server]:
    """The service as this drop-in of deploy/monitoring starts it. Its requests fail where they ask for that.

    A line may be added to the module.
    """
    unit = (FOLDER / f"{name}.conf").read_text()
    (command,) = re.findall(r"exec (.*)'$", unit, re.MULTILINE)
    module = command.rpartition(" ")[2].removesuffix(":app")
    (directory / "monitored.py").write_text(f"from {module} import app\n{added}\n")
    programs = str(Path(sys.executable).parent)
    words = command.replace(".venv/bin", programs).replace(f"{module}:app", "tests.server.crashing:app").split()
    environ |= dict(re.findall(r"([A-Z_]+)=(\S+)", "".join(re.findall("^Environment=(.*\n)", unit, re.MULTILINE))))
    environ["PYTHONPATH"] += f":{directory}"
    with serving(directory, command=words, **environ) as server:
        yield server


FIELDS = {"form_type": "demo", "email": f"{WORD}@example.com", "mensaje": WORD, WORD: WORD}
BODIES = {
    "JSON": ("application/json", json.dumps(FIELDS).encode()),
    "form": ("application/x-www-form-urlencoded", urlencode(FIELDS).encode()),
}
FAILURES = ["RuntimeError", "ValueError", "OSError", "JSONDecodeError", "UnicodeDecodeError", "ExceptionGroup"]
"""The exceptions that a request can ask for. The texts of all of them, and what they hold besides, are WORD."""


def each_failure(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with each exception, raised before and after a body of each kind was read."""
    values = {"body": BODIES, "failure": FAILURES, "moment": ["before", "after"]}
    for name, choices in values.items():
        test = pytest.mark.parametrize(name, choices)(test)
    return test


class Visitor:
    """Asks from an address of its own, and chooses WORD wherever it can choose."""

    addresses = (f"127.4.9.{last}" for last in range(2, 255))

    def __init__(self, server: Server) -> None:
        self.address = next(self.addresses)
        self._server = replace(server, client=self.address)

    def ask(
        self, crash: str, *, method: str = "POST", path: str = "/contact.php", body: str = "JSON", announced: int = 0
    ) -> tuple[int, str]:
        """The status of the answer, and the id of the request. More of the body may be announced than comes."""
        content_type, content = BODIES[body]
        headers = dict.fromkeys(SPEAKING, WORD) | {
            "Host": f"{WORD}.example",
            "Content-Type": content_type,
            "X-Crash": crash,
            "Sentry-Trace": f"{TRACE_ID}-{TRACE_ID[:16]}-1",
            "Traceparent": f"00-{TRACE_ID}-{TRACE_ID[:16]}-01",
            "Baggage": f"sentry-trace_id={TRACE_ID},sentry-release={WORD},other={WORD}",
            "Tracestate": f"other={WORD}",
        }
        if announced:
            headers["Content-Length"] = str(announced)
        response, _ = self._server.request(method, f"{path}?{WORD}", content, headers)
        return response.status, str(response.headers["X-Request-ID"])

    def assert_unknown(self, content: bytes) -> None:
        """Nothing of this visitor is in there: no word, no address, and no trace that it claims to be part of."""
        for chosen in (WORD.encode(), TRACE_ID.encode(), bytes.fromhex(TRACE_ID), self.address.encode()):
            assert chosen.lower() not in content.lower()
