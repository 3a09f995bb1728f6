"""What a stopping service does with the connections that it has, even with those that it has not looked at yet."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.server.gunicorn import newest_worker, serving
from tests.waiting import wait_until

REQUEST = b"OPTIONS /api HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER = b"HTTP/1.1 204"
CONNECTIONS = 20


PAUSED = """
import os, pathlib, signal
from gunicorn.app.wsgiapp import run
from gunicorn.workers.gthread import ThreadWorker

def pause(worker):
    if pathlib.Path(os.environ["PAUSE"]).exists():
        pathlib.Path(os.environ["PAUSE"]).unlink()
        os.kill(worker.pid, signal.SIGSTOP)

ThreadWorker.murder_pending = pause
run()
"""
"""A gunicorn whose worker, when the file is there, pauses after a look at the socket: a signal then ends it at once."""


def test_connections_that_wait_on_the_socket_are_served_before_it_stops(tmp_path: Path) -> None:
    pause = tmp_path / "pause"
    with serving(tmp_path, command=(sys.executable, "-c", PAUSED), PAUSE=str(pause)) as server, ExitStack() as stack:
        worker = newest_worker(server.log)
        pause.touch()
        wait_until(lambda: " T " in Path(f"/proc/{worker}/stat").read_text())
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
