"""The connections of the real gunicorn: no close without a word, none that holds up the others, none too many."""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.factories import contact_body
from tests.mail.scripted import Act, ScriptedServer
from tests.server.gunicorn import Server, newest_worker, serving

HEAD = b"%s /openapi.json HTTP/1.1\r\nHost: a\r\n%s\r\n"
NEXT = b"OPTIONS /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = 600_000
"""Bytes of a body that the worker reads on after its answer, but not to keep the connection."""


def read_response(connection: socket.socket) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(connection)
    response.begin()
    response.read()
    response.close()
    return response


def with_length(method: bytes, length: int, *, sent: int | None = None) -> bytes:
    head = HEAD % (method, b"Content-Length: %d\r\n" % length)
    return head + b"a" * (length if sent is None else sent)


def in_chunks(content: bytes) -> bytes:
    return HEAD % (b"POST", b"Transfer-Encoding: chunked\r\n") + content


REQUESTS = {
    "no body": (HEAD % (b"GET", b""), "keep-alive"),
    "a small body": (with_length(b"GET", 1_000), "keep-alive"),
    # As much as the shipped nginx lets in.
    "the largest body of the proxy": (with_length(b"GET", 131_072), "keep-alive"),
    "a large body, preflight": (with_length(b"OPTIONS", 131_072), "keep-alive"),
    "chunks": (in_chunks(b"%x\r\n%s\r\n0\r\n\r\n" % (100_000, b"a" * 100_000)), "keep-alive"),
    "a large body": (with_length(b"GET", LARGE), "close"),
    "a body that has not come": (with_length(b"GET", 100_000, sent=0), "close"),
    "a body of which a part has come": (with_length(b"POST", 100_000, sent=70_000), "close"),
    "broken chunks": (in_chunks(b"zz\r\nabc"), "close"),
    "unfinished chunks": (in_chunks(b"3\r\nabc\r\n"), "close"),
    "close": (HEAD % (b"GET", b"Connection: close\r\n"), "close"),
}


@pytest.mark.parametrize(("request_bytes", "announced"), REQUESTS.values(), ids=REQUESTS)
def test_a_connection_is_kept_if_and_only_if_the_answer_says_so(
    server: Server, request_bytes: bytes, announced: str
) -> None:
    with server.connect() as connection, ThreadPoolExecutor(1) as pool:
        # It reads while it sends, as a proxy does: the service answers before it has all of a large body.
        sent = pool.submit(send, connection, request_bytes)
        response = read_response(connection)
        sent.result()
        next_status = None
        if response.headers["Connection"] == "keep-alive":
            connection.sendall(NEXT)
            next_status = read_response(connection).status

    # A body that arrives while the answer is begun may or may not be read: either way the answer says the truth.
    assert response.headers["Connection"] in {announced, "close"}
    assert next_status == (204 if response.headers["Connection"] == "keep-alive" else None)


def send(connection: socket.socket, content: bytes) -> None:
    with suppress(ConnectionError):
        connection.sendall(content)


def test_a_body_that_has_come_as_a_whole_keeps_the_connection(server: Server) -> None:
    worker = newest_worker(server.log)
    with server.connect() as connection:
        # What nginx sends lies there before the worker looks.
        os.kill(worker, signal.SIGSTOP)
        connection.sendall(with_length(b"GET", 60_000))
        os.kill(worker, signal.SIGCONT)
        response = read_response(connection)

    assert response.headers["Connection"] == "keep-alive"


def test_a_worker_that_is_told_to_stop_meanwhile_announces_the_close(tmp_path: Path) -> None:
    body = json.dumps(contact_body()).encode()
    with (
        ScriptedServer({"message": Act.HOLD}) as mail_server,
        serving(tmp_path, **mail_server.environ, SMTP_TIMEOUT="60") as server,
        server.connect() as connection,
    ):
        connection.sendall(
            b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        mail_server.wait_until_hung()
        server.tell_to_stop()
        mail_server.released.set()
        response = read_response(connection)

    assert (response.status, response.headers["Connection"]) == (200, "close")


def test_the_last_request_of_a_worker_announces_the_close(tmp_path: Path) -> None:
    with serving(tmp_path, GUNICORN_CMD_ARGS="--max-requests 20") as server:
        for _ in range(3):
            announced = "keep-alive"
            with server.connect() as connection:
                while announced == "keep-alive":
                    connection.sendall(NEXT)
                    announced = read_response(connection).headers["Connection"]
                after_the_last = connection.recv(1)

            assert (announced, after_the_last) == ("close", b"")
        assert server.log.count("Autorestarting worker") >= 2


def test_a_silent_connection_holds_no_thread_and_no_stop(tmp_path: Path) -> None:
    with ExitStack() as stack, serving(tmp_path, THREADS="1", SMTP_TIMEOUT="200") as server:
        for _ in range(10):
            stack.enter_context(server.connect())
        # The only thread would wait five seconds for each of them, and the stop for 210 seconds.
        response, _ = server.request("OPTIONS", "/api")
        server.process.terminate()
        server.process.wait(30)

    assert response.status == 204


SELFISH = {
    "a request": HEAD % (b"GET", b"Connection: close\r\n"),
    "a request that is not whole": with_length(b"GET", 100_000, sent=10).replace(b"Host", b"Connection: close\r\nHost"),
    "nonsense": b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", SELFISH.values(), ids=SELFISH)
def test_clients_that_never_close_hold_nobody_up(server: Server, request_bytes: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(80):
            selfish = stack.enter_context(server.connect())
            selfish.sendall(request_bytes)
        # Each would hold the main thread for two seconds, and the answer below would come after 160.
        response, _ = server.request("OPTIONS", "/api")

    assert response.status == 204


def test_an_answer_is_not_cut_off_by_what_its_client_still_sends(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(with_length(b"POST", 900_000, sent=100))
        # The answer is there now, and nobody waits for the rest; the second piece would meet a reset.
        assert connection.recv(1, socket.MSG_PEEK)
        for _ in range(10):
            connection.sendall(b"a" * 30_000)
        response = read_response(connection)

    assert response.status == 405


def test_a_worker_without_descriptors_goes_on_with_what_it_has(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        worker = newest_worker(server.log)
        limits = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        with ExitStack() as stack:
            kept = stack.enter_context(server.connect())
            kept.sendall(NEXT)
            statuses = [read_response(kept).status]
            resource.prlimit(worker, resource.RLIMIT_NOFILE, (60, limits[1]))
            for _ in range(100):
                stack.enter_context(server.connect())
            server.wait_for("connections have to wait")
            kept.sendall(NEXT)
            statuses.append(read_response(kept).status)
        statuses.append(server.request("OPTIONS", "/api")[0].status)

        assert statuses == [204] * 3
        assert newest_worker(server.log) == worker
        assert server.log.count("connections have to wait: Too many open files") == 1
        assert "Traceback" not in server.log
