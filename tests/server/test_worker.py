"""What the worker class does where no client can make gunicorn do it."""

from __future__ import annotations

import errno
import http.client
import json
import logging
import selectors
import socket
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from gunicorn.config import Config

from app.logs import drop_exception_text
from app.worker import MAX_LINGERING, Connection, EnvelopeWorker
from tests.client import validate_response
from tests.conftest import MakeApp


@pytest.fixture
def worker(make_app: MakeApp) -> EnvelopeWorker:
    worker = EnvelopeWorker.__new__(EnvelopeWorker)
    worker.cfg = Config()
    worker.log = logging.getLogger("gunicorn.error")
    worker.wsgi = make_app()
    return worker


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_failure_outside_the_app_is_an_internal_error_in_the_envelope(
    worker: EnvelopeWorker, sockets: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = sockets

    worker.handle_error(None, ours, "", RuntimeError("secret"))

    response = http.client.HTTPResponse(theirs)
    response.begin()
    body = response.read()
    assert json.loads(body)["error"]["code"] == "internal_error"
    assert json.loads(body)["docs"] == "http://localhost/openapi.json"
    validate_response("GET", "/api", response.status, response.headers.items(), body)
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_worker_that_serves_logs_no_text_of_an_exception(
    worker: EnvelopeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    # gunicorn logs it by itself when a response fails after its start: in a stream, or while it is closed.
    app, log, text = worker.wsgi, logging.getLogger("gunicorn.error"), "secret"
    worker.app, worker.log = SimpleNamespace(wsgi=lambda: app), SimpleNamespace(error_log=log)
    worker.load_wsgi()

    try:
        raise RuntimeError(text)
    except RuntimeError:
        log.exception("Error handling request")

    log.removeFilter(drop_exception_text)
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_client_that_has_gone_is_no_failure(
    worker: EnvelopeWorker, sockets: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = sockets
    theirs.close()

    worker.handle_error(None, ours, "", RuntimeError("secret"))

    assert [record.getMessage().partition("\n")[0] for record in caplog.records] == [
        "unforeseen RuntimeError in the server"
    ]


@pytest.fixture
def lingering(worker: EnvelopeWorker) -> Iterator[list[tuple[Connection, socket.socket]]]:
    """One connection more than the worker reads on, each with the other end."""
    worker.nr_conns, worker._lingering, worker.pending_conns = 0, deque(), deque()
    pairs = [socket.socketpair() for _ in range(MAX_LINGERING + 1)]
    with selectors.DefaultSelector() as worker.poller:
        connections = [(Connection(worker, ours, "", ""), theirs) for ours, theirs in pairs]
        for connection, theirs in connections:
            theirs.sendall(b"x")
            worker.linger(connection)
        yield connections
    for pair in pairs:
        for end in pair:
            end.close()


def test_no_more_connections_are_read_on_than_the_worker_cares_for(
    worker: EnvelopeWorker, lingering: list[tuple[Connection, socket.socket]]
) -> None:
    (first, _), *others = lingering

    assert first.sock.fileno() == -1
    assert all(connection.sock.fileno() >= 0 for connection, _ in others)
    assert worker.nr_conns == MAX_LINGERING


def test_one_that_had_to_go_may_still_be_reported_as_readable(
    worker: EnvelopeWorker, lingering: list[tuple[Connection, socket.socket]]
) -> None:
    first, _ = lingering[0]

    worker._read_on(first, first.sock)

    assert worker.nr_conns == MAX_LINGERING


def test_a_connection_is_read_on_for_a_bounded_time(
    worker: EnvelopeWorker, lingering: list[tuple[Connection, socket.socket]]
) -> None:
    last, _ = lingering[-1]
    worker.murder_pending()
    still_open = last.sock.fileno() >= 0

    last.timeout = 0
    worker._lingering.rotate(1)
    worker.murder_pending()

    assert still_open
    assert last.sock.fileno() == -1


def test_a_connection_is_read_on_for_a_bounded_size(
    worker: EnvelopeWorker, lingering: list[tuple[Connection, socket.socket]]
) -> None:
    last, theirs = lingering[-1]

    last.bytes_left = 2
    worker._read_on(last, last.sock)
    still_open = last.sock.fileno() >= 0
    theirs.sendall(b"xx")
    worker._read_on(last, last.sock)

    assert still_open
    assert last.sock.fileno() == -1


@pytest.mark.parametrize("number", [errno.EPROTO, errno.EPERM, errno.EHOSTUNREACH, errno.EMFILE])
def test_a_connection_that_cannot_be_accepted_ends_no_worker(
    worker: EnvelopeWorker, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    worker.nr_conns, worker._say_from = 0, 0.0

    class Listener:
        def accept(self) -> None:
            raise OSError(number, "no connection")

    for _ in range(3):
        worker.accept(Listener())  # type: ignore[arg-type]  # no socket fails like this when it is asked to

    assert worker.nr_conns == 0
    assert [record.getMessage() for record in caplog.records] == ["connections have to wait: no connection"]


def test_a_worker_that_has_enough_connections_leaves_the_others_waiting(worker: EnvelopeWorker) -> None:
    worker.alive, worker.nr_conns, worker._accepting = True, 0, True
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as worker.poller:
        worker.sockets = [listener]
        worker.poller.register(listener, selectors.EVENT_READ)
        with socket.create_connection(listener.getsockname()):
            worker.set_accept_enabled(False)

    assert worker.nr_conns == 0
