"""The website beside the service: neither changes an answer of the other."""

import re
from collections.abc import Iterator

import pytest

from tests.deploy.site import Site
from tests.deploy.website import BESIDE, NAMED, UNTOUCHED, exchange, website, website_log
from tests.server.gunicorn import unused_address
from tests.versions import CONTACT


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    """The website with the service, whose processes are down, under its name or under another one, and without it."""
    assert "public-web-interface" not in UNTOUCHED
    with (
        website(tmp_path_factory.mktemp("beside"), BESIDE) as beside,
        website(tmp_path_factory.mktemp("named"), NAMED) as named,
        website(tmp_path_factory.mktemp("without"), {"website": UNTOUCHED}) as without,
    ):
        yield {"beside": beside, "named": named, "without": without}


def asking(line: str, *fields: str, body: bytes = b"") -> bytes:
    head = "".join(f"{field}\r\n" for field in (f"{line} HTTP/1.1", "Host: a", "Connection: close", *fields))
    return f"{head}\r\n".encode() + body


OF_THE_WEBSITE = {
    "page": asking("GET /"),
    "compressed": asking("GET /style.css", "Accept-Encoding: gzip"),
    "unchanged": asking("GET /style.css", "If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT"),
    "missing page": asking("GET /missing"),
    "folder": asking("GET /pictures/"),
    "upload": asking("PUT /uploads/film", "Content-Length: 1000000", body=b"a" * 1_000_000),
    "upload too large": asking("PUT /uploads/film", "Content-Length: 3000000", body=b"a" * 3_000_000),
    "php": asking("GET /other.php"),
    **{path: asking(f"GET {path}") for path in ("/apix", "/API", "/openapi.jsonx", "/contact.php/", "/x/api")},
    "place of an answer": asking("GET /public-web-interface/malformed"),
    "place of an answer, above the root": asking("GET /../public-web-interface/malformed"),
    "in clear, which it redirects": asking("GET /contact.php?x=1"),
    "no host": b"GET /missing HTTP/1.1\r\n\r\n",
    "header too long": asking("GET /", "X-Long: " + "a" * 17_000),
    "garbage": b"\x16\x03\x01\r\n\r\n",
    "version 0.9": b"GET /missing\r\n",
}


@pytest.mark.parametrize("name", OF_THE_WEBSITE)
@pytest.mark.parametrize("at", ["beside", "named"])
def test_the_website_answers_and_logs_as_if_the_service_were_not_there(
    sites: dict[str, Site], at: str, name: str
) -> None:
    request, in_clear = OF_THE_WEBSITE[name], name == "in clear, which it redirects"

    assert exchange(sites[at], request, in_clear=in_clear) == exchange(sites["without"], request, in_clear=in_clear)


def test_the_website_logs_nothing_of_the_service(sites: dict[str, Site]) -> None:
    beside = sites["beside"]
    errors = beside.directory / "log" / "website.error.log"
    before, errors_before = website_log(beside), errors.read_text()

    beside.request("GET", "/api", client=unused_address())
    beside.exchange(asking("POST /contact.php", "Content-Length: 70001"))
    beside.exchange(asking(f"POST {CONTACT}", "Transfer-Encoding: chunked", body=b"zz\r\n"))

    exchange(beside, asking("GET /last"))
    assert re.findall(r'"(\S+ \S+) HTTP', website_log(beside).removeprefix(before)) == ["GET /last"]
    assert re.findall(r'request: "(\S+ \S+) ', errors.read_text().removeprefix(errors_before)) == ["GET /last"]
