"""Hostile bodies and hostile HTTP: always an answer in the envelope, never a message that nobody meant."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ErrorCode
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.fakes import RecordingMailer
from tests.fuzz.cases import addresses, fuzzed
from tests.fuzz.hostile import CLIENT, FORM, JSON, bodies, submissions
from tests.fuzz.hostile import http as hostile_http
from tests.fuzz.inspection import MAIL, inspect_message, read_state
from tests.server.gunicorn import Server, serving

PATHS = st.sampled_from(["/api/v1/contact", "/contact.php"])


@pytest.fixture
def client(make_client: MakeClient) -> ValidatingClient:
    return make_client(**MAIL)


def post(client: ValidatingClient, mailer: RecordingMailer, path: str, content_type: str, body: bytes) -> int:
    """The status of the answer, which the client validates; a message goes out if and only if it can have."""
    mailer.messages.clear()
    response = client.post(path, data=body, content_type=content_type, environ_base={"REMOTE_ADDR": next(addresses)})
    read_state(response.status_code, response.headers.items())
    for message in mailer.messages:
        inspect_message(message.content)
    assert len(mailer.messages) <= (response.status_code == 200)
    return response.status_code


DEMO = b'"form_type":"demo","email":"ana@example.com"'
MENDED = {
    "a surrogate under a repeated name": (b'{%s,"x":"\\ud83c","x":"y"}' % DEMO, 400),
    "a deep value under a repeated name": (b'{%s,"x":%s,"x":"\\u00f1"}' % (DEMO, b"[" * 20_000 + b"]" * 20_000), 400),
    "a captcha that folds to its length": (
        b'{%s,"captcha_expected":"stra\xc3\x9f","captcha_input":"STRASS"}' % DEMO,
        400,
    ),
    "a company of spaces": (b'{%s,"empresa":" \\u2003 "}' % DEMO, 200),
    "an encoded word in the subject": (
        b'{"form_type":"onboarding","email":"ana@example.com","empresa":"=?utf-8?q?x=0D=0ABcc=3A_eve?="}',
        200,
    ),
    "an encoded word as address": (b'{"form_type":"demo","email":"=?utf-8?q?x=0ABcc=3A_eve?=@example.com"}', 200),
}
"""Bodies that were once answered otherwise, or brought forth another message, than they should."""


@pytest.mark.parametrize(("body", "status"), MENDED.values(), ids=MENDED)
def test_what_was_mended_stays_so(client: ValidatingClient, mailer: RecordingMailer, body: bytes, status: int) -> None:
    assert post(client, mailer, "/contact.php", JSON, body) == status
    assert len(mailer.messages) == (status == 200)


@fuzzed
@given(path=PATHS, body=bodies)
def test_no_body_breaks_the_contact_view(
    client: ValidatingClient, mailer: RecordingMailer, path: str, body: tuple[str, bytes]
) -> None:
    assert post(client, mailer, path, *body) in {200, 400, 429}


@fuzzed
@given(path=PATHS, submission=submissions, content_type=st.sampled_from([JSON, FORM]))
def test_what_a_visitor_writes_starts_no_header(
    client: ValidatingClient, mailer: RecordingMailer, path: str, submission: dict[str, Any], content_type: str
) -> None:
    body = json.dumps(submission) if content_type == JSON else urlencode(submission)

    status = post(client, mailer, path, content_type, body.encode())

    assert (status, len(mailer.messages)) == (200, 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("hostile"), TRUSTED_PROXIES="1", **MAIL) as server:
        yield server
        assert "unforeseen" not in server.log


def exchange(server: Server, sent: bytes) -> bytes:
    """All that comes back; a time-out is a failure."""
    sent = re.sub(re.escape(CLIENT), lambda _: next(addresses).encode(), sent)
    received = b""
    with server.connect() as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        except TimeoutError:
            raise
        except OSError:
            pass  # the server has answered and closed before it was sent all
        try:
            while chunk := connection.recv(1 << 16):
                received += chunk
        except ConnectionResetError:
            assert received, "closed without an answer to what was sent"
    return received


def inspect_answers(received: bytes, sent: bytes) -> list[int]:
    """The statuses of the answers, each held to the envelope."""
    statuses = []
    stream = io.BytesIO(received)
    while line := stream.readline():
        version, status = line.split()[:2]
        assert version.startswith(b"HTTP/1.")
        headers = http.client.parse_headers(stream)
        if status == b"100":
            continue
        statuses.append(int(status))
        read_state(int(status), headers.items())
        if status in {b"204", b"304"}:
            continue
        assert headers["Content-Type"] == "application/json"
        length = int(headers["Content-Length"])
        following = stream.tell()
        body = stream.read(length)
        if b"HEAD" in sent and not body.startswith(b"{"):
            stream.seek(following)
            continue
        assert len(body) == length
        inspect_envelope(int(status), json.loads(body))
    return statuses


def inspect_envelope(status: int, answer: dict[str, Any]) -> None:
    assert status < 500
    if status == 200:
        assert answer.get("ok", "openapi" in answer)
    else:
        error = answer["error"]
        assert answer["ok"] is False
        assert error["status"] == status
        assert error["code"] in {code for code in ErrorCode if code.status == status}


def inspect_mail(directory: Path) -> None:
    for path in directory.iterdir():
        inspect_message(path.read_bytes().replace(b"\n", b"\r\n"))
        path.unlink()


@fuzzed
@given(sent=hostile_http())
def test_no_bytes_break_the_server(server: Server, sent: bytes) -> None:
    statuses = inspect_answers(exchange(server, sent), sent)

    assert statuses or b"\r\n\r\n" not in sent
    inspect_mail(server.log_file.parent / "mail" / "new")
