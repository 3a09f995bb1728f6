"""The real gunicorn with the project's own configuration, in a process of its own."""

import http.client
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.factories import contact_body
from tests.versions import CONTACT
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
BOOT_SECONDS = 60
PATIENCE = 30
"""Seconds for an answer. It must come by then, however busy the machine is; tests of waits count on it, too."""

_addresses = itertools.starmap("127.{}.{}.{}".format, itertools.product(range(64, 255), range(256), range(1, 255)))

LISTENING = r"Listening at: http://127\.0\.0\.1:(\d+)"


def unused_address() -> str:
    """An address that no other request has. Threads may ask at once, because no step of this runs Python."""
    return next(_addresses)


def started_workers(log: str) -> list[int]:
    """The process ids of all workers that gunicorn has started, the oldest first."""
    return [int(worker) for worker in re.findall(r"Booting worker with pid: (\d+)", log)]


def newest_worker(log: str) -> int:
    """The process id of the worker that gunicorn has started last."""
    return started_workers(log)[-1]


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int
    log_file: Path
    client: str = "127.0.0.1"
    """The address from which it is asked: each address of the loopback interface has quotas of its own."""

    def new_client(self) -> "Server":
        """The same service, asked from an address that nobody has used."""
        return replace(self, client=unused_address())

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def mail_dir(self) -> Path:
        return self.log_file.parent / "mail"

    def wait_for(self, pattern: str) -> re.Match[str]:
        """What the log says, as soon as it says it."""
        deadline = time.monotonic() + BOOT_SECONDS
        while not (said := re.search(pattern, self.log)):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)
        return said

    def wait_until_it_answers(self) -> None:
        """Ask it. Once it listens, the answer comes as soon as there is a worker."""

        def answers() -> bool:
            assert self.process.poll() is None, self.log
            with suppress(OSError):
                return bool(self.request("OPTIONS", "/api"))
            return False

        wait_until(answers, seconds=BOOT_SECONDS)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE, source_address=(self.client, 0))

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        source = (self.client, 0)
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, PATIENCE, source_address=source)) as connection:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            body = response.read()
        self.wait_for_line_of(response)
        return response, body

    def post_form(self, **fields: Any) -> tuple[http.client.HTTPResponse, bytes]:
        """Post a form as the website sends it, with these fields changed."""
        body = json.dumps(contact_body(**fields)).encode()
        return self.request("POST", CONTACT, body, {"Content-Type": "application/json"})

    def wait_for_line_of(self, response: http.client.HTTPResponse) -> None:
        """Return once the log has the line of an answered request, and so all that was logged before it."""
        if request_id := response.headers["X-Request-ID"]:
            line = re.compile(f"app\\.request.*{request_id}")  # text or JSON; an error has a line before
            wait_until(lambda: line.search(self.log), seconds=PATIENCE)


GUNICORN = (sys.executable, "-m", "gunicorn")
DEMO = (sys.executable, "-m", "tools.demo")


def start(
    directory: Path, *, command: Sequence[str] = GUNICORN, **environ: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Starts gunicorn as `make run` does, with nothing else in its environment; the kernel chooses the port."""
    log_file = directory / "gunicorn.log"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TZ", "COVERAGE_PROCESS_CONFIG") if name in os.environ}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=kept | {"MAIL_DIR": str(directory / "mail"), "BIND": "127.0.0.1:0"} | environ,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return process, log_file


@contextmanager
def serving(
    directory: Path, *, command: Sequence[str] = GUNICORN, listening: str = LISTENING, **environ: str
) -> Iterator[Server]:
    process, log_file = start(directory, command=command, **environ)
    server = Server(process, 0, log_file)
    try:
        server = replace(server, port=int(server.wait_for(listening)[1]))
        server.wait_until_it_answers()
        yield server
    finally:
        process.terminate()
        process.wait(PATIENCE)
