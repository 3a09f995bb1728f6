"""The connections of the real gunicorn: no more than it has files for, and a stop waits until all are answered."""

import os
import re
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from socket import create_connection, create_server, socket

import pytest
from gunicorn.workers.gthread import ThreadWorker

from app.worker import EnvelopeWorker
from tests.server.gunicorn import GUNICORN, PATIENCE, newest_worker, serving, start

FILES = 320


def configured(directory: Path, *before: str, **environ: str) -> dict[str, int]:
    """The numbers among gunicorn's settings, which it prints when it is started so."""
    process, log = start(directory, command=(*before, *GUNICORN, "--print-config"), **environ)
    assert process.wait(PATIENCE) == 0
    return {name: int(value) for name, value in re.findall(r"^(\w+) += (\d+)$", log.read_text(), re.MULTILINE)}


@pytest.mark.needs("prlimit")
def test_a_worker_takes_no_more_connections_than_it_has_files_for(tmp_path: Path) -> None:
    """A process that finds no descriptor for a connection ends, and with it all requests that it has in hand."""
    config = configured(tmp_path, "prlimit", f"--nofile={FILES}:{FILES}")

    # Each thread may have one to the mail server, one to Redis, and the file of a message; the rest is below 100.
    assert config["worker_connections"] + 3 * config["threads"] + 100 <= FILES


def test_a_reload_or_a_stop_cuts_no_hand_over_however_long_it_may_take(tmp_path: Path) -> None:
    assert configured(tmp_path, SMTP_TIMEOUT="90")["graceful_timeout"] > 90


REQUEST = b"OPTIONS /api HTTP/1.1\r\nHost: a\r\n\r\n"
ANSWER = b"HTTP/1.1 204"
WAITING = 20


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


def test_a_worker_that_stops_accepts_all_that_wait_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above, the worker may look at the socket by chance before it learns of the stop."""
    accepted: list[socket] = []
    monkeypatch.setattr(ThreadWorker, "accept", lambda _, listener: accepted.append(listener.accept()[0]))
    monkeypatch.setattr(ThreadWorker, "set_accept_enabled", lambda *_: None)
    worker = EnvelopeWorker.__new__(EnvelopeWorker)
    with create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        worker.alive, worker.sockets = False, [listener]
        for _ in range(WAITING):
            stack.enter_context(create_connection(listener.getsockname()))
        worker.set_accept_enabled(False)
        for connection in accepted:
            connection.close()

    assert len(accepted) == WAITING


def answer(connection: socket) -> bytes:
    """The begin of the answer. The client closes then, as a proxy does: gunicorn waits for it."""
    with connection:
        try:
            return connection.recv(len(ANSWER))
        except ConnectionError:
            return b""
