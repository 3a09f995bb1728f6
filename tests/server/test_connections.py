"""The connections of the real gunicorn: no more than it has files, and a stop leaves none without an answer."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from socket import socket

import pytest

from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import GUNICORN, newest_worker, serving
from tests.waiting import wait_until

FILES = 320
FORMS = 48
OTHERS = 400
"""Connections. With the forms they are more than a process with so many files can have."""


@pytest.mark.needs("/proc", "prlimit")
def test_a_worker_takes_no_more_connections_than_it_has_files(tmp_path: Path) -> None:
    """A process that finds no descriptor for a connection ends, and with it all requests that it has in hand."""
    command = ("prlimit", f"--nofile={FILES}:{FILES}", *GUNICORN)
    with (
        SmtpServer({"connect": Act.HANG}) as mail_server,
        serving(tmp_path, command=command, **mail_server.environ, SMTP_TIMEOUT="300") as server,
        ThreadPoolExecutor(FORMS) as pool,
    ):
        worker = newest_worker(server.log)
        posted = [pool.submit(server.new_client().post_form) for _ in range(FORMS)]
        mail_server.wait_until_hung(FORMS // 3)
        with ExitStack() as stack:
            for _ in range(OTHERS):
                stack.enter_context(server.connect()).sendall(b"POST /api")
            wait_until(lambda: not server.takes_connections)
        mail_server.release()
        statuses = {answer.result()[0].status for answer in posted}

        assert statuses == {500}
        assert server.request("OPTIONS", "/api")[0].status == 204
        assert newest_worker(server.log) == worker


REQUEST = b"OPTIONS /api HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER = b"HTTP/1.1 204"
WAITING = 20

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


@pytest.mark.needs("/proc")
def test_connections_that_wait_on_the_socket_are_served_before_it_stops(tmp_path: Path) -> None:
    pause = tmp_path / "pause"
    with serving(tmp_path, command=(sys.executable, "-c", PAUSED), PAUSE=str(pause)) as server, ExitStack() as stack:
        worker = newest_worker(server.log)
        pause.touch()
        wait_until(lambda: " T " in Path(f"/proc/{worker}/stat").read_text())
        waiting = [stack.enter_context(server.connect()) for _ in range(WAITING)]
        for connection in waiting:
            connection.sendall(REQUEST)
        server.process.terminate()
        server.wait_for("Handling signal: term")
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
