"""The service as its clients meet it: through nginx, alone on its machine or beside a website."""

import gzip
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app import API_POLICY, CONTACT_POLICY
from tests.api.exchanges import CASES, SERVICE_DESC, Row
from tests.api.fields import hold
from tests.client import validate_response
from tests.deploy.site import INSTANCES, OWN_NAME, RELAY, RELAYED, SERVER_NAME, Answer, Site, site
from tests.deploy.website import BESIDE, NAMED, website
from tests.factories import LOG_TIME, contact_body
from tests.programs import run
from tests.server.gunicorn import unused_address
from tests.server.test_exchanges import ROWS as OF_GUNICORN
from tests.versions import CONTACT, HEALTH
from tests.waiting import wait_until

QUOTA = API_POLICY.quota
CONNECTIONS_OF_A_CLIENT = 32
HSTS, A_YEAR = "Strict-Transport-Security", "max-age=31536000"
ACME = "/.well-known/acme-challenge"
PLACES = {"alone": SERVER_NAME, "named": OWN_NAME, "beside": SERVER_NAME}
"""Where the service is installed, and its name there."""
SAID_OF_TLS = {"alone": A_YEAR, "named": A_YEAR, "beside": None}
"""Under the name of a website the website asks for TLS itself."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    """Shared by tests whose clients have addresses of their own. nginx is patient: the machine may be busy."""
    directory = tmp_path_factory.mktemp("alone")
    changes = {"client_body_timeout 10s": "client_body_timeout 120s", "/var/www/html": f"{directory}/html"}
    with (
        site(directory, *INSTANCES, changes=changes) as alone,
        website(tmp_path_factory.mktemp("named"), NAMED, *INSTANCES) as named,
        website(tmp_path_factory.mktemp("beside"), BESIDE, *INSTANCES) as beside,
    ):
        yield {"alone": alone, "named": named, "beside": beside}


@pytest.fixture
def served(places: dict[str, Site]) -> Site:
    return places["alone"]


def logs(served: Site) -> str:
    """The access log of nginx and the logs of the services."""
    names = ("public-web-interface", *served.instances)
    return "".join((served.directory / "log" / f"{name}.log").read_text() for name in names)


def wait_for_line(served: Site, pattern: str) -> str:
    """The line of a log in which the pattern is found; it may come after the answer."""
    wait_until(lambda: re.search(pattern, logs(served), re.MULTILINE))
    line: str = re.findall(f"^.*{pattern}.*$", logs(served), re.MULTILINE)[0]
    return line


def id_of(answer: Answer) -> str:
    """The request id, which an answer names once."""
    (request_id,) = answer.headers.get_all("X-Request-ID", [])
    return str(request_id)


def stored(served: Site) -> int:
    return len(list((served.directory / "mail" / "new").iterdir()))


def validate(answer: Answer, method: str, path: str) -> None:
    validate_response(method, path, answer.status, answer.headers.items(), answer.body)


UNREAD = {
    "Via": "1.1 a",
    "Cookie": "; ".join(f"c{number}={'c' * 3000}" for number in range(4)),
    "Referer": f"https://www.example.com/?{'r' * 12_000}",
    "Authorization": f"Negotiate {'k' * 12_000}",
    "X-Limited": "service",
}
"""What the service never reads: gunicorn would refuse it. The website would limit those who send the last one."""


def send(served: Site, name: str, row: Row, client: str) -> Answer:
    headers = {"Host": name, "Accept-Encoding": "gzip"} | UNREAD | row.sent_headers
    return served.request(row.method, row.target, client=client, body=row.body, headers=headers)


THROUGH_NGINX = [
    *(name for name in OF_GUNICORN if "65,537" not in name and "localhost" not in name),
    "form: of kind ventas, /contact.php",
    f"form: with the longest texts, {CONTACT}",
    "order of the checks: syntax, /contact.php",
    f"required field: no form_type, {CONTACT}",
    "discovery: section docs",
    "discovery: a version",
    "document: of a host that only a proxy may name",
    "method: GET /openapi.json",
    "method: HEAD /openapi.json",
    "method: GET /api/versioning",
    f"method: GET {HEALTH}",
    "method: TRACE /contact.php",
    "method: PROPFIND /api",
    f"method: OPTIONS {HEALTH}",
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


@pytest.mark.parametrize(
    ("at", "name"), [(at, name) for at in PLACES for name in THROUGH_NGINX if at != "beside" or name not in OUTSIDE]
)
def test_an_exchange(places: dict[str, Site], at: str, name: str) -> None:
    served, row, client = places[at], CASES[name], unused_address()
    for earlier in row.earlier:
        send(served, PLACES[at], earlier, client)
    before = stored(served)

    answer = send(served, PLACES[at], row, client)

    is_compressed = answer.headers["Content-Encoding"] == "gzip"
    plain = gzip.decompress(answer.body) if is_compressed and answer.body else answer.body
    validate(replace(answer, body=plain), row.method, row.path)
    base, quotas = f"https://{SERVER_NAME}", (API_POLICY, CONTACT_POLICY)
    hold(row, answer.status, answer.headers.items(), plain, base=base, quotas=quotas)
    assert is_compressed == (row.path == "/openapi.json" and answer.status == 200)
    assert answer.headers[HSTS] == SAID_OF_TLS[at]
    assert id_of(answer) != row.headers.get("X-Request-ID")
    wait_for_line(served, f' {id_of(answer)} {answer.status} "{answer.status}" ')
    wait_for_line(served, f'"{id_of(answer)}"')  # the service's
    assert stored(served) - before == row.messages


POST = b"POST /contact.php HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
FORMS = {
    "body too large by a byte": POST + b"Content-Length: 65537\r\n\r\n",
    "body too large in chunks": CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (70_001, b"a" * 70_001),
    "bad chunk": CHUNKED + b"zz\r\n",
}
REQUESTS = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no host": b"GET /api HTTP/1.1\r\n\r\n",
    "target too long": b"GET /" + b"a" * 33_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "target too long for gunicorn": b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "raw non-ASCII, which gunicorn refuses": "GET /api/ñ HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "bad escape": b"GET /api/%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "place of an answer": b"GET /../public-web-interface/unavailable HTTP/1.1\r\nHost: a\r\n\r\n",
    "unknown transfer coding": POST + b"Transfer-Encoding: zip\r\n\r\n",
}


@pytest.mark.parametrize(("at", "name"), [*product(["alone"], FORMS | REQUESTS), *product(["named", "beside"], FORMS)])
def test_what_is_malformed_is_refused_in_the_envelope_with_the_id_of_a_log(
    places: dict[str, Site], at: str, name: str
) -> None:
    sent = (FORMS | REQUESTS)[name].replace(b"Host: a", f"Host: {PLACES[at]}".encode())

    answer = places[at].exchange(sent)

    reason = "too_large" if name.startswith("body too large") else "http"
    assert (answer.status, json.loads(answer.body)["error"]["details"]) == (400, {"reason": reason})
    # A path that cannot be read is one of these.
    validate(answer, *(("POST", "/contact.php") if sent.startswith(b"POST") else ("GET", "/api")))
    assert answer.headers[HSTS] == SAID_OF_TLS[at]
    wait_for_line(places[at], id_of(answer))


VARYING = {"Date", "Connection", "Content-Length", "RateLimit", "X-Request-ID", "Allow"}
VARYING |= {"X-RateLimit-Remaining", "X-RateLimit-Reset"}
LINKED = {"/api", "/api?section=x", f"{CONTACT}?x", "/api/%2e%2e/x", "/openapi.json?x"}
UNLINKED = {"/contact.php", "/apix", "/API", "//api", "/openapi.jsonx", "http://b/x"}


@pytest.mark.parametrize("path", sorted(LINKED | UNLINKED))
def test_nginx_s_own_answers_have_the_fields_of_the_service_s(served: Site, path: str) -> None:
    own = served.exchange(b"GET %s HTTP/1.1\r\nHost: a\r\nX-Long: %s\r\n\r\n" % (path.encode(), b"a" * 33_000))
    service = served.request("PUT", path, client=unused_address())

    fields, expected = (
        {name: value for name, value in answer.headers.items() if name not in VARYING} for answer in (own, service)
    )
    assert fields == expected
    assert own.headers.get_all("Link", []) == [SERVICE_DESC] * (path in LINKED)


@pytest.mark.parametrize("asked", ["," * 8_150, "a," * 4_000], ids=["commas", "names"])
def test_the_longest_preflight_is_answered(served: Site, asked: str) -> None:
    """The answer repeats the fields that are asked for, each behind a comma and a space."""
    fields = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": asked}

    assert served.request("OPTIONS", "/api", headers={"Origin": "https://www.example.com", **fields}).status == 204


@pytest.mark.parametrize("path", ["/api", f"{ACME}/none"])
@pytest.mark.parametrize("port", ["http", "https"])
def test_http_without_tls_is_refused_in_the_envelope_and_not_redirected(served: Site, port: str, path: str) -> None:
    """It is not asked for TLS either (RFC 6797, section 7.2)."""
    request = f"GET {path} HTTP/1.1\r\nHost: other.example\r\n\r\n".encode()

    answer = served.exchange(request, port=served.http_port if port == "http" else served.https_port)

    assert (answer.status, answer.code, answer.headers[HSTS]) == (400, "invalid_body", None)
    validate(answer, "GET", "/api" if path == "/api" else "/unknown")
    wait_for_line(served, f' {id_of(answer)} 400 "-" ')


def test_the_certificate_authority_finds_its_answer(served: Site) -> None:
    folder = served.directory / f"html{ACME}"
    folder.mkdir(parents=True)
    (folder / "token").write_text("answer")

    answer = served.exchange(f"GET {ACME}/token HTTP/1.1\r\nHost: a\r\n\r\n".encode(), port=served.http_port)

    assert (answer.status, answer.body) == (200, b"answer")


def test_who_has_read_the_document_compressed_need_not_read_it_again(served: Site) -> None:
    known = {"Accept-Encoding": "gzip"}
    known["If-None-Match"] = served.request("GET", "/openapi.json", headers=known).headers["ETag"]

    assert served.request("GET", "/openapi.json", headers=known).status == 304


OVER_HTTP_2 = {
    "form": (["--json", json.dumps(contact_body())], '"ok":true'),
    "body too large": (["--header", "Expect:", "--data", "a" * 100_000], '"reason":"too_large"'),
    "target too long for nginx, which does not answer": (["--request-target", "/" + "~" * 33_000], ""),
}


@pytest.mark.parametrize(("options", "said"), OVER_HTTP_2.values(), ids=OVER_HTTP_2)
def test_http_2_has_the_same_answers(served: Site, options: list[str], said: str) -> None:
    address = f"https://127.0.0.1:{served.https_port}/contact.php"
    curl = ["curl", "--silent", "--insecure", "--include", "--http2", "--interface", unused_address()]

    answer = run(*curl, *options, address).stdout

    assert answer[:7] == ("HTTP/2 " if said else "")
    assert said in answer


def test_a_service_that_is_down_is_an_internal_error_and_no_log_shows_what_a_client_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/St_Johns")
    with site(tmp_path) as served:
        begun = datetime.now(ZoneInfo("America/St_Johns"))
        answer = served.request("GET", "/api?ana@example.com", client="127.0.9.87", headers={"User-Agent": "ana@"})
        served.exchange(b"GET /ana@example.com HTTP/1.1\r\nHost: a\r\n\r\n", port=served.http_port)
        line = wait_for_line(served, rf' {id_of(answer)} 500 "502.* 127\.0\.9\.0/24$')
        wait_for_line(served, r" 127\.0\.0\.0/24$")
        logged = "".join(path.read_text() for path in (tmp_path / "log").glob("public-web-interface*"))

    assert (answer.status, answer.code, answer.headers[HSTS]) == (500, "internal_error", A_YEAR)
    validate(answer, "GET", "/api")
    assert not [personal for personal in ("127.0.9.87", "127.0.0.1", "ana@") if personal in logged]
    time = datetime.fromisoformat(re.findall(f"^{LOG_TIME}", line)[0])
    assert begun - timedelta(milliseconds=1) < time < datetime.now(begun.tzinfo)
    assert time.utcoffset() == begun.utcoffset()


@pytest.fixture
def _hanging(tmp_path: Path) -> Iterator[None]:
    """Sockets on which nobody answers stand in for the processes."""
    with ExitStack() as stack:
        for instance in INSTANCES:
            path = tmp_path / "run" / instance / "gunicorn.sock"
            path.parent.mkdir(parents=True)
            stack.enter_context(socket.create_server(str(path), family=socket.AF_UNIX))
        yield


@pytest.mark.usefixtures("_hanging")
def test_a_form_that_a_process_may_have_is_sent_to_no_other(tmp_path: Path) -> None:
    with site(tmp_path, changes={"proxy_read_timeout 60s": "proxy_read_timeout 1s"}) as served:
        answer = served.request("POST", CONTACT, body=contact_body())
        wait_for_line(served, f' {id_of(answer)} 500 "504" ')

    assert answer.code == "internal_error"
    validate(answer, "POST", CONTACT)


@pytest.mark.usefixtures("_hanging")
def test_who_gives_up_its_requests_frees_no_place_in_the_service(tmp_path: Path) -> None:
    with site(tmp_path) as served:
        for _ in range(2 * CONNECTIONS_OF_A_CLIENT):
            with served.connect() as connection:
                connection.sendall(b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: logs(served).count(' 500 "-" ') == CONNECTIONS_OF_A_CLIENT)

        assert served.sockets == len(INSTANCES) + CONNECTIONS_OF_A_CLIENT


def test_the_clients_of_a_killed_process_are_served_by_the_other_one_at_once(tmp_path: Path) -> None:
    clients = [f"127.0.0.{number}" for number in range(1, 21)]
    with site(tmp_path, *INSTANCES) as served:
        process, worker = served.instances.pop("1"), served.worker("1")
        process.kill()  # as the kernel does when memory runs out
        os.kill(worker, signal.SIGKILL)
        process.wait()
        wait_until(lambda: served.sockets == 1)
        answers = [served.request("POST", "/contact.php", client=client, body=contact_body()) for client in clients]
        served.start("1")
        answers += [served.request("GET", "/api", client=client) for client in clients]

        assert [answer.status for answer in answers] == [200] * 40
        assert stored(served) == len(clients)
        wait_until(lambda: '"route": "/api"' in served.log("1"))


TOO_FAST = {
    "the document waits": ("/openapi.json", 3, "DELAYED"),
    "anything, long above all quotas, is refused": ("/api", 300, "REJECTED"),
}


@pytest.mark.parametrize(("path", "requests", "outcome"), TOO_FAST.values(), ids=TOO_FAST)
def test_who_asks_too_fast_for(tmp_path: Path, path: str, requests: int, outcome: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\n".encode()
    with site(tmp_path, changes={"'$public_web_interface_time ": "'$limit_req_status "}) as served:

        def is_limited() -> bool:
            with served.connect() as connection:
                connection.sendall((request + b"\r\n") * (requests - 1) + request + b"Connection: close\r\n\r\n")
                while connection.recv(65_536):
                    pass
            return bool(re.search(f"^{outcome} ", logs(served), re.MULTILINE))

        wait_until(is_limited, seconds=60)


def ask_as(served: Site, address: str, **headers: str) -> Answer:
    """A request from an address that this machine does not have."""
    return served.request("GET", "/api", client=RELAY, headers={RELAYED: address} | headers)


ONE_CLIENT = {
    "IPv6, wherever in its /64": ["2001:db8:0:7::1", "2001:db8:0:7:5:6:7:8", "2001:db8:0:7:ffff:ffff:ffff:ffff"],
    "IPv4, in whatever notation": ["198.51.100.9", "::ffff:198.51.100.9", "64:ff9b::198.51.100.9"],
    "whatever it says of itself": ["198.51.100.10"],
}


@pytest.mark.parametrize("addresses", ONE_CLIENT.values(), ids=ONE_CLIENT)
def test_a_client_has_one_quota(served: Site, addresses: list[str]) -> None:
    asked = [(addresses[number % len(addresses)], f"203.0.113.{number}") for number in range(QUOTA + 20)]

    answers = [
        ask_as(served, address, **{"X-Forwarded-For": said, "Forwarded": f"for={said}"}) for address, said in asked
    ]

    assert [answer.status for answer in answers] == [200] * QUOTA + [429] * 20
    assert ask_as(served, "2001:db8:0:8::1").status == 200


OTHERS = {
    "::ffff:198.18.5.1": "::ffff:198.18.5.2",
    "64:ff9b::198.18.6.1": "64:ff9b::198.18.6.2",
    "2001:db8:9:1::1": "2001:db8:9:2::1",
}


@pytest.mark.parametrize(("client", "other"), OTHERS.items(), ids=OTHERS)
def test_a_client_that_holds_all_its_connections_stops_no_other_one(served: Site, client: str, other: str) -> None:
    form = f"POST /contact.php HTTP/1.1\r\nHost: a\r\n{RELAYED}: {client}\r\nContent-Length: 999\r\n"
    wait_until(lambda: served.sockets == len(INSTANCES))  # earlier requests have ended
    with ExitStack() as stack:
        for _ in range(CONNECTIONS_OF_A_CLIENT):
            connection = stack.enter_context(served.connect(RELAY))
            connection.sendall(f"{form}Expect: 100-continue\r\n\r\n".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")  # nginx has counted it by then
        assert served.sockets == len(INSTANCES)  # no process has a form that is not whole
        refused, answered = ask_as(served, client), ask_as(served, other)

    assert (refused.code, answered.status) == ("internal_error", 200)
    wait_until(lambda: ask_as(served, client).status == 200)


NETWORKS = {
    "203.0.113.77": "203.0.113.0/24",
    "2001:db8:1:2:3:4:5:6": "2001:db8:1::/48",
    "2001::6": "2001::/48",
    "::1": "::/48",
    "::ffff:203.0.114.77": "203.0.114.0/24",
    "64:ff9b::203.0.113.77": "64:ff9b::cb00:7100/120",
}


@pytest.mark.parametrize(("address", "network"), NETWORKS.items(), ids=NETWORKS)
def test_the_access_log_shows_the_network_alone(served: Site, address: str, network: str) -> None:
    answer = ask_as(served, address)

    wait_for_line(served, f"{id_of(answer)} .* {re.escape(network)}$")
