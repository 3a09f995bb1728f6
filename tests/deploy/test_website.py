"""The service beside a website: neither changes an answer of the other."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.load import holding_connections, new_client
from tests.deploy.site import DEPLOY, INSTANCES, OWN_NAME, SERVER_NAME, Answer, Site, site
from tests.factories import contact_body
from tests.pages import DEPLOY as PAGE
from tests.waiting import wait_until

WEBSITE = (Path(__file__).parent / "website.conf").read_text()
INCLUDE = PAGE.blocks("Under the name of a website", "nginx")[0].splitlines()[1] + "\n"
"""What docs/deploy.md adds to the file of a website."""
FOLDER = "/var/www/website"
PAGES = {f"{name}.html": f"<p>{name}\n" * 100 for name in ("index", "400", "404", "413", "50x")}
HSTS = "Strict-Transport-Security"
FORM = json.dumps(contact_body()).encode()


def make_pages(directory: Path) -> None:
    """The files of the website, as old in each folder."""
    for name, text in (PAGES | {"style.css": "p { color: red }\n" * 100}).items():
        (directory / name).write_text(text)
        os.utime(directory / name, (1, 1))


@dataclass(frozen=True)
class Website:
    """The website, with or without the service."""

    site: Site

    @property
    def log(self) -> str:
        return (self.site.directory / "log" / "website.log").read_text()

    def exchange(self, request: bytes, *, in_clear: bool = False) -> tuple[bytes, str]:
        """All that nginx answers to these bytes, and its line in the log, both without the time and the port."""
        before = self.log
        (self.site.directory / "website" / "pages" / "uploads" / "film").unlink(missing_ok=True)
        with self.site.open(self.site.http_port if in_clear else None) as connection:
            connection.sendall(request)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        wait_until(lambda: self.log.removeprefix(before))
        answer = re.sub(rb"^(Date|Expires): .*\n", b"", answer, flags=re.MULTILINE)
        line = re.sub(r"\[.*?\]", "[]", self.log.removeprefix(before))
        return answer.replace(str(self.site.https_port).encode(), b"443"), line


UNTOUCHED = WEBSITE.replace(INCLUDE, "")


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Website]:
    """The service under the name of the website."""
    with serve(tmp_path_factory.mktemp("beside"), {"website": WEBSITE}, "0", "1") as served:
        yield served


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Website]:
    """The service under a name of its own. The website answers for unknown names, because its file comes first."""
    own = (DEPLOY / "nginx" / "own-name.conf").read_text().replace(SERVER_NAME, OWN_NAME)
    (file,) = re.findall(r"sites-enabled/(zz-[\w.-]+)", PAGE.section("A name of its own beside websites"))[:1]
    sites = {"website": UNTOUCHED.replace(" default_server", ""), file: own}
    with serve(tmp_path_factory.mktemp("named"), sites, "0", "1") as served:
        yield served


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Website]:
    assert "public-web-interface" not in UNTOUCHED
    with serve(tmp_path_factory.mktemp("without"), {"website": UNTOUCHED}) as served:
        yield served


@contextmanager
def serve(directory: Path, sites: Mapping[str, str], *instances: str) -> Iterator[Website]:
    pages = directory / "website" / "pages"
    for folder in ("uploads", "pictures"):
        (pages / folder).mkdir(parents=True)
    make_pages(pages)
    with site(directory, *instances, sites=sites, changes={FOLDER: f"{directory}/website"}) as served:
        yield Website(served)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The service on a machine of its own."""
    with site(tmp_path_factory.mktemp("alone"), "0", "1") as served:
        yield served


def asking(line: bytes, *fields: bytes, body: bytes = b"") -> bytes:
    return b"".join(
        (
            line,
            b" HTTP/1.1\r\n",
            *(field + b"\r\n" for field in (b"Host: a", b"Connection: close", *fields)),
            b"\r\n",
            body,
        )
    )


UPLOAD = asking(b"PUT /uploads/film", b"Content-Length: 1000000", body=b"a" * 1_000_000)
OF_THE_WEBSITE = {
    "page": asking(b"GET /"),
    "compressed": asking(b"GET /style.css", b"Accept-Encoding: gzip"),
    "unchanged": asking(b"GET /style.css", b"If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT"),
    "missing page": asking(b"GET /missing"),
    "missing picture": asking(b"GET /pictures/missing.png"),
    "folder": asking(b"GET /pictures/"),
    "folder without a slash": asking(b"GET /pictures"),
    "method": asking(b"POST /", b"Content-Length: 2", body=b"{}"),
    "upload": UPLOAD,
    "upload too large": asking(b"PUT /uploads/film", b"Content-Length: 3000000", body=b"a" * 3_000_000),
    "body too large": asking(b"POST /contact", b"Content-Length: 3000000", body=b"a" * 3_000_000),
    "php": asking(b"GET /other.php"),
    **{
        path: asking(f"GET {path}".encode())
        for path in ("/apix", "/API", "/openapi.jsonx", "/contact.php/", "/contact")
    },
    "below another folder": asking(b"GET /x/api/v1/health"),
    "trace": asking(b"TRACE /missing"),
    "no host": b"GET /missing HTTP/1.1\r\n\r\n",
    "bad escape": asking(b"GET /%zz"),
    "header too long": asking(b"GET /", b"X-Long: " + b"a" * 17_000),
    "garbage": b"\x16\x03\x01\r\n\r\n",
    "version 0.9": b"GET /missing\r\n",
}


@pytest.fixture(params=["beside", "named"])
def installed(request: pytest.FixtureRequest) -> Website:
    fixture: Website = request.getfixturevalue(request.param)
    return fixture


@pytest.mark.parametrize("request_bytes", OF_THE_WEBSITE.values(), ids=OF_THE_WEBSITE)
def test_the_website_answers_and_logs_as_if_the_service_were_not_there(
    installed: Website, without: Website, request_bytes: bytes
) -> None:
    assert installed.exchange(request_bytes) == without.exchange(request_bytes)


@pytest.mark.parametrize("path", ["/", "/missing", "/api", "/contact.php"])
def test_the_website_redirects_whoever_comes_in_clear(installed: Website, without: Website, path: str) -> None:
    request = asking(f"GET {path}?x=1".encode())

    answer, line = installed.exchange(request, in_clear=True)

    assert (answer, line) == without.exchange(request, in_clear=True)
    assert f"\r\nLocation: https://www.example.com{path}?x=1\r\n".encode() in answer


def test_the_website_limits_its_own_requests(beside: Website, without: Website) -> None:
    request = asking(b"GET /", b"X-Limited: website")

    both = [(beside.exchange(request), without.exchange(request)) for _ in range(2)]

    assert [ours == theirs for ours, theirs in both] == [True, True]
    assert both[1][0][0].startswith(b"HTTP/1.1 429 ")


PLACES = [
    asking(f"GET {folder}/public-web-interface/{page}".encode())
    for folder in ("", "/..", "/%2e%2e", "/x/..")
    for page in ("malformed", "too-large", "unavailable", "x")
]
DIFFER = {"Date", "X-Request-ID", "X-RateLimit-Reset", HSTS}
TOO_LARGE = b"{" + b" " * 70_000
CHUNKED = b"Transfer-Encoding: chunked"
OF_THE_SERVICE = {
    "index": asking(b"GET /api"),
    "health": asking(b"GET /api/v1/health"),
    "document": asking(b"GET /openapi.json"),
    "head of the document": asking(b"HEAD /openapi.json"),
    "compressed document": asking(b"GET /openapi.json", b"Accept-Encoding: gzip"),
    "small answer": asking(b"GET /api/versioning", b"Accept-Encoding: gzip"),
    "unknown path": asking(b"GET /api/unknown"),
    "path that looks like PHP": asking(b"GET /api/wp-login.php"),
    "slash": asking(b"GET /api/"),
    "method": asking(b"GET /contact.php"),
    "parameter": asking(b"GET /api?section=x"),
    "preflight": asking(b"OPTIONS /contact.php", b"Origin: https://a.example", b"Access-Control-Request-Method: POST"),
    "form": asking(
        b"POST /contact.php", b"Content-Type: application/json", b"Content-Length: %d" % len(FORM), body=FORM
    ),
    "empty form": asking(b"POST /api/v1/contact", b"Content-Length: 0"),
    "body too large": asking(b"POST /contact.php", b"Content-Length: 70001", body=TOO_LARGE),
    "body too large, in chunks": asking(b"POST /api", CHUNKED, body=b"%x\r\n%s\r\n0\r\n\r\n" % (70_001, TOO_LARGE)),
    "bad chunk": asking(b"POST /api/v1/contact", CHUNKED, b"Accept-Encoding: gzip", body=b"zz\r\n"),
}


@pytest.mark.parametrize("request_bytes", OF_THE_SERVICE.values(), ids=OF_THE_SERVICE)
def test_the_service_answers_as_on_a_machine_of_its_own(
    installed: Website, alone: Site, named: Website, request_bytes: bytes
) -> None:
    host = OWN_NAME if installed is named else SERVER_NAME
    limited = request_bytes.replace(b"Host: a\r\n", f"Host: {host}\r\nX-Limited: service\r\n".encode())

    ours, theirs = ask(installed.site, limited), ask(alone, limited)

    assert ours.status == theirs.status
    assert fields(ours) == fields(theirs)
    assert stable(ours.body) == stable(theirs.body)
    assert (HSTS in ours.headers, HSTS in theirs.headers) == (installed is named, True)
    assert logged(installed.site, ours) == logged(alone, theirs)


UNREAD = {
    "cookies that HTTP/2 sends in pieces": [f"Cookie: c{number}={'c' * 3000}" for number in range(3)],
    "100 fields": [f"X-{number}: x" for number in range(100)],
    "a long address of the page": [f"Referer: https://www.example.com/?{'r' * 12_000}"],
    "a Kerberos ticket": [f"Authorization: Negotiate {'k' * 12_000}"],
}


@pytest.mark.parametrize("lines", UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize("place", ["alone", "beside"])
def test_what_the_service_does_not_read_stops_no_form(
    request: pytest.FixtureRequest, place: str, version: str, lines: list[str]
) -> None:
    fixture = request.getfixturevalue(place)
    served = fixture.site if isinstance(fixture, Website) else fixture
    fields = [part for line in [*lines, "Content-Type: application/json"] for part in ("--header", line)]

    options = [f"--http{version}", "--interface", new_client(), *fields, "--data-binary", "@-"]
    answer = served.curl(*options, body=FORM)

    assert answer.startswith(f"HTTP/{version} 200"), answer


def ask(served: Site, request: bytes) -> Answer:
    """The answer to a client whose quotas are whole."""
    return served.exchange(request, client=new_client())


def logged(served: Site, answer: Answer) -> list[str]:
    """The status, and that of the service, in nginx's line about the answer; it writes the line afterwards."""
    (request_id,) = answer.headers.get_all("X-Request-ID", [])
    log = served.directory / "log" / "public-web-interface.log"
    wait_until(lambda: request_id in log.read_text())
    return re.findall(rf' {request_id} (\d+ ".*?") ', log.read_text())


def fields(answer: Answer) -> list[tuple[str, str]]:
    return [(name, value) for name, value in answer.headers.items() if name not in DIFFER]


def stable(body: bytes) -> bytes:
    """The body without the time of the answer and the name of the service."""
    if body.startswith(b"\x1f\x8b"):
        body = gzip.decompress(body)
    return re.sub(rb'"timestamp":".*?"', b"", body).replace(OWN_NAME.encode(), SERVER_NAME.encode())


def test_the_website_logs_nothing_of_the_service(beside: Website) -> None:
    errors = beside.site.directory / "log" / "website.error.log"
    before, errors_before = beside.log, errors.read_text()

    for request in (OF_THE_SERVICE["index"], OF_THE_SERVICE["body too large"], OF_THE_SERVICE["bad chunk"]):
        ask(beside.site, request)

    beside.exchange(asking(b"GET /last"))
    (line,) = beside.log.removeprefix(before).splitlines()
    assert '"GET /last HTTP/1.1"' in line
    assert re.findall(r'request: "(.*?)"', errors.read_text().removeprefix(errors_before)) == ["GET /last HTTP/1.1"]


def test_the_service_counts_each_client_beside_a_website(beside: Website) -> None:
    answers = [beside.site.request("POST", "/contact.php", client=new_client(), body=contact_body()) for _ in range(3)]

    assert [answer.status for answer in answers] == [200] * 3


@pytest.mark.parametrize("errors", ["pages of its own", "nginx's pages"])
def test_the_places_of_nginx_s_answers_are_missing_pages_of_the_website(tmp_path: Path, errors: str) -> None:
    def answers(name: str, website: str) -> list[tuple[bytes, str]]:
        if errors == "nginx's pages":
            website = re.sub(r"^ *error_page .*\n", "", website, flags=re.MULTILINE)
        with serve(tmp_path / name, {"website": website}) as served:
            return [served.exchange(request) for request in PLACES]

    assert answers("beside", WEBSITE) == answers("without", UNTOUCHED)


def test_slow_clients_are_limited_and_reach_no_process(beside: Website) -> None:
    greedy = new_client()
    # Once earlier requests have ended, only the sockets that listen are left.
    wait_until(lambda: beside.site.sockets(*INSTANCES) == len(INSTANCES))
    with holding_connections(beside.site, greedy):
        refused = beside.site.request("GET", "/api", client=greedy)
        page = beside.site.request("GET", "/", client=greedy)
        assert beside.site.sockets(*INSTANCES) == len(INSTANCES)

    assert (refused.status, refused.headers["X-RateLimit-Limit"]) == (500, "60")
    assert page.body.decode() == PAGES["index.html"]


@pytest.mark.parametrize("path", ["/api", "/openapi.json", "/contact.php"])
def test_a_service_that_is_down_is_an_internal_error_and_the_website_stays(tmp_path: Path, path: str) -> None:
    with serve(tmp_path, {"website": WEBSITE}) as down:
        answer = down.site.request("GET", path)
        page = down.site.request("GET", "/")

    assert (answer.status, answer.code, HSTS in answer.headers) == (500, "internal_error", False)
    assert page.body.decode() == PAGES["index.html"]
