"""The service as its clients meet it: through nginx."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import select
import signal
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import trustme

from app.api.body import MAX_BODY_BYTES
from tests.api.fields import CONSTANT, SERVICE_DESC
from tests.client import DOCUMENT, validate_response
from tests.deploy.load import CONNECTIONS_OF_A_CLIENT, holding_connections, new_client
from tests.deploy.site import RELAY, RELAYED, SERVER_NAME, Answer, Site, site
from tests.factories import LOG_TIME, contact_body
from tests.waiting import wait_until

QUOTA = 60


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Shared by tests whose clients have addresses of their own. Its nginx is patient: the machine may be busy."""
    patience = {"client_body_timeout 10s": "client_body_timeout 120s"}
    with site(tmp_path_factory.mktemp("site"), "0", "1", changes=patience) as served:
        yield served


def logged(served: Site, pattern: str, count: int = 1) -> list[str]:
    """So many lines of nginx's access log in which the pattern is found; nginx writes a line after its answer."""
    path = served.directory / "log" / "public-web-interface.log"

    def lines() -> list[str]:
        return [line for line in path.read_text().splitlines() if re.search(pattern, line)]

    wait_until(lambda: len(lines()) >= count)
    assert len(lines()) == count
    return lines()


def logged_by_service(served: Site, request_id: str) -> list[str]:
    """The lines of the services' logs with that id; a thread writes them, perhaps after the answer."""

    def lines() -> list[str]:
        return [line for line in (served.log("0") + served.log("1")).splitlines() if request_id in line]

    wait_until(lines)
    return lines()


def id_of(answer: Answer) -> str:
    """The request id, which an answer names once."""
    (request_id,) = answer.headers.get_all("X-Request-ID", [])
    return str(request_id)


def validate(answer: Answer, method: str = "GET", path: str = "/refused") -> None:
    validate_response(method, path, answer.status, answer.headers.items(), answer.body)


def test_the_limits_count_the_real_client_whatever_it_says_of_itself(served: Site) -> None:
    lies = [{"X-Forwarded-For": f"203.0.113.{number}", "Forwarded": f"for=203.0.113.{number}"} for number in range(80)]

    answers = [served.request("GET", "/api", client="127.0.1.1", headers=lie) for lie in lies]

    assert [answer.status for answer in answers] == [200] * QUOTA + [429] * 20
    assert served.request("GET", "/api", client="127.0.1.2").status == 200


def test_a_client_cannot_name_the_address_or_the_host_of_the_service(served: Site) -> None:
    lies = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example", "Host": "evil.example"}

    answer = served.request("GET", "/api", client="127.0.1.3", headers=lies)

    assert json.loads(answer.body)["data"]["openapi"] == f"https://{SERVER_NAME}/openapi.json"


def test_the_request_id_is_nginx_s_and_the_same_in_both_logs(served: Site) -> None:
    answer = served.request("GET", "/api/versioning", client="127.0.11.4", headers={"X-Request-ID": "f" * 32})

    request_id = id_of(answer)
    (line,) = map(json.loads, logged_by_service(served, request_id))
    assert request_id != "f" * 32
    assert logged(served, f' {request_id} 200 "200" ')
    assert line["client"] == "127.0.11.0/24"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_both_logs_name_the_time_in_one_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)  # nginx's
    with site(tmp_path, "0", environ={"TZ": zone, "LOG_FORMAT": "text"}) as served:
        begun = datetime.now(ZoneInfo(zone))
        answer = served.request("GET", "/api")
        theirs = logged(served, f" {id_of(answer)} ")
        served.wait_for_log("0", f" {id_of(answer)} ")
        ours = [line for line in served.log("0").splitlines() if f" {id_of(answer)} " in line]
        ended = datetime.now(ZoneInfo(zone))

    for (line,) in (ours, theirs):
        shown = re.match(LOG_TIME, line)
        assert shown, line
        moment = datetime.fromisoformat(shown[0])
        assert begun - timedelta(milliseconds=1) < moment < ended
        assert moment.utcoffset() == begun.utcoffset()


def test_nginx_s_seconds_and_milliseconds_turn_together(tmp_path: Path) -> None:
    changes = {"'$public_web_interface_time ": "'$public_web_interface_time $msec "}

    def times() -> list[tuple[str, float]]:
        lines = (tmp_path / "log" / "public-web-interface.log").read_text().splitlines()
        return [(shown, float(epoch)) for shown, epoch, *_ in map(str.split, lines)]

    with site(tmp_path, changes=changes) as served:

        def has_turned() -> bool:
            until = int(time.time()) + 1.1
            while time.time() < until:
                served.exchange(b"garbage\r\n\r\n", port=served.http_port)
            return len({int(epoch) for _, epoch in times()}) > 1

        wait_until(has_turned)

    assert [datetime.fromisoformat(shown).timestamp() for shown, _ in times()] == [epoch for _, epoch in times()]


@pytest.mark.parametrize("path", ["/api", "/unknown", "/public-web-interface/malformed"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE"])
def test_what_the_service_answers_has_one_request_id_and_it_is_nginx_s(served: Site, method: str, path: str) -> None:
    answer = served.request(method, path, client=new_client())

    assert logged(served, f' {id_of(answer)} {answer.status} "{answer.status}" ')


def test_nginx_logs_no_address_and_nothing_that_a_client_wrote(tmp_path: Path) -> None:
    with site(tmp_path) as served:  # without the service: what nginx says of that must not say too much
        served.request("GET", "/ana@example.com?ana@example.com", client="127.0.9.87", headers={"User-Agent": "ana@"})
        served.exchange(b"ana@example.com\r\n\r\n")
        served.exchange(b"GET /ana@example.com HTTP/1.1\r\nHost: a\r\n\r\n", port=served.http_port)
        logged(served, r" 127\.0\.9\.0/24$")
        logged(served, r" 127\.0\.0\.0/24$", 2)

        logs = "".join(path.read_text() for path in (tmp_path / "log").glob("public-web-interface*"))
    assert "127.0.9.87" not in logs
    assert "127.0.0.1" not in logs
    assert "ana@" not in logs


@pytest.mark.parametrize(("path", "client"), [("/api/v1/contact", "127.0.2.1"), ("/contact.php", "127.0.2.2")])
def test_a_message_passes_by_both_contact_paths(served: Site, path: str, client: str) -> None:
    before = stored(served)

    answer = served.request("POST", path, client=client, body=contact_body())
    again = served.request("POST", path, client=client, body=contact_body())

    assert (answer.status, again.code) == (200, "rate_limit")
    validate(answer, "POST", path)
    assert len(stored(served) - before) == 1


def test_the_document_names_the_public_address(served: Site) -> None:
    answer = served.request("GET", "/openapi.json", client="127.0.2.3")

    (server,) = json.loads(answer.body)["servers"]
    assert server["url"] == f"https://{SERVER_NAME}"


@pytest.fixture(scope="module")
def plain(served: Site) -> Answer:
    """The document as the service sends it."""
    return document(served, b"")


def document(served: Site, sent: bytes, method: bytes = b"GET") -> Answer:
    """What is answered to whoever asks for the document and sends these fields and no others."""
    return served.exchange(b"%s /openapi.json HTTP/1.1\r\nHost: a\r\n%s\r\n" % (method, sent))


VARY = CONSTANT["Vary"]

TAKES_GZIP = {
    "gzip alone": b"Accept-Encoding: gzip\r\n",
    "a browser": b"Accept-Encoding: gzip, deflate, br, zstd\r\n",
    "gzip least": b"Accept-Encoding: br, gzip;q=0.1\r\n",
    "behind a proxy": b"Accept-Encoding: gzip\r\nVia: 1.1 a\r\n",
}


@pytest.mark.parametrize("taken", TAKES_GZIP.values(), ids=TAKES_GZIP)
def test_the_document_is_compressed_without_a_change(served: Site, plain: Answer, taken: bytes) -> None:
    answer = document(served, taken)

    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.body) == plain.body
    assert answer.headers["ETag"] == plain.headers["ETag"]
    assert answer.headers.get_all("Vary") == [VARY]
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    validate(replace(answer, body=plain.body), path="/openapi.json")


def test_the_document_is_at_most_a_quarter_on_the_way(served: Site, plain: Answer) -> None:
    size, compressed = len(plain.body), len(document(served, b"Accept-Encoding: gzip\r\n").body)

    assert compressed * 4 < size


TAKES_NO_GZIP = {
    "nothing said": b"",
    "as it is": b"Accept-Encoding: identity\r\n",
    "anything but gzip": b"Accept-Encoding: gzip;q=0\r\n",
    "others": b"Accept-Encoding: br, zstd\r\n",
}


@pytest.mark.parametrize("taken", TAKES_NO_GZIP.values(), ids=TAKES_NO_GZIP)
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_the_document_stays_as_it_is_where_gzip_is_not_taken(
    served: Site, plain: Answer, method: bytes, taken: bytes
) -> None:
    answer = document(served, taken, method)

    assert "Content-Encoding" not in answer.headers
    assert answer.headers["Content-Length"] == str(len(plain.body))
    assert answer.headers["ETag"] == plain.headers["ETag"]
    assert answer.body == (plain.body if method == b"GET" else b"")
    validate(answer, method.decode(), "/openapi.json")


@pytest.mark.parametrize("taken", TAKES_GZIP.values(), ids=TAKES_GZIP)
def test_the_head_of_a_compressed_document_is_that_of_get(served: Site, taken: bytes) -> None:
    get, head = document(served, taken), document(served, taken, b"HEAD")

    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Encoding", "Content-Length", "ETag", "Vary", "Cache-Control", "Link"):
        assert head.headers[name] == get.headers[name]
    validate(head, "HEAD", "/openapi.json")


@pytest.mark.parametrize("taken", [b"", b"Accept-Encoding: gzip\r\n"], ids=["plain", "gzip"])
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_known_document_is_not_sent_again(served: Site, plain: Answer, method: bytes, taken: bytes) -> None:
    known = f"If-None-Match: {plain.headers['ETag']}\r\n".encode()

    answer = document(served, known + taken, method)

    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["ETag"] == plain.headers["ETag"]
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    assert answer.headers.get_all("Vary") == [VARY]
    validate(answer, method.decode(), "/openapi.json")


def test_who_reads_the_document_too_fast_waits_and_nobody_else(tmp_path: Path) -> None:
    changes = {"'$public_web_interface_time ": "'$limit_req_status $public_web_interface_time "}
    log = tmp_path / "log" / "public-web-interface.log"
    with site(tmp_path, changes=changes) as served:

        def has_waited() -> bool:
            for _ in range(2):
                document(served, b"")
            return re.search("^DELAYED ", log.read_text(), re.MULTILINE) is not None

        wait_until(has_waited, seconds=60)
        for _ in range(50):
            served.request("GET", "/api", client="127.0.8.1")
        others = logged(served, r" 127\.0\.8\.0/24$", 50)

    assert {line.split()[0] for line in others} == {"PASSED"}


def test_another_document_is_sent_and_compressed(served: Site, plain: Answer) -> None:
    answer = document(served, b'Accept-Encoding: gzip\r\nIf-None-Match: W/"another"\r\n')

    assert (answer.status, gzip.decompress(answer.body)) == (200, plain.body)


def test_the_document_is_compressed_over_http_2(served: Site, plain: Answer) -> None:
    options = ["--request-target", "/openapi.json", "--compressed"]

    head, _, body = served.curl("--http2", *options).partition("\r\n\r\n")

    values = {name: re.findall(rf"^{name}: (.*?)\r?$", head, re.MULTILINE) for name in ("content-encoding", "vary")}
    assert values == {"content-encoding": ["gzip"], "vary": [VARY]}
    assert body.encode() == plain.body


@pytest.mark.parametrize("path", [path for path in DOCUMENT["paths"] if path != "/openapi.json"] + ["/x", "/api/%zz"])
def test_a_small_answer_stays_as_it_is(served: Site, path: str) -> None:
    answer = served.request("GET", path, client=new_client(), headers={"Accept-Encoding": "gzip"})

    assert "Content-Encoding" not in answer.headers
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert answer.headers.get_all("Vary") == [VARY]


def test_every_documented_operation_answers_as_documented(served: Site) -> None:
    for path, item in DOCUMENT["paths"].items():
        for method in item.keys() & {"get", "head", "options"}:
            answer = served.request(method.upper(), path, client="127.0.2.4")
            validate(answer, method.upper(), path)


BODY_OVER_NGINX_S_LIMIT = (
    b"POST /%s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9999999\r\n\r\n"
)

REFUSED_BY_NGINX = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no host": b"GET /api HTTP/1.1\r\n\r\n",
    "bad host": b"GET /api HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "two hosts": b"GET /api HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "lower-case method": b"get /api HTTP/1.1\r\nHost: a\r\n\r\n",
    "unknown version": b"GET /api HTTP/9.9\r\nHost: a\r\n\r\n",
    "version 0.9": b"GET /api HTTP/0.9\r\nHost: a\r\n\r\n",
    "half a version": b"GET /api HTTP/\r\nHost: a\r\n\r\n",
    "no target": b"GET \r\n\r\n",
    "target too long": b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "header too long": b"GET /api HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 33_000 + b"\r\n\r\n",
    "headers too long": b"GET /api HTTP/1.1\r\nHost: a\r\n" + (b"X-Long: " + b"a" * 7000 + b"\r\n") * 10 + b"\r\n",
    "bad escape": b"GET /api/%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "above the root": b"GET /../api HTTP/1.1\r\nHost: a\r\n\r\n",
    "length of letters": b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n{}",
    "unknown transfer coding": b"POST /contact.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: zip\r\n\r\n",
    "bad chunk": b"POST /contact.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}
REFUSED_BY_GUNICORN = {
    "target too long for gunicorn": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "target almost too long for nginx": b"GET /" + b"a" * 32_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "raw non-ASCII": "GET /api/ñ HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
}
MALFORMED = REFUSED_BY_NGINX | REFUSED_BY_GUNICORN


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_answered_in_the_envelope(served: Site, name: str) -> None:
    answer = served.exchange(MALFORMED[name])

    assert (answer.status, answer.code) == (400, "invalid_body")
    # A request whose path cannot be read is answered as one under /api.
    validate(answer, path="/contact.php" if b" /contact.php " in MALFORMED[name] else "/api")


@pytest.mark.parametrize("request_bytes", REFUSED_BY_NGINX.values(), ids=REFUSED_BY_NGINX)
def test_what_nginx_refuses_never_reaches_the_service_and_has_the_id_of_its_log(
    served: Site, request_bytes: bytes
) -> None:
    answer = served.exchange(request_bytes)

    assert logged(served, f' {id_of(answer)} 400 "-" ')


@pytest.mark.parametrize("request_bytes", REFUSED_BY_GUNICORN.values(), ids=REFUSED_BY_GUNICORN)
def test_what_gunicorn_refuses_has_the_request_id_of_the_service_s_log(served: Site, request_bytes: bytes) -> None:
    """The service has not read the field in which nginx tells it another one."""
    answer = served.exchange(request_bytes)

    lines = map(json.loads, logged_by_service(served, id_of(answer)))
    assert [line["code"] for line in lines if "code" in line] == ["invalid_body"]


UNDER_API = [
    *("/api", "/api/", "/api?section=x", "/api#x", "/api/v1/health", "/api/v1/../x", "/api//x", "/api/v1/contact?x"),
    *("/api/%2e%2e/x", "/openapi.json", "/openapi.json?x", "/openapi.json#x", "http://b/api"),
]
OUTSIDE = [
    *("/contact.php", "/unknown", "/apix", "/api.json", "/API", "/api;x", "/api%3Fx", "/api%23x", "/%2561pi"),
    *("/x/../api", "//api", "/./api", "/%2Fapi", "/openapi.json/", "/openapi.jsonx", "/openapi_json"),
    *("/x/openapi.json", "/openapi", "/OpenAPI.json", "/?/api", "/#/api", "/public-web-interface/malformed"),
    "http://b/x",
]


@pytest.mark.parametrize("path", UNDER_API + OUTSIDE)
def test_nginx_s_own_answers_have_the_fields_of_the_service_s(served: Site, path: str) -> None:
    own = served.exchange(b"GET %s HTTP/1.1\r\nHost: a\r\nX-Long: %s\r\n\r\n" % (path.encode(), b"a" * 33_000))
    service = served.request("PUT", path, client=new_client())

    differ = {
        "Date",
        "Connection",
        "Content-Length",
        "RateLimit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset",
        "X-Request-ID",
        "Allow",
    }
    assert fields(own, differ) == fields(service, differ)
    assert own.headers.get_all("Link", []) == [SERVICE_DESC] * (path in UNDER_API)


def fields(answer: Answer, without: set[str]) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in without}


@pytest.mark.parametrize("page", ["malformed", "too-large", "unavailable", "x"])
def test_the_places_of_nginx_s_answers_are_unknown_paths_to_clients(served: Site, page: str) -> None:
    answer = served.request("GET", f"/public-web-interface/{page}", client="127.0.2.7")
    place = served.request("GET", f"/../public-web-interface/{page}", client="127.0.2.7")

    assert (answer.status, answer.code) == (404, "not_found")
    assert (place.status, place.code) == (400, "invalid_body")


@pytest.mark.parametrize("path", ["contact.php", "api/v1/contact"])
def test_a_body_that_is_too_large_is_refused_before_it_is_sent(served: Site, path: str) -> None:
    answer = served.exchange(BODY_OVER_NGINX_S_LIMIT % path.encode())

    assert (answer.status, json.loads(answer.body)["error"]["details"]) == (400, {"reason": "too_large"})
    assert answer.headers["RateLimit-Policy"] == '"default";q=1;w=30'
    assert logged(served, f' {id_of(answer)} 400 "-" ')
    validate(answer, "POST", f"/{path}")


def test_the_largest_body_passes_and_one_byte_more_counts_nothing(served: Site) -> None:
    body, client = json.dumps(contact_body()).encode(), "127.0.2.5"
    fields = {"Content-Type": "application/json"}

    refused = served.request("POST", "/contact.php", client=client, body=body.ljust(MAX_BODY_BYTES + 1), headers=fields)
    accepted = served.request("POST", "/contact.php", client=client, body=body.ljust(MAX_BODY_BYTES), headers=fields)

    assert json.loads(refused.body)["error"]["details"] == {"reason": "too_large"}
    assert logged(served, f' {id_of(refused)} 400 "-" ')
    assert accepted.status == 200


def test_trace_is_answered_with_the_methods_of_the_path(served: Site) -> None:
    answer = served.exchange(b"TRACE /contact.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")

    assert (answer.status, answer.code, answer.headers["Allow"]) == (405, "method_not_allowed", "POST, OPTIONS")


WITHOUT_A_VERSION = {
    "target": b"GET /api\r\n",
    "target and a space": b"GET /api \r\n",
    "many spaces": b"GET   /api   \r\n",
    "line feed alone": b"GET /api\n",
    "unknown path": b"GET /unknown\r\n",
    "place of an answer": b"GET /public-web-interface/malformed\r\n",
    "bad escape": b"GET /%zz\r\n",
    "whole address": b"GET http://a/api\r\n",
    "form": b"POST /contact.php\r\n",
    "unknown method": b"A-B_C /api\r\n",
    "trace": b"TRACE /api\r\n",
    "certificate authority": b"GET /.well-known/acme-challenge/none\r\n",
}


@pytest.mark.parametrize("request_bytes", WITHOUT_A_VERSION.values(), ids=WITHOUT_A_VERSION)
def test_http_0_9_is_cut_off_without_a_word(served: Site, request_bytes: bytes) -> None:
    """Its answers have no status and no fields, so none could be as documented."""
    for port in (None, served.http_port, served.https_port):
        with served.open(port) as connection:
            connection.sendall(request_bytes)
            assert connection.recv(1) == b""


def test_clear_http_is_refused_in_the_envelope(served: Site) -> None:
    on_its_port = served.exchange(b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n", port=served.http_port)
    on_the_other = served.exchange(b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n", port=served.https_port)

    for answer in (on_its_port, on_the_other):
        assert (answer.status, answer.code) == (400, "invalid_body")
        assert logged(served, f' {id_of(answer)} 400 "-" ')
        validate(answer, path="/api")


AUTHENTICATED = ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")


@pytest.mark.parametrize("key_type", trustme.KeyType)
def test_tls_1_2_has_forward_secrecy_and_authenticated_encryption_alone(
    tmp_path: Path, key_type: trustme.KeyType
) -> None:
    with site(tmp_path, key_type=key_type) as served:
        offered = {cipher["name"] for cipher in tls_1_2(served, "ALL").get_ciphers() if cipher["protocol"] != "TLSv1.3"}
        taken = {name for name in offered if agreed(served, tls_1_2(served, name))}

    assert {"AES128-SHA", "AES128-GCM-SHA256", f"ECDHE-{key_type.name}-AES128-SHA"} <= offered
    assert taken == {f"ECDHE-{key_type.name}-{name}" for name in AUTHENTICATED}


def test_a_client_of_tls_1_2_has_the_cipher_that_suits_it_best(served: Site) -> None:
    ciphers = [f"ECDHE-ECDSA-{name}" for name in AUTHENTICATED]

    for order in itertools.permutations(ciphers):
        assert agreed(served, tls_1_2(served, ":".join(order))) == order[0]


def tls_1_2(served: Site, ciphers: str) -> ssl.SSLContext:
    """A client of TLS 1.2 that takes these ciphers, the weakest ones included."""
    context = served.tls()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    return context


def agreed(served: Site, client: ssl.SSLContext) -> str | None:
    """The cipher of a handshake, unless it fails."""
    try:
        with served.connect(tls=client) as connection:
            cipher = connection.cipher()
    except OSError:
        return None
    return cipher[0] if cipher else None


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
def test_versions_of_tls_before_1_2_are_refused_whatever_the_ciphers(tmp_path: Path) -> None:
    with site(tmp_path, changes={"ssl_ciphers ": "ssl_ciphers ALL:@SECLEVEL=0:"}) as served:
        taken = []
        for version in (version for version in ssl.TLSVersion if version >= ssl.TLSVersion.TLSv1):
            client = tls_1_2(served, "ALL")
            client.maximum_version = client.minimum_version = version
            if agreed(served, client):
                taken.append(version)

    assert taken == [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


HSTS = "Strict-Transport-Security"
A_YEAR = "max-age=31536000"

OVER_TLS = {
    "service": b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n",
    "method that nginx hands on": b"TRACE /api HTTP/1.1\r\nHost: a\r\n\r\n",
    "malformed": b"GET /api HTTP/1.1\r\n\r\n",
    "too large": BODY_OVER_NGINX_S_LIMIT % b"contact.php",
}


@pytest.mark.parametrize("request_bytes", OVER_TLS.values(), ids=OVER_TLS)
def test_an_answer_over_tls_asks_for_tls_from_now_on(served: Site, request_bytes: bytes) -> None:
    assert served.exchange(request_bytes).headers[HSTS] == A_YEAR


@pytest.mark.parametrize("path", [b"/api", b"/.well-known/acme-challenge/none"])
def test_an_answer_in_clear_does_not_ask_for_tls(served: Site, path: bytes) -> None:
    """RFC 6797, section 7.2."""
    for port in (served.http_port, served.https_port):
        assert HSTS not in served.exchange(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path, port=port).headers


def test_a_certificate_authority_finds_its_answer_and_nothing_else_is_html(served: Site) -> None:
    answer = served.exchange(b"GET /.well-known/acme-challenge/none HTTP/1.1\r\nHost: a\r\n\r\n", port=served.http_port)

    assert answer.code == "invalid_body"


@pytest.mark.parametrize("path", ["/api", "/openapi.json", "/contact.php", "/unknown"])
def test_a_service_that_is_down_is_an_internal_error(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as served:
        answer = served.request("GET", path)
        assert logged(served, f' {id_of(answer)} 500 "502')

    assert (answer.status, answer.code, answer.headers[HSTS]) == (500, "internal_error", A_YEAR)
    validate(answer, path=path)


def test_a_service_that_hangs_is_an_internal_error(tmp_path: Path) -> None:
    with site(tmp_path, "0", "1", changes={"proxy_read_timeout 60s": "proxy_read_timeout 1s"}) as served:
        workers = [served.worker(instance) for instance in served.instances]
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        try:
            answer = served.request("POST", "/api/v1/contact", body=contact_body())
        finally:
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
        logged(served, f' {id_of(answer)} 500 "504" ')  # a form that may have arrived is not sent to another process

    assert (answer.status, answer.code) == (500, "internal_error")
    validate(answer, "POST", "/api/v1/contact")


def test_one_client_cannot_hold_all_connections(served: Site) -> None:
    greedy, other = new_client(), new_client()
    with holding_connections(served, greedy):
        assert served.request("GET", "/api", client=other).status == 200

    wait_until(lambda: served.request("GET", "/api", client=greedy).status == 200)


MAX_CONCURRENT_STREAMS = 3
"""The number of the setting in RFC 9113, section 6.5.2."""

OVER_HTTP_2 = {
    "body too large": (["-H", "Expect:", "--data-binary", "@-"], "too_large"),
    "bad escape": (["--request-target", "/api/%zz"], "http"),
    "target too long": (["--request-target", "/" + "a" * 15_000], "http"),
    "target almost too long for nginx": (["--request-target", "/" + "~" * 32_000], "http"),
}


@pytest.mark.parametrize(("options", "reason"), OVER_HTTP_2.values(), ids=OVER_HTTP_2)
def test_http_2_has_the_same_answers(served: Site, options: list[str], reason: str) -> None:
    head, _, body = served.curl("--http2", *options, body=b"a" * 300_000).partition("\r\n\r\n")

    assert head.startswith("HTTP/2 400")
    assert f"{HSTS}: {A_YEAR}".lower() in head
    assert json.loads(body)["error"]["details"] == {"reason": reason}


@pytest.mark.parametrize("option", ["--request-target=/", "--header=X-Long: "], ids=["target", "header"])
def test_http_2_has_no_answer_beyond_the_documented_limit(served: Site, option: str) -> None:
    name, _, value = option.partition("=")

    assert served.curl("--http2", name, value + "~" * 33_000) == ""


def test_a_long_preflight_is_answered(served: Site) -> None:
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = ", ".join(f"x-{number}" for number in range(1000))

    answer = served.request("OPTIONS", "/contact.php", client=new_client(), headers=asked)

    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Headers"].count("x-") == 1000


def test_the_service_meets_only_the_fields_that_it_reads(tmp_path: Path) -> None:
    read = {"Content-Type": "a/b", "Origin": "https://a.example", "If-None-Match": '"a"'}
    read |= {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-a"}
    others = {
        "Cookie": "a=b",
        "Authorization": "Basic a",
        "Referer": "https://a.example/",
        "User-Agent": "a",
        "Via": "a",
    }
    paths = [tmp_path / "run" / instance / "gunicorn.sock" for instance in ("0", "1")]
    with ExitStack() as stack:
        for path in paths:
            path.parent.mkdir(parents=True)
        listeners = [stack.enter_context(socket.create_server(str(path), family=socket.AF_UNIX)) for path in paths]
        served = stack.enter_context(site(tmp_path))
        client = stack.enter_context(served.connect())
        lines = [f"{name}: {value}\r\n" for name, value in (read | others).items()]
        client.sendall(f"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n{''.join(lines)}\r\n{{}}".encode())
        ready, _, _ = select.select(listeners, [], [], 30)
        service = stack.enter_context(ready[0].accept()[0])
        head = service.recv(65_536).decode().partition("\r\n\r\n")[0]

    passed = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    made = {
        "Host",
        "Connection",
        "Content-Length",
        "X-Request-ID",
        *(f"X-Forwarded-{part}" for part in ("For", "Proto", "Host")),
    }
    assert {name: value for name, value in passed.items() if name not in made} == read
    assert passed["Content-Length"] == "2"


def test_http_2_announces_how_many_requests_a_client_may_have_at_once(served: Site) -> None:
    http_2 = served.tls()
    http_2.set_alpn_protocols(["h2"])

    with served.connect(tls=http_2) as connection, connection.makefile("rb") as frames:
        head = frames.read(9)
        settings = dict(struct.iter_unpack(">HI", frames.read(int.from_bytes(head[:3]))))

    assert settings[MAX_CONCURRENT_STREAMS] == CONNECTIONS_OF_A_CLIENT


def test_a_name_that_is_not_the_site_s_is_answered_all_the_same(served: Site) -> None:
    for request in (b"GET /unknown HTTP/1.1\r\nHost: other.example\r\n\r\n", b"GET /unknown HTTP/1.0\r\n\r\n"):
        assert served.exchange(request).code == "not_found"
        assert served.exchange(request, port=served.http_port).code == "invalid_body"


def test_a_client_that_is_too_slow_is_cut_off_without_a_word(tmp_path: Path) -> None:
    changes = {"client_header_timeout 10s": "client_header_timeout 1s"}
    with site(tmp_path, changes=changes) as served, served.connect() as connection:
        connection.sendall(b"GET /api HTTP/1.1\r\n")

        assert connection.recv(1) == b""


def stored(served: Site) -> set[str]:
    return {path.name for path in (served.directory / "mail" / "new").iterdir()}


def test_one_client_meets_one_process(served: Site) -> None:
    for client in range(1, 40):
        for _ in range(3):
            answer = served.request("GET", "/api/versioning", client=f"127.3.{client}.1")
            logged_by_service(served, id_of(answer))

    clients = [set(re.findall(r"127\.3\.\d+\.0/24", served.log(instance))) for instance in ("0", "1")]
    assert not clients[0] & clients[1]
    assert min(len(seen) for seen in clients) > 5


def test_an_ipv6_client_is_its_64_wherever_it_turns_up_in_it(served: Site) -> None:
    hosts = [":1", "5:6:7:8", "a::", "0:1:0:1", "ffff:ffff:ffff:ffff"]

    answers = [ask_as(served, f"2001:db8:0:7:{hosts[number % len(hosts)]}") for number in range(80)]

    assert [answer.status for answer in answers] == [200] * QUOTA + [429] * 20
    assert ask_as(served, "2001:db8:0:8::1").status == 200
    assert logged(served, " 2001:db8:0::/48$", 81)


@pytest.mark.parametrize("prefix", ["::ffff:", "64:ff9b::"])
def test_an_ipv4_client_in_ipv6_is_one_of_its_own(served: Site, prefix: str) -> None:
    with holding_connections(served, RELAY, {RELAYED: f"{prefix}198.18.5.1"}):
        others = [ask_as(served, f"{prefix}198.18.5.{number}") for number in range(2, 22)]

    assert [answer.status for answer in others] == [200] * 20
    wait_until(lambda: ask_as(served, "198.18.5.1").status == 200)


def test_an_ipv4_client_meets_one_process_and_quota_in_whatever_notation(served: Site) -> None:
    notations = ["198.51.100.9", "::ffff:198.51.100.9", "64:ff9b::198.51.100.9"]

    answers = [ask_as(served, notations[number % len(notations)]) for number in range(QUOTA + 3)]

    assert [answer.status for answer in answers] == [200] * QUOTA + [429] * 3


def ask_as(served: Site, address: str) -> Answer:
    """A request from an address that this machine does not have."""
    return served.request("GET", "/api", client=RELAY, headers={RELAYED: address})


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.77", "203.0.113.0/24"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ("2001:db8:2::6", "2001:db8:2::/48"),
        ("2001:db9::4:5:6", "2001:db9::/48"),
        ("2001::6", "2001::/48"),
        ("::1", "::/48"),
        ("::ffff:203.0.114.77", "203.0.114.0/24"),
        ("64:ff9b::203.0.113.77", "64:ff9b::cb00:7100/120"),
        ("64:ff9b::203.0.2.7", "64:ff9b::cb00:200/120"),
        ("64:ff9b::203.1.0.7", "64:ff9b::cb01:00/120"),
        ("64:ff9b:1::203.0.113.77", "64:ff9b:1::/48"),
    ],
)
def test_the_access_log_shows_the_network_alone(served: Site, address: str, network: str) -> None:
    ask_as(served, address)

    assert logged(served, f" {re.escape(network)}$")


def test_the_clients_of_a_killed_process_are_served_by_the_other_one_at_once(tmp_path: Path) -> None:
    clients = [f"127.0.0.{number}" for number in range(1, 21)]
    with site(tmp_path, "0", "1") as served:
        kill(served, "1")
        answers = [served.request("GET", "/api", client=client) for client in clients]
        posts = [served.request("POST", "/contact.php", client=client, body=contact_body()) for client in clients]
        served.start("1")
        for client in clients:
            served.request("GET", "/api", client=client)

        assert {answer.status for answer in answers + posts} == {200}
        assert len(stored(served)) == len(clients)
        served.wait_for_log("1", '"route": "/api"')


def kill(served: Site, instance: str) -> None:
    """End a process and its worker as the kernel does when memory runs out."""
    process = served.instances.pop(instance)
    worker = served.worker(instance)
    process.kill()
    os.kill(worker, signal.SIGKILL)
    process.wait()
