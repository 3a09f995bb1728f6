"""What the worker answers when a request never reaches the app, or fails outside of it."""

from __future__ import annotations

import errno
import http.client
import json
import logging
import selectors
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from app.worker import EnvelopeWorker
from tests.client import validate_response
from tests.conftest import MakeApp
from tests.server.gunicorn import serving, start

SECRET = "ana@example.com"


@pytest.fixture
def worker(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> EnvelopeWorker:
    monkeypatch.setitem(sys.modules, "wsgi", SimpleNamespace(app=make_app()))
    return EnvelopeWorker.__new__(EnvelopeWorker)


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize(
    ("request_of_gunicorn", "code", "said"),
    [
        pytest.param(None, "invalid_body", "malformed request refused: RuntimeError", id="not parsed"),
        pytest.param(object(), "internal_error", "unforeseen RuntimeError in the server", id="parsed"),
    ],
)
def test_what_fails_outside_of_the_app_is_answered_in_the_envelope(
    worker: EnvelopeWorker,
    sockets: tuple[socket.socket, socket.socket],
    caplog: pytest.LogCaptureFixture,
    request_of_gunicorn: object,
    code: str,
    said: str,
) -> None:
    ours, theirs = sockets

    worker.handle_error(request_of_gunicorn, ours, "", RuntimeError(SECRET))
    ours.close()

    response = http.client.HTTPResponse(theirs)
    response.begin()
    body = response.read()
    assert json.loads(body)["error"]["code"] == code
    assert json.loads(body)["docs"] == "http://localhost/openapi.json"
    assert response.headers["Connection"] == "close"
    assert response.headers["Date"].endswith(" GMT")
    assert theirs.recv(1) == b""  # the length was right
    validate_response("GET", "/api", response.status, response.headers.items(), body)
    assert said in caplog.text
    assert SECRET not in caplog.text


def test_a_client_that_has_gone_is_no_failure(
    worker: EnvelopeWorker, sockets: tuple[socket.socket, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = sockets
    theirs.close()

    with caplog.at_level(logging.WARNING):
        worker.handle_error(None, ours, "", RuntimeError(SECRET))

    assert [record.getMessage() for record in caplog.records] == ["malformed request refused: RuntimeError"]


def test_a_stop_without_a_free_descriptor_goes_on_with_the_connections_that_it_has(
    worker: EnvelopeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = MagicMock()
    monkeypatch.setitem(sys.modules, "wsgi", app)

    def fail(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as poller:
        poller.register(listener, selectors.EVENT_READ)
        worker.alive, worker.sockets, worker.poller, worker._accepting = False, [listener], poller, True
        worker.accept = fail
        with socket.create_connection(listener.getsockname()):
            worker.set_accept_enabled(False)

        assert not poller.get_map()
    app.app.background.wind_down.assert_called_once_with()


BROKEN = """
from wsgi import app


def broken(environ, start_response):
    if environ["PATH_INFO"] == "/broken":
        raise RuntimeError(environ["QUERY_STRING"])
    if environ["PATH_INFO"] == "/cut":
        start_response("200 OK", [("Content-Length", "100")])(b"a")
        raise RuntimeError(environ["QUERY_STRING"])
    return app(environ, start_response)
"""


def test_an_application_around_the_app_that_fails_logs_no_text(tmp_path: Path) -> None:
    (tmp_path / "around.py").write_text(BROKEN)
    command = (sys.executable, "-m", "gunicorn", "around:broken")
    with serving(tmp_path, command=command, PYTHONPATH=str(tmp_path)) as server:
        response, body = server.request("GET", f"/broken?email={SECRET}")
        with pytest.raises(http.client.IncompleteRead):
            server.request("GET", f"/cut?email={SECRET}")

    assert (response.status, json.loads(body)["error"]["code"]) == (500, "internal_error")
    assert "unforeseen RuntimeError in the server" in server.log
    assert "Error handling request" in server.log
    assert SECRET not in server.log


def test_settings_that_only_gunicorn_s_own_option_breaks_stop_the_start(tmp_path: Path) -> None:
    """gunicorn.conf.py is read before ``--env`` counts. gunicorn would start workers without end."""
    process, log_file = start(tmp_path, GUNICORN_CMD_ARGS="--env SMTP_PORT=smtp")

    assert process.wait(60) != 0
    assert "SMTP_PORT='smtp'" in log_file.read_text()
    assert "Traceback" not in log_file.read_text()
