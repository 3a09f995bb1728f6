"""What the worker class does where no client can make gunicorn do it."""

from __future__ import annotations

import http.client
import json
import logging
import selectors
import socket
from collections.abc import Iterator

import pytest
from gunicorn.config import Config

from app.worker import EnvelopeWorker
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
    validate_response("GET", "/malformed", response.status, dict(response.headers), body)
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


def test_a_worker_that_has_enough_connections_leaves_the_others_waiting(worker: EnvelopeWorker) -> None:
    worker.alive, worker.nr_conns, worker._accepting = True, 0, True
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as worker.poller:
        worker.sockets = [listener]
        worker.poller.register(listener, selectors.EVENT_READ)
        with socket.create_connection(listener.getsockname()):
            worker.set_accept_enabled(False)

    assert worker.nr_conns == 0
