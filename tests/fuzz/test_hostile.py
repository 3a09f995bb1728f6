"""Hostile bodies and hostile HTTP: always an answer in the envelope, never a message that nobody meant."""

from __future__ import annotations

import http.client
import io
import json
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ErrorCode
from tests.api.exchanges import CONTACT
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.fakes import RecordingMailer
from tests.fuzz import hostile
from tests.fuzz.cases import addresses, fuzzed
from tests.fuzz.inspection import MAIL, inspect_message, inspect_stored, read_state
from tests.server.gunicorn import Server, serving


@pytest.fixture
def client(make_client: MakeClient) -> ValidatingClient:
    return make_client(**MAIL)


@fuzzed
@given(path=st.sampled_from(CONTACT), body=hostile.bodies)
def test_no_body_breaks_the_contact_view(
    client: ValidatingClient, mailer: RecordingMailer, path: str, body: tuple[str, bytes]
) -> None:
    """The client validates the answer; a message goes out if and only if it can have."""
    mailer.messages.clear()
    content_type, data = body

    response = client.post(path, data=data, content_type=content_type, environ_base={"REMOTE_ADDR": next(addresses)})

    read_state(response.status_code, response.headers.items())
    assert response.status_code in {200, 400, 429}
    assert len(mailer.messages) <= (response.status_code == 200)
    for message in mailer.messages:
        inspect_message(message.content)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("hostile"), TRUSTED_PROXIES="1", **MAIL) as server:
        yield server
        assert "unforeseen" not in server.log


def exchange(server: Server, sent: bytes) -> bytes:
    """All that comes back; a time-out is a failure."""
    received = b""
    with server.connect() as connection:
        # The server may answer and close before it was sent all.
        with suppress(ConnectionError):
            connection.sendall(sent)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while chunk := connection.recv(1 << 16):
                received += chunk
    return received.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")


def inspect_answer(received: bytes, sent: bytes) -> None:
    """Hold the one answer of a connection to the envelope."""
    stream = io.BytesIO(received)
    version, number = stream.readline().split()[:2]
    headers = http.client.parse_headers(stream)
    status, body = int(number), stream.read()
    read_state(status, headers.items())
    assert version.startswith(b"HTTP/1.")
    assert status < 500
    if status in {204, 304} or (b"HEAD" in sent and not body):
        assert body == b""
        return
    assert headers["Content-Type"] == "application/json"
    assert len(body) == int(headers["Content-Length"])
    answer = json.loads(body)
    if status == 200:
        assert answer.get("ok", "openapi" in answer)
    else:
        assert answer["ok"] is False
        assert answer["error"]["status"] == status
        assert answer["error"]["code"] in {code for code in ErrorCode if code.status == status}


@fuzzed
@given(sent=hostile.http)
def test_no_bytes_break_the_server(server: Server, sent: bytes) -> None:
    sent = sent.replace(hostile.CLIENT.encode(), next(addresses).encode())

    received = exchange(server, sent)

    assert received or b"\r\n\r\n" not in sent
    if received:
        inspect_answer(received, sent)
    inspect_stored(server.mail_dir)
