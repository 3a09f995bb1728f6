"""What gunicorn refuses by itself comes out in the envelope: raw sockets against the real server."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from tests.client import validate_response
from tests.server.gunicorn import Server

POST = b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


def exchange(server: Server, request: bytes) -> tuple[http.client.HTTPResponse, bytes]:
    with server.connect() as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection)
        response.begin()
        body = response.read()
    server.wait_for_line_of(response)
    return response, body


REFUSED_BELOW_THE_APP = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /api\r\n\r\n",
    "unknown version": b"GET /api HTTP/9.9\r\nHost: a\r\n\r\n",
    "lower-case method": b"get /api HTTP/1.1\r\nHost: a\r\n\r\n",
    "raw non-ASCII path": "GET /api/ñ HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "raw non-ASCII query": "GET /api?section=ñ HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "space in the target": b"GET /api /x HTTP/1.1\r\nHost: a\r\n\r\n",
    "line too long": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "header too long": b"GET /api HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 9000 + b"\r\n\r\n",
    "too many headers": b"GET /api HTTP/1.1\r\nHost: a\r\n" + b"X-A: b\r\n" * 120 + b"\r\n",
    "header without colon": b"GET /api HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "bad header name": b"GET /api HTTP/1.1\r\nHost: a\r\nB@d Name: x\r\n\r\n",
    "underscore in a header name": b"GET /api HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 192.0.2.7\r\n\r\n",
    "folded header": b"GET /api HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n",
    "NUL in a header": b"GET /api HTTP/1.1\r\nHost: a\r\nX-A: b\x00c\r\n\r\n",
    "Content-Length of letters": POST + b"Content-Length: abc\r\n\r\n{}",
    "negative Content-Length": POST + b"Content-Length: -1\r\n\r\n{}",
    "two Content-Lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown transfer coding": POST + b"Transfer-Encoding: zip\r\n\r\n",
    "unknown expectation": POST + b"Expect: miracles\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("request_bytes", REFUSED_BELOW_THE_APP.values(), ids=REFUSED_BELOW_THE_APP)
def test_malformed_requests_are_answered_in_the_envelope(server: Server, request_bytes: bytes) -> None:
    response, body = exchange(server, request_bytes)

    assert response.status == 400
    assert server.log.count(response.headers["X-Request-ID"]) == 1
    error = json.loads(body)["error"]
    assert (error["code"], error["details"]) == ("invalid_body", {"reason": "http"})
    assert response.headers["Connection"] == "close"
    validate_response("GET", "/api", response.status, response.headers.items(), body)


def test_a_malformed_request_consumes_no_quota_and_states_the_api_policy(server: Server) -> None:
    before, _ = server.request("OPTIONS", "/api")

    response, _ = exchange(server, REFUSED_BELOW_THE_APP["garbage"])

    assert response.headers["RateLimit-Policy"] == before.headers["RateLimit-Policy"]
    assert response.headers["X-RateLimit-Remaining"] == before.headers["X-RateLimit-Remaining"]


def test_the_log_shows_neither_the_address_nor_the_request(server: Server) -> None:
    before = server.log

    exchange(server, b"GET /?email=ana@example.com&\x01 HTTP/1.1\r\n\r\n")

    log = server.log.removeprefix(before)
    assert "malformed request refused: InvalidRequestLine" in log
    assert server.client not in log
    assert "ana@example.com" not in log


BROKEN_CHUNKS = {
    "size": b"zz\r\n{}\r\n0\r\n\r\n",
    "terminator": b"2\r\n{}xx0\r\n\r\n",
    "extension": b"2;\x00\r\n{}\r\n0\r\n\r\n",
    "cut off": b"ff\r\n{}",
}


@pytest.mark.parametrize("chunks", BROKEN_CHUNKS.values(), ids=BROKEN_CHUNKS)
def test_broken_chunks_are_an_invalid_body(server: Server, chunks: bytes) -> None:
    response, body = exchange(server, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)

    assert json.loads(body)["error"]["code"] == "invalid_body"
    validate_response("POST", "/contact.php", response.status, response.headers.items(), body)


OVERLONG = {
    "JSON": (b"application/json", b'{"form_type":"demo","email":"ana@example.com","mensaje":"%s"}'),
    "form": (b"application/x-www-form-urlencoded", b"form_type=demo&email=ana@example.com&otro=%s"),
}


@pytest.mark.parametrize(("content_type", "body"), OVERLONG.values(), ids=OVERLONG)
def test_a_chunked_body_over_the_limit_is_refused_and_not_cut(server: Server, content_type: bytes, body: bytes) -> None:
    content = body % (b"a" * 65536)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    head = b"POST /api/v1/contact HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Type: " + content_type

    response, answer = exchange(server, head + b"\r\n\r\n" + chunked)

    assert json.loads(answer)["error"]["details"] == {"reason": "too_large"}
    validate_response("POST", "/api/v1/contact", response.status, response.headers.items(), answer)
    assert list((server.mail_dir / "new").iterdir()) == []


def test_a_form_whose_sender_disconnects_is_not_cut_and_accepted(server: Server) -> None:
    form = b"form_type=demo&email=ana@example.com&mensaje=Hola"
    head = b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"

    response, body = exchange(server, head + b"Content-Length: 4000\r\n\r\n" + form)

    assert response.status == 400
    assert json.loads(body)["error"]["details"] == {"reason": "incomplete"}
    assert list((server.mail_dir / "new").iterdir()) == []
