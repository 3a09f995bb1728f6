"""The connections of the real gunicorn: one for each request, and no more than it has files."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.factories import contact_body
from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import GUNICORN, Server, newest_worker, serving
from tests.waiting import wait_until

HEAD = b"%s /openapi.json HTTP/1.1\r\nHost: a\r\n%s\r\n"
JSON = {"Content-Type": "application/json"}
FORM = json.dumps(contact_body()).encode()
POST = b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

FILES = 320
FORMS = 48
OTHERS = 400
"""Connections. With the forms they are more than a process with so many files can have."""

REQUESTS = {
    "no body": HEAD % (b"GET", b""),
    "keep-alive": HEAD % (b"GET", b"Connection: keep-alive\r\n"),
    "a body that is read": HEAD % (b"POST", b"Content-Length: 10\r\n") + b"a" * 10,
    "a body of which a part has come": HEAD % (b"POST", b"Content-Length: 100000\r\n") + b"a" * 10,
    "broken chunks": HEAD % (b"POST", b"Transfer-Encoding: chunked\r\n") + b"zz\r\nabc",
    "HTTP/1.0": b"GET /openapi.json HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "malformed": b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
def test_every_answer_announces_the_close(server: Server, request_bytes: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(request_bytes)
        response = http.client.HTTPResponse(connection)
        response.begin()
        response.read()
        after = connection.recv(1)

    assert response.headers["Connection"] == "close"
    assert after == b""


def test_a_form_that_is_in_hand_when_the_stop_comes_is_answered(tmp_path: Path) -> None:
    with (
        SmtpServer({"message": Act.HOLD}) as mail_server,
        serving(tmp_path, **mail_server.environ, SMTP_TIMEOUT="60") as server,
        server.connect() as connection,
    ):
        connection.sendall(POST % len(FORM) + FORM)
        mail_server.wait_until_hung()
        server.tell_to_stop()
        mail_server.release()
        response = http.client.HTTPResponse(connection)
        response.begin()

    assert (response.status, response.headers["Connection"]) == (200, "close")


def test_a_worker_takes_no_more_connections_than_it_has_files(tmp_path: Path) -> None:
    """A process that finds no descriptor for a connection ends, and with it all requests that it has in hand."""
    command = ("prlimit", f"--nofile={FILES}:{FILES}", *GUNICORN)
    with (
        SmtpServer({"connect": Act.HANG}) as mail_server,
        serving(tmp_path, command=command, **mail_server.environ, SMTP_TIMEOUT="300") as server,
        ThreadPoolExecutor(FORMS) as pool,
    ):
        worker = newest_worker(server.log)
        clients = [replace(server, client=f"127.1.0.{number + 1}") for number in range(FORMS)]
        posted = [pool.submit(client.request, "POST", "/contact.php", FORM, JSON) for client in clients]
        mail_server.wait_until_hung(FORMS // 3)
        with ExitStack() as stack:
            for _ in range(OTHERS):
                stack.enter_context(server.connect()).sendall(POST[:9])
            wait_until(lambda: not server.takes_connections)
        mail_server.release()
        statuses = {answer.result()[0].status for answer in posted}

        assert statuses == {500}
        assert server.request("OPTIONS", "/api")[0].status == 204
        assert newest_worker(server.log) == worker
