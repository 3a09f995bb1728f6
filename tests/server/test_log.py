"""The log of the real gunicorn when nobody reads it, and when the service stops."""

from __future__ import annotations

import fcntl
import http.client
import os
import re
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server.gunicorn import GUNICORN, LISTENING, PATIENCE, ROOT, newest_worker, serving
from tests.waiting import wait_until

REQUESTS = 300
"""Their lines are more than what is between the service and the reader can hold."""


@dataclass
class Unread:
    """A service whose standard error has been read until it said where it listens."""

    process: subprocess.Popen[bytes]
    reading: int
    port: int

    def ask(self, number: int) -> tuple[int, str]:
        """The status and the id of a request, from one of many clients, because each has quotas."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, PATIENCE)) as connection:
            connection.request("GET", "/api", headers={"X-Forwarded-For": f"10.0.0.{number % 20}"})
            with connection.getresponse() as response:
                response.read()
                return response.status, response.headers["X-Request-ID"]

    def workers(self) -> set[str]:
        pid = self.process.pid
        return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    def read(self) -> str:
        """Read until nobody can write any more."""
        with open(self.reading, closefd=False) as lines:
            return lines.read()


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, resource.getpagesize())
    yield reading, writing
    os.close(reading)


@contextmanager
def journal() -> Iterator[tuple[int, int]]:
    """The two ends of a socket, as systemd gives a service one of the journal."""
    reading, writing = socket.socketpair()
    writing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    yield reading.fileno(), writing.detach()
    reading.close()


@pytest.fixture(params=[pipe, journal])
def unread(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Unread]:
    environ = {"MAIL_DIR": str(tmp_path / "mail"), "BIND": "127.0.0.1:0", "TRUSTED_PROXIES": "1"}
    with request.param() as (reading, writing):
        process = subprocess.Popen(GUNICORN, cwd=ROOT, env=environ, stdout=writing, stderr=writing)
        os.close(writing)
        said = b""
        while not (listening := re.search(LISTENING, said.decode())):
            said += os.read(reading, 4096)
        try:
            yield Unread(process, reading, int(listening[1]))
        finally:
            process.kill()
            process.wait(PATIENCE)


def test_a_log_that_nobody_reads_stops_neither_a_request_nor_a_signal(unread: Unread) -> None:
    statuses = [unread.ask(number)[0] for number in range(REQUESTS)]

    before = unread.workers()
    unread.process.send_signal(signal.SIGHUP)
    wait_until(lambda: unread.workers() and not unread.workers() & before)
    after_the_reload, _ = unread.ask(REQUESTS)
    unread.process.terminate()
    begun = time.monotonic()
    status = unread.process.wait(PATIENCE)

    assert [*statuses, after_the_reload] == [200] * (REQUESTS + 1)
    assert status == 0
    assert time.monotonic() - begun < 10


def test_what_was_logged_before_a_stop_is_written(unread: Unread) -> None:
    ids = [unread.ask(number)[1] for number in range(REQUESTS)]
    (worker,) = unread.workers()

    unread.process.terminate()
    log = unread.read()

    assert re.findall(r" INFO app\.request (\w+) ", log) == ids
    assert log.count(f" Worker exiting (pid: {worker})\n") == 1
    assert log.endswith(" Shutting down: Master\n")


def test_a_reload_leaves_no_thread_behind(tmp_path: Path) -> None:
    """gunicorn's first process logs before it and after it, each time by a new handler."""
    with serving(tmp_path) as server:
        threads = Path(f"/proc/{server.process.pid}/task")
        for _ in range(4):
            before = newest_worker(server.log)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda before=before: newest_worker(server.log) != before)  # type: ignore[misc]
            wait_until(lambda before=before: not Path(f"/proc/{before}").exists())  # type: ignore[misc]

        wait_until(lambda: len([*threads.iterdir()]) <= 2)
