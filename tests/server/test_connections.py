"""The connections of the real gunicorn: no more than it has files, and a stop leaves none without an answer."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from socket import socket

import pytest

from tests.server.gunicorn import GUNICORN, newest_worker, serving
from tests.waiting import wait_until

FILES = 320
CONNECTIONS = 400
"""More than a process with so many files can have."""


@pytest.mark.needs("/proc", "prlimit")
def test_a_worker_takes_no_more_connections_than_it_has_files(tmp_path: Path) -> None:
    """A process that finds no descriptor for a connection ends, and with it all requests that it has in hand."""
    command = ("prlimit", f"--nofile={FILES}:{FILES}", *GUNICORN)
    with serving(tmp_path, command=command) as server:
        worker = newest_worker(server.log)
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                stack.enter_context(server.connect()).sendall(b"POST /api")
            wait_until(lambda: not server.takes_connections)

        assert server.request("OPTIONS", "/api")[0].status == 204
        assert newest_worker(server.log) == worker


REQUEST = b"OPTIONS /api HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER = b"HTTP/1.1 204"
WAITING = 20


@pytest.mark.needs("/proc")
def test_connections_that_wait_on_the_socket_are_served_before_it_stops(tmp_path: Path) -> None:
    with serving(tmp_path) as server, ExitStack() as stack:
        worker = newest_worker(server.log)
        os.kill(worker, signal.SIGSTOP)
        waiting = [stack.enter_context(server.connect()) for _ in range(WAITING)]
        for connection in waiting:
            connection.sendall(REQUEST)
        server.process.terminate()
        server.wait_for("Handling signal: term")
        time.sleep(1.1)  # until its look at the socket has timed out, so that it stops without another one
        os.kill(worker, signal.SIGCONT)

        answers = [answer(connection) for connection in waiting]

    assert answers == [ANSWER] * WAITING


def answer(connection: socket) -> bytes:
    """The begin of the answer. The client closes then, as a proxy does: gunicorn waits for it."""
    with connection:
        try:
            return connection.recv(len(ANSWER))
        except ConnectionError:
            return b""
