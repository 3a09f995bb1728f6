"""The service as its clients meet it: through nginx, alone on its machine or beside a website."""

from __future__ import annotations

import gzip
import json
import os
import re
import select
import signal
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import trustme

from tests.api.exchanges import CASES, SERVICE_DESC, Row
from tests.api.fields import CONSTANT, hold
from tests.client import validate_response
from tests.deploy.load import CONNECTIONS_OF_A_CLIENT, holding_connections, new_client
from tests.deploy.site import INSTANCES, OWN_NAME, RELAY, RELAYED, SERVER_NAME, Answer, Site, site
from tests.deploy.website import BESIDE, own_name, website
from tests.factories import API_QUOTA, LOG_TIME, contact_body
from tests.server.test_exchanges import ROWS as OF_GUNICORN
from tests.waiting import wait_until

QUOTA = API_QUOTA.quota
HSTS, A_YEAR = "Strict-Transport-Security", "max-age=31536000"
BASE = f"https://{SERVER_NAME}"


@dataclass(frozen=True)
class Place:
    """Where the service is installed."""

    site: Site
    name: str = SERVER_NAME
    has_the_name: bool = True
    """False under the name of a website, which answers for all other paths and asks for TLS itself."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Shared by tests whose clients have addresses of their own. Its nginx is patient: the machine may be busy."""
    patience = {"client_body_timeout 10s": "client_body_timeout 120s"}
    with site(tmp_path_factory.mktemp("site"), *INSTANCES, changes=patience) as served:
        yield served


@pytest.fixture(scope="module")
def alone(served: Site) -> Place:
    return Place(served)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with website(tmp_path_factory.mktemp("named"), own_name(), *INSTANCES) as installed:
        yield Place(installed.site, OWN_NAME)


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with website(tmp_path_factory.mktemp("beside"), BESIDE, *INSTANCES) as installed:
        yield Place(installed.site, has_the_name=False)


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


def stored(served: Site) -> int:
    return len(list((served.directory / "mail" / "new").iterdir()))


def validate(answer: Answer, method: str = "GET", path: str = "/refused") -> None:
    validate_response(method, path, answer.status, answer.headers.items(), answer.body)


def send(place: Place, row: Row, client: str) -> Answer:
    """What a row sends, from a client that takes gzip and that the website would limit."""
    headers = {"Host": place.name, "Accept-Encoding": "gzip", "X-Limited": "service"} | row.sent_headers
    return place.site.request(row.method, row.target, client=client, body=row.body, headers=headers)


THROUGH_NGINX = [
    *(name for name in OF_GUNICORN if "65,537" not in name and "localhost" not in name),
    "form: of kind ventas, /contact.php",
    "form: with the longest mensaje, /api/v1/contact",
    "order of the checks: syntax, /contact.php",
    "required field: no form_type, /api/v1/contact",
    "discovery: section docs",
    "discovery: v1",
    "document: of a host that only a proxy may name",
    "method: GET /openapi.json",
    "method: HEAD /openapi.json",
    "method: GET /api/versioning",
    "method: GET /api/v1/health",
    "method: TRACE /contact.php",
    "method: PROPFIND /api",
    "method: OPTIONS /api/v1/health",
    "page of another origin: reads the index",
    "page of another origin: reads a refusal",
    "unknown path: GET '/api/'",
    "unknown path: GET '/api/x'",
    "unknown path: GET '/contact'",
    "unknown path: GET '//api'",
    "request id: of a client",
]
"""Rows that the service answers."""
OUTSIDE = {"unknown path: GET '/contact'", "unknown path: GET '//api'", "method: TRACE /contact.php"}
"""Those that nginx or the website answers where the service is under the website's name."""


PLACES = ("alone", "named", "beside")


@pytest.mark.parametrize(
    ("at", "name"),
    [(at, name) for at in PLACES for name in THROUGH_NGINX if at != "beside" or name not in OUTSIDE],
    ids=str,
)
def test_an_exchange(request: pytest.FixtureRequest, at: str, name: str) -> None:
    place: Place = request.getfixturevalue(at)
    row, client = CASES[name], new_client()
    for earlier in row.earlier:
        send(place, earlier, client)
    before = stored(place.site)

    answer = send(place, row, client)

    is_compressed = answer.headers["Content-Encoding"] == "gzip"
    plain = gzip.decompress(answer.body) if is_compressed and answer.body else answer.body
    validate(replace(answer, body=plain), row.method, row.path)
    hold(row, answer.status, answer.headers.items(), plain, base=BASE)
    assert is_compressed == (row.path == "/openapi.json" and answer.status == 200)
    assert answer.headers[HSTS] == (A_YEAR if place.has_the_name else None)
    assert id_of(answer) != row.headers.get("X-Request-ID")
    assert logged(place.site, f' {id_of(answer)} {answer.status} "{answer.status}" ')
    assert stored(place.site) - before == row.messages


def test_the_limits_count_the_real_client_whatever_it_says_of_itself(served: Site) -> None:
    lies = [{"X-Forwarded-For": f"203.0.113.{number}", "Forwarded": f"for=203.0.113.{number}"} for number in range(80)]

    answers = [served.request("GET", "/api", client="127.0.1.1", headers=lie) for lie in lies]

    assert [answer.status for answer in answers] == [200] * QUOTA + [429] * 20
    assert served.request("GET", "/api", client="127.0.1.2").status == 200


def test_the_request_id_of_the_answer_is_in_both_logs(served: Site) -> None:
    answer = served.request("GET", "/api/versioning", client="127.0.11.4")

    (line,) = map(json.loads, logged_by_service(served, id_of(answer)))
    assert line["client"] == "127.0.11.0/24"
    assert logged(served, f' {id_of(answer)} 200 "200" ')


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_both_logs_name_the_time_in_one_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)  # nginx's
    with site(tmp_path, "0", environ={"TZ": zone, "LOG_FORMAT": "text"}) as served:
        begun = datetime.now(ZoneInfo(zone))
        answer = served.request("GET", "/api")
        (theirs,) = logged(served, f" {id_of(answer)} ")
        served.wait_for_log("0", f" {id_of(answer)} ")
        (ours,) = (line for line in served.log("0").splitlines() if f" {id_of(answer)} " in line)
        ended = datetime.now(ZoneInfo(zone))

    moments = [datetime.fromisoformat(time) for line in (ours, theirs) for time in re.findall(f"^{LOG_TIME}", line)]
    assert len(moments) == 2
    assert all(begun - timedelta(milliseconds=1) < moment < ended for moment in moments)
    assert [moment.utcoffset() for moment in moments] == [begun.utcoffset()] * 2


def test_nginx_logs_no_address_and_nothing_that_a_client_wrote(tmp_path: Path) -> None:
    with site(tmp_path) as served:  # without the service: what nginx says of that must not say too much
        served.request("GET", "/ana@example.com?ana@example.com", client="127.0.9.87", headers={"User-Agent": "ana@"})
        served.exchange(b"ana@example.com\r\n\r\n")
        served.exchange(b"GET /ana@example.com HTTP/1.1\r\nHost: a\r\n\r\n", port=served.http_port)
        logged(served, r" 127\.0\.9\.0/24$")
        logged(served, r" 127\.0\.0\.0/24$", 2)

        logs = "".join(path.read_text() for path in (tmp_path / "log").glob("public-web-interface*"))
    assert not [personal for personal in ("127.0.9.87", "127.0.0.1", "ana@") if personal in logs]


def document(served: Site, sent: bytes, method: bytes = b"GET") -> Answer:
    """What is answered to whoever asks for the document and sends these fields and no others."""
    return served.exchange(b"%s /openapi.json HTTP/1.1\r\nHost: a\r\n%s\r\n" % (method, sent))


ENCODINGS = {
    "gzip alone": (b"Accept-Encoding: gzip\r\n", "gzip"),
    "a browser": (b"Accept-Encoding: gzip, deflate, br, zstd\r\n", "gzip"),
    "gzip least": (b"Accept-Encoding: br, gzip;q=0.1\r\n", "gzip"),
    "behind a proxy": (b"Accept-Encoding: gzip\r\nVia: 1.1 a\r\n", "gzip"),
    "nothing said": (b"", None),
    "as it is": (b"Accept-Encoding: identity\r\n", None),
    "anything but gzip": (b"Accept-Encoding: gzip;q=0\r\n", None),
    "others": (b"Accept-Encoding: br, zstd\r\n", None),
}


@pytest.mark.parametrize(("sent", "encoding"), ENCODINGS.values(), ids=ENCODINGS)
def test_the_document_is_compressed_for_who_takes_gzip_and_stays_the_same(
    served: Site, sent: bytes, encoding: str | None
) -> None:
    plain, get, head = document(served, b""), document(served, sent), document(served, sent, b"HEAD")
    tag, other = (f"If-None-Match: {it}\r\n".encode() for it in (plain.headers["ETag"], 'W/"another"'))
    another = document(served, sent + other)
    known, known_head = (document(served, sent + tag, method) for method in (b"GET", b"HEAD"))

    assert (get.headers["Content-Encoding"], head.headers["Content-Encoding"]) == (encoding, encoding)
    assert (gzip.decompress(get.body) if encoding else get.body) == plain.body
    assert len(get.body) * (4 if encoding else 1) <= len(plain.body)
    assert (another.status, another.body) == (200, get.body)
    assert (head.body, known.status, known.body, known_head.status, known_head.body) == (b"", 304, b"", 304, b"")
    validate(known, path="/openapi.json")
    for answer in (get, head, known, known_head):
        assert answer.headers["ETag"] == plain.headers["ETag"]
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        assert answer.headers.get_all("Vary") == [CONSTANT["Vary"]]
    assert head.headers["Content-Length"] == get.headers["Content-Length"]


def test_the_document_is_compressed_over_http_2(served: Site) -> None:
    options = ["--request-target", "/openapi.json", "--compressed"]

    head, _, body = served.curl("--http2", *options).partition("\r\n\r\n")

    values = {name: re.findall(rf"^{name}: (.*?)\r?$", head, re.MULTILINE) for name in ("content-encoding", "vary")}
    assert values == {"content-encoding": ["gzip"], "vary": [CONSTANT["Vary"]]}
    assert body.encode() == document(served, b"").body


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


CHUNKED = b"POST /contact.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
BY_NGINX = {
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
    "body too large": b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n",
    "body too large by a byte": b"POST /contact.php HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n",
    "body too large in chunks": CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (70_001, b"a" * 70_001),
    "unknown transfer coding": b"POST /contact.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: zip\r\n\r\n",
    "bad chunk": CHUNKED + b"zz\r\n",
}
BY_GUNICORN = {
    "target too long for gunicorn": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "target almost too long for nginx": b"GET /" + b"a" * 32_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "raw non-ASCII": "GET /api/ñ HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
}


@pytest.mark.parametrize(("name", "request_bytes"), (BY_NGINX | BY_GUNICORN).items(), ids=BY_NGINX | BY_GUNICORN)
def test_what_is_malformed_is_refused_in_the_envelope_with_the_id_of_a_log(
    served: Site, name: str, request_bytes: bytes
) -> None:
    answer = served.exchange(request_bytes)

    path = (
        "/contact.php" if b" /contact.php " in request_bytes else "/api"
    )  # a path that cannot be read is one of these
    reason = "too_large" if name.startswith("body too large") else "http"
    assert (answer.status, json.loads(answer.body)["error"]["details"]) == (400, {"reason": reason})
    validate(answer, "POST" if path == "/contact.php" else "GET", path)
    if name in BY_NGINX:
        assert logged(served, f' {id_of(answer)} 400 "-" ')
    else:  # gunicorn has not read the field in which nginx tells it another id
        assert [json.loads(line).get("code") for line in logged_by_service(served, id_of(answer))][-1] == "invalid_body"


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("name", ["body too large", "body too large in chunks", "bad chunk"])
def test_a_form_that_nginx_refuses_is_answered_so_in_every_place(
    request: pytest.FixtureRequest, at: str, name: str
) -> None:
    place: Place = request.getfixturevalue(at)

    answer = place.site.exchange(BY_NGINX[name].replace(b"Host: a", f"Host: {place.name}".encode()))

    assert answer.code == "invalid_body"
    assert answer.headers[HSTS] == (A_YEAR if place.has_the_name else None)
    validate(answer, "POST", "/contact.php")


UNDER_API = [
    *("/api", "/api/", "/api?section=x", "/api#x", "/api/v1/health", "/api/v1/../x", "/api//x", "/api/v1/contact?x"),
    *("/api/%2e%2e/x", "/openapi.json", "/openapi.json?x", "/openapi.json#x", "http://b/api"),
]
OUTSIDE_API = [
    *("/contact.php", "/unknown", "/apix", "/api.json", "/API", "/api;x", "/api%3Fx", "/api%23x", "/%2561pi"),
    *("/x/../api", "//api", "/./api", "/%2Fapi", "/openapi.json/", "/openapi.jsonx", "/openapi_json"),
    *("/x/openapi.json", "/openapi", "/OpenAPI.json", "/?/api", "/#/api", "/public-web-interface/malformed"),
    "http://b/x",
]
DIFFER = {"Date", "Connection", "Content-Length", "RateLimit", "X-Request-ID", "Allow"}
DIFFER |= {"X-RateLimit-Remaining", "X-RateLimit-Reset"}
"""What differs from one answer to the next."""


@pytest.mark.parametrize("path", UNDER_API + OUTSIDE_API)
def test_nginx_s_own_answers_have_the_fields_of_the_service_s(served: Site, path: str) -> None:
    own = served.exchange(b"GET %s HTTP/1.1\r\nHost: a\r\nX-Long: %s\r\n\r\n" % (path.encode(), b"a" * 33_000))
    service = served.request("PUT", path, client=new_client())

    assert fields(own) == fields(service)
    assert own.headers.get_all("Link", []) == [SERVICE_DESC] * (path in UNDER_API)


def fields(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in DIFFER}


@pytest.mark.parametrize("page", ["malformed", "too-large", "unavailable", "x"])
def test_the_places_of_nginx_s_answers_are_unknown_paths_to_clients(served: Site, page: str) -> None:
    answer = served.request("GET", f"/public-web-interface/{page}", client="127.0.2.7")
    place = served.request("GET", f"/../public-web-interface/{page}", client="127.0.2.7")

    assert (answer.status, answer.code) == (404, "not_found")
    assert (place.status, place.code) == (400, "invalid_body")


WITHOUT_A_VERSION = {
    "target": b"GET /api\r\n",
    "target and a space": b"GET /api \r\n",
    "many spaces": b"GET   /api   \r\n",
    "unknown path": b"GET /unknown\r\n",
    "place of an answer": b"GET /public-web-interface/malformed\r\n",
    "whole address": b"GET http://a/api\r\n",
    "unknown method": b"A-B_C /api\r\n",
    "trace": b"TRACE /api\r\n",
    "line feed alone": b"GET /api\n",
    "bad escape": b"GET /%zz\r\n",
    "form": b"POST /contact.php\r\n",
    "certificate authority": b"GET /.well-known/acme-challenge/none\r\n",
}


@pytest.mark.parametrize("port", ["https", "http", "http on https"])
@pytest.mark.parametrize("request_bytes", WITHOUT_A_VERSION.values(), ids=WITHOUT_A_VERSION)
def test_http_0_9_is_cut_off_without_a_word(served: Site, request_bytes: bytes, port: str) -> None:
    """Its answers have no status and no fields, so none could be as documented."""
    ports = {"https": None, "http": served.http_port, "http on https": served.https_port}

    with served.open(ports[port]) as connection:
        connection.sendall(request_bytes)
        assert connection.recv(1) == b""


@pytest.mark.parametrize("is_on_its_port", [True, False], ids=["on its port", "on the other"])
def test_clear_http_is_refused_in_the_envelope_and_asked_for_no_tls(served: Site, *, is_on_its_port: bool) -> None:
    """RFC 6797, section 7.2."""
    port = served.http_port if is_on_its_port else served.https_port

    answer = served.exchange(b"GET /api HTTP/1.1\r\nHost: other.example\r\n\r\n", port=port)

    assert (answer.status, answer.code, HSTS in answer.headers) == (400, "invalid_body", False)
    assert logged(served, f' {id_of(answer)} 400 "-" ')
    validate(answer, path="/api")


@pytest.mark.parametrize("is_on_its_port", [True, False], ids=["on its port", "on the other"])
def test_a_certificate_authority_finds_its_answer_and_nothing_else_is_html(
    served: Site, *, is_on_its_port: bool
) -> None:
    port = served.http_port if is_on_its_port else served.https_port

    answer = served.exchange(b"GET /.well-known/acme-challenge/none HTTP/1.1\r\nHost: a\r\n\r\n", port=port)

    assert (answer.code, HSTS in answer.headers) == ("invalid_body", False)


def test_a_name_that_is_not_the_site_s_is_answered_all_the_same(served: Site) -> None:
    for request in (b"GET /unknown HTTP/1.1\r\nHost: other.example\r\n\r\n", b"GET /unknown HTTP/1.0\r\n\r\n"):
        assert served.exchange(request).code == "not_found"
        assert served.exchange(request, port=served.http_port).code == "invalid_body"


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


@pytest.mark.parametrize("first", AUTHENTICATED)
def test_a_client_of_tls_1_2_has_the_cipher_that_suits_it_best(served: Site, first: str) -> None:
    order = sorted(AUTHENTICATED, key=lambda name: name != first)

    assert agreed(served, tls_1_2(served, ":".join(f"ECDHE-ECDSA-{name}" for name in order))) == f"ECDHE-ECDSA-{first}"


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
    taken = set()
    with site(tmp_path, changes={"ssl_ciphers ": "ssl_ciphers ALL:@SECLEVEL=0:"}) as served:
        for version in (version for version in ssl.TLSVersion if version >= ssl.TLSVersion.TLSv1):
            client = tls_1_2(served, "ALL")
            client.maximum_version = client.minimum_version = version
            taken |= {version} if agreed(served, client) else set()

    assert taken == {ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3}


@pytest.mark.parametrize("path", ["/api", "/openapi.json", "/contact.php", "/unknown"])
def test_a_service_that_is_down_is_an_internal_error(tmp_path: Path, path: str) -> None:
    with site(tmp_path) as served:
        answer = served.request("GET", path)
        assert logged(served, f' {id_of(answer)} 500 "502')

    assert (answer.status, answer.code, answer.headers[HSTS]) == (500, "internal_error", A_YEAR)
    validate(answer, path=path)


def test_a_service_that_hangs_is_an_internal_error(tmp_path: Path) -> None:
    with site(tmp_path, *INSTANCES, changes={"proxy_read_timeout 60s": "proxy_read_timeout 1s"}) as served:
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


def test_the_clients_of_a_killed_process_are_served_by_the_other_one_at_once(tmp_path: Path) -> None:
    clients = [f"127.0.0.{number}" for number in range(1, 21)]
    with site(tmp_path, *INSTANCES) as served:
        process, worker = served.instances.pop("1"), served.worker("1")
        process.kill()  # as the kernel does when memory runs out
        os.kill(worker, signal.SIGKILL)
        process.wait()
        answers = [served.request("GET", "/api", client=client) for client in clients]
        answers += [served.request("POST", "/contact.php", client=client, body=contact_body()) for client in clients]
        served.start("1")
        for client in clients:
            served.request("GET", "/api", client=client)

        assert {answer.status for answer in answers} == {200}
        assert stored(served) == len(clients)
        served.wait_for_log("1", '"route": "/api"')


def test_one_client_cannot_hold_all_connections(served: Site) -> None:
    greedy, other = new_client(), new_client()
    with holding_connections(served, greedy):
        assert served.request("GET", "/api", client=other).status == 200

    wait_until(lambda: served.request("GET", "/api", client=greedy).status == 200)


def test_a_client_that_is_too_slow_is_cut_off_without_a_word(tmp_path: Path) -> None:
    changes = {"client_header_timeout 10s": "client_header_timeout 1s"}
    with site(tmp_path, changes=changes) as served, served.connect() as connection:
        connection.sendall(b"GET /api HTTP/1.1\r\n")

        assert connection.recv(1) == b""


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


def test_http_2_announces_how_many_requests_a_client_may_have_at_once(served: Site) -> None:
    http_2 = served.tls()
    http_2.set_alpn_protocols(["h2"])

    with served.connect(tls=http_2) as connection, connection.makefile("rb") as frames:
        head = frames.read(9)
        settings = dict(struct.iter_unpack(">HI", frames.read(int.from_bytes(head[:3]))))

    max_concurrent_streams = 3  # RFC 9113, section 6.5.2
    assert settings[max_concurrent_streams] == CONNECTIONS_OF_A_CLIENT


UNREAD = {
    "cookies that HTTP/2 sends in pieces": [f"Cookie: c{number}={'c' * 3000}" for number in range(3)],
    "100 fields": [f"X-{number}: x" for number in range(100)],
    "a long address of the page": [f"Referer: https://www.example.com/?{'r' * 12_000}"],
    "a Kerberos ticket": [f"Authorization: Negotiate {'k' * 12_000}"],
}


@pytest.mark.parametrize("lines", UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("at", ["alone", "beside"])
def test_what_the_service_does_not_read_stops_no_form(
    request: pytest.FixtureRequest, at: str, version: str, lines: list[str]
) -> None:
    place: Place = request.getfixturevalue(at)
    sent = [part for line in [*lines, "Content-Type: application/json"] for part in ("--header", line)]

    options = [f"--http{version}", "--interface", new_client(), *sent, "--data-binary", "@-"]
    answer = place.site.curl(*options, body=json.dumps(contact_body()).encode())

    assert answer.startswith(f"HTTP/{version} 200"), answer


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
    made = {"Host", "Connection", "Content-Length", "X-Request-ID"}
    made |= {f"X-Forwarded-{part}" for part in ("For", "Proto", "Host")}
    paths = [tmp_path / "run" / instance / "gunicorn.sock" for instance in INSTANCES]
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
    assert {name: value for name, value in passed.items() if name not in made} == read
    assert passed["Content-Length"] == "2"


def test_one_client_meets_one_process(served: Site) -> None:
    for client in range(1, 40):
        for _ in range(3):
            answer = served.request("GET", "/api/versioning", client=f"127.3.{client}.1")
            logged_by_service(served, id_of(answer))

    clients = [set(re.findall(r"127\.3\.\d+\.0/24", served.log(instance))) for instance in INSTANCES]
    assert not clients[0] & clients[1]
    assert min(len(seen) for seen in clients) > 5


def ask_as(served: Site, address: str) -> Answer:
    """A request from an address that this machine does not have."""
    return served.request("GET", "/api", client=RELAY, headers={RELAYED: address})


ONE_CLIENT = {
    "IPv6, wherever in its /64": [
        f"2001:db8:0:7:{host}" for host in (":1", "5:6:7:8", "a::", "0:1:0:1", "ffff:ffff:ffff:ffff")
    ],
    "IPv4, in whatever notation": ["198.51.100.9", "::ffff:198.51.100.9", "64:ff9b::198.51.100.9"],
}


@pytest.mark.parametrize("addresses", ONE_CLIENT.values(), ids=ONE_CLIENT)
def test_a_client_has_one_quota(served: Site, addresses: list[str]) -> None:
    answers = [ask_as(served, addresses[number % len(addresses)]) for number in range(QUOTA + 20)]

    assert [answer.status for answer in answers] == [200] * QUOTA + [429] * 20
    assert ask_as(served, "2001:db8:0:8::1").status == 200


@pytest.mark.parametrize("prefix", ["::ffff:", "64:ff9b::"])
def test_an_ipv4_client_in_ipv6_is_one_of_its_own(served: Site, prefix: str) -> None:
    with holding_connections(served, RELAY, {RELAYED: f"{prefix}198.18.5.1"}):
        others = [ask_as(served, f"{prefix}198.18.5.{number}") for number in range(2, 22)]

    assert [answer.status for answer in others] == [200] * 20
    wait_until(lambda: ask_as(served, "198.18.5.1").status == 200)


NETWORKS = {
    "203.0.113.77": "203.0.113.0/24",
    "2001:db8:1:2:3:4:5:6": "2001:db8:1::/48",
    "2001:db8:2::6": "2001:db8:2::/48",
    "2001:db9::4:5:6": "2001:db9::/48",
    "2001::6": "2001::/48",
    "::1": "::/48",
    "::ffff:203.0.114.77": "203.0.114.0/24",
    "64:ff9b::203.0.113.77": "64:ff9b::cb00:7100/120",
    "64:ff9b::203.0.2.7": "64:ff9b::cb00:200/120",
    "64:ff9b::203.1.0.7": "64:ff9b::cb01:00/120",
    "64:ff9b:1::203.0.113.77": "64:ff9b:1::/48",
}


@pytest.mark.parametrize(("address", "network"), NETWORKS.items(), ids=NETWORKS)
def test_the_access_log_shows_the_network_alone(served: Site, address: str, network: str) -> None:
    ask_as(served, address)

    assert logged(served, f" {re.escape(network)}$")
