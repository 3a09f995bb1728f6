"""Several gunicorns on one server: one client, one limit, whatever happens to the server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.client import validate_response
from tests.redis.server import RedisServer
from tests.server.gunicorn import Server, serving
from tests.waiting import wait_until

LOST = "the storage of the rate limits is out of reach, this process limits by itself"
BACK = "the storage of the rate limits is back in reach"
FALLBACK = {"storage": "redis", "status": "fallback"}
PATIENT = "?timeout=20&socket_timeout=20&socket_connect_timeout=20"
"""A busy machine may keep the server from answering in time, and then a process rightly decides by itself."""


def hammer(servers: list[Server], method: str, path: str, times: int = 160) -> Counter[int]:
    """The statuses that one client gets that asks all servers at the same time."""
    client = servers[0].new_client().client
    asked = [replace(servers[number % len(servers)], client=client) for number in range(times)]
    with ThreadPoolExecutor(16) as pool:
        return Counter(pool.map(lambda server: server.request(method, path)[0].status, asked))


def rate_limit(server: Server) -> dict[str, str]:
    response, body = server.new_client().request("GET", "/api/v1/health?verbose=true")
    validate_response("GET", "/api/v1/health", response.status, response.getheaders(), body)
    details: dict[str, str] = json.loads(body)["data"]["details"]["rate_limit"]
    return details


@dataclass(frozen=True)
class Site:
    """Two gunicorns on one shared server, the second of which has two workers."""

    server: RedisServer
    gunicorns: list[Server]
    at_first: tuple[Counter[int], list[dict[str, str]]]
    """What there was without the server: the answers of one process, and what all say of themselves."""

    def said(self, line: str) -> int:
        """How often the processes have said it so far."""
        return sum(server.log.count(line) for server in self.gunicorns)

    def wait_until_all_are_in_reach(self) -> None:
        wait_until(lambda: self.said(LOST) == self.said(BACK), seconds=60)
        # A process says so before it asks the server, and any worker may answer.
        wait_until(lambda: all(rate_limit(server)["status"] == "ok" for server in self.gunicorns * 10), seconds=60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The gunicorns start first, and answer before there is a server."""
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    server = RedisServer(first)
    storage = server.url + PATIENT
    with (
        serving(first, RATE_LIMIT_STORAGE=storage) as one,
        serving(second, RATE_LIMIT_STORAGE=storage, WORKERS="2") as other,
    ):
        wait_until(lambda: one.log.count(LOST) + other.log.count(LOST) == 3)
        at_first = hammer([one], "GET", "/api/versioning", times=80), [rate_limit(one), rate_limit(other)]
        with server:
            yield Site(server, [one, other], at_first)


def test_a_service_starts_and_limits_without_the_server(site: Site) -> None:
    assert site.at_first == ({200: 60, 429: 20}, [FALLBACK] * 2)


@pytest.mark.parametrize(
    ("method", "path", "statuses"),
    [("GET", "/api/versioning", {200: 60, 429: 100}), ("POST", "/contact.php", {400: 1, 429: 159})],
)
def test_one_client_has_one_limit_over_all_processes(
    site: Site, method: str, path: str, statuses: dict[int, int]
) -> None:
    site.wait_until_all_are_in_reach()

    assert hammer(site.gunicorns, method, path) == statuses


def test_no_visitor_notices_that_the_server_is_gone_and_comes_back(site: Site) -> None:
    site.wait_until_all_are_in_reach()

    site.server.kill()
    statuses = {server.new_client().request("GET", "/api")[0].status for server in site.gunicorns * 50}
    wait_until(lambda: site.said(LOST) >= 6, seconds=60)  # one that has not noticed yet would say nothing
    states = [rate_limit(server) for server in site.gunicorns * 5]
    site.server.start()
    site.wait_until_all_are_in_reach()

    assert statuses == {200}
    assert states == [FALLBACK] * 10
    assert site.said(LOST) == 6, "each process says it once at the start and once now"
    assert hammer(site.gunicorns, "GET", "/api/versioning") == {200: 60, 429: 100}
