"""What a stopping service does with the connections that it has, even with those that it has not looked at yet."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.server.gunicorn import newest_worker, serving

REQUEST = b"OPTIONS /api HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER = b"HTTP/1.1 204"
CONNECTIONS = 20


def test_connections_that_wait_on_the_socket_are_served_before_it_stops(tmp_path: Path) -> None:
    with serving(tmp_path) as server, ExitStack() as stack:
        worker = newest_worker(server.log)
        os.kill(worker, signal.SIGSTOP)
        waiting: list[socket.socket] = []
        for _ in range(CONNECTIONS):
            waiting.append(stack.enter_context(server.connect()))
            waiting[-1].sendall(REQUEST)
        server.process.terminate()
        server.wait_for("Handling signal: term")
        os.kill(worker, signal.SIGCONT)

        answers = [answer(connection) for connection in waiting]

    assert answers == [ANSWER] * CONNECTIONS


def answer(connection: socket.socket) -> bytes:
    """The begin of the answer. The client closes then, as a proxy does: gunicorn waits for it."""
    with connection:
        try:
            return connection.recv(len(ANSWER))
        except ConnectionError:
            return b""
