"""The real gunicorn with the project's own configuration, in a process of its own."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOOT_SECONDS = 60

_given: set[int] = set()


def newest_worker(log: str) -> int:
    """The process id of the worker that gunicorn has started last."""
    return int(re.findall(r"Booting worker with pid: (\d+)", log)[-1])


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[bytes]
    port: int
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        while not _answers(self):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def wait_until_it_takes_no_requests(self) -> None:
        """Return once the worker has heard that it is to stop: it leaves new connections to wait."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with self.connect() as connection:
                connection.settimeout(0.5)
                connection.sendall(b"OPTIONS /api HTTP/1.0\r\n\r\n")
                try:
                    connection.recv(1)
                except TimeoutError:
                    return
        raise AssertionError("the service still takes requests")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()


def free_port() -> int:
    """A port that nobody listens on and that no other caller has been given."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in _given:
            _given.add(port)
            return port


def start(directory: Path, **environ: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Starts gunicorn as `make run` does, with nothing in its environment but what is passed."""
    log_file = directory / "gunicorn.log"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "COVERAGE_PROCESS_CONFIG") if name in os.environ}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn"],
            cwd=ROOT,
            env=kept | {"MAIL_DIR": str(directory / "mail")} | environ,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return process, log_file


@contextmanager
def serving(directory: Path, **environ: str) -> Iterator[Server]:
    port = free_port()
    process, log_file = start(directory, BIND=f"127.0.0.1:{port}", **environ)
    server = Server(process, port, log_file)
    try:
        server.wait_until_it_answers()
        assert "Booting worker" in server.log, "another server answers"
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _answers(server: Server) -> bool:
    try:
        server.request("OPTIONS", "/api")
    except OSError:
        return False
    return True
