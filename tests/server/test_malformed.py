"""Raw bytes to the real gunicorn: each request gets one answer in the envelope, and then its connection ends."""

import http.client
import json
import re
import socket

import pytest

from app import API_POLICY
from tests.client import validate_response
from tests.server.gunicorn import Server

GET = b"GET /api?email=ana@example.com HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
BROWSER = b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n"
FORM, FIELDS = b'{"form_type":"demo","email":"ana@example.com","x":"%s"}', b"form_type=demo&email=ana@example.com&x=%s"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)


REQUESTS = {
    "400 http": {
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "space in the target": b"GET /api ana@example.com HTTP/1.1\r\nHost: a\r\n\r\n",
        "header without colon": GET + b"ana@example.com\r\n\r\n",
        "underscore in a header name": GET + b"X_Forwarded_For: 192.0.2.7\r\n\r\n",
        "two Content-Lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "length and chunks": POST + b"Content-Length: 2\r\n" + CHUNKS + b"0\r\n\r\n",
    },
    "400 incomplete": {
        "broken size of a chunk": POST + CHUNKS + b"zz\r\n{}\r\n0\r\n\r\n",
        "chunks that end too early": POST + CHUNKS + b"ff\r\n{}",
        "form that ends too early": BROWSER + b"Content-Length: 4000\r\n\r\n" + FIELDS % b"Hola",
    },
    "400 too_large": {
        "JSON in chunks": POST + CHUNKS + chunk(FORM % (b"a" * 65536)),
        "form in chunks": BROWSER + CHUNKS + chunk(FIELDS % (b"a" * 65536)),
    },
    "200": {
        "no body": GET + b"\r\n",
        "keep-alive": GET + b"Connection: keep-alive\r\n\r\n",
        "body that is not read": GET + b"Content-Length: 10\r\n\r\n" + b"a" * 10,
        "broken chunks that are not read": GET + CHUNKS + b"zz\r\nabc",
        "part of a body that is not read": GET + b"Content-Length: 100000\r\n\r\n" + b"a" * 10,
    },
}
"""By the status and the reason of the refusal. What is ``http`` gunicorn refuses by itself, before the application."""

CASES = [
    pytest.param(outcome, request, id=f"{outcome} {name}")
    for outcome, requests in REQUESTS.items()
    for name, request in requests.items()
]


@pytest.mark.parametrize(("outcome", "request_bytes"), CASES)
def test_a_request_has_one_answer_and_the_connection_ends(server: Server, outcome: str, request_bytes: bytes) -> None:
    status, _, reason = outcome.partition(" ")
    log, kept = server.log, list((server.mail_dir / "new").iterdir())
    with server.connect() as connection:
        connection.sendall(request_bytes)
        if reason == "incomplete":
            connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection)
        response.begin()
        body = response.read()
        after = connection.recv(1)  # by now an access log would have its line
    server.wait_for_line_of(response)
    said = server.log.removeprefix(log)

    is_form = request_bytes.startswith(b"POST") and reason != "http"
    method, path = ("POST", "/contact.php") if is_form else ("GET", "/api")
    validate_response(method, path, response.status, response.headers.items(), body)
    error = json.loads(body).get("error", {"code": None})
    refused = {"code": "invalid_body", "details": {"reason": reason}} if reason else {"code": None}
    assert response.status == int(status)
    assert refused.items() <= error.items()
    assert (response.headers["Connection"], after) == ("close", b"")
    assert (
        reason != "http"
        or response.headers["RateLimit"] == f'"default";r={API_POLICY.quota};t={API_POLICY.window_seconds}'
    )
    assert len(re.findall(r"malformed request refused: \w+\n", said)) == (reason == "http")
    assert said.count(response.headers["X-Request-ID"]) == 1
    assert not [personal for personal in (server.client, "ana@") if personal in said]
    assert list((server.mail_dir / "new").iterdir()) == kept
