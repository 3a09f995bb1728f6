"""Several gunicorns on one server: one client, one limit, whatever happens to the server."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import cycle

import pytest

from tests.client import validate_response
from tests.fuzz.cases import addresses
from tests.redis.server import Fault, RedisServer
from tests.server.gunicorn import PATIENCE, Server, serving
from tests.waiting import wait_until

LOST = "the storage of the rate limits is out of reach, this process limits by itself"
BACK = "the storage of the rate limits is back in reach"
UNANSWERED = "the storage of the rate limits left one request without an answer, this process decided it"
FALLBACK = {"storage": "redis", "status": "fallback"}
WORKERS = (1, 2)
"""Those of each gunicorn."""


def ask(server: Server, client: str, target: str) -> tuple[int, list[tuple[str, str]], bytes]:
    method, path = target.split()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, PATIENCE)) as connection:
        connection.request(method, path, headers={"X-Forwarded-For": client})
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()


def hammer(servers: list[Server], target: str, times: int = 160) -> Counter[int]:
    """The statuses that one client gets that asks all servers at the same time."""
    client = next(addresses)
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(ask, servers[number % len(servers)], client, target) for number in range(times)]
        return Counter(answer.result()[0] for answer in asked)


def rate_limit(server: Server) -> dict[str, str]:
    status, headers, body = ask(server, next(addresses), "GET /api/v1/health?verbose=true")
    validate_response("GET", "/api/v1/health", status, headers, body)
    details: dict[str, str] = json.loads(body)["data"]["details"]["rate_limit"]
    return details


def said(servers: list[Server], *lines: str) -> int:
    """How often the processes have said one of these lines so far."""
    return sum(server.log.count(line) for server in servers for line in lines)


@dataclass(frozen=True)
class Site:
    """Gunicorns on one shared server, which several tests use: each leaves all of them in reach."""

    server: RedisServer
    gunicorns: list[Server]
    at_first: tuple[Counter[int], list[dict[str, str]], int]
    """What there was without the server: the answers of one process, what all say of themselves, and how often."""

    def wait_until_all_are_in_reach(self) -> None:
        wait_until(lambda: said(self.gunicorns, LOST) == said(self.gunicorns, BACK), seconds=60)
        # A process says so before it asks the server, and any worker may answer.
        wait_until(lambda: all(rate_limit(server)["status"] == "ok" for server in self.gunicorns * 10), seconds=60)

    def hammer_in_reach(self, target: str) -> Counter[int]:
        """The answers of all in a round during which no process decided anything on its own.

        A busy machine may keep the shared server from answering in time. Then the processes rightly limit by
        themselves, and the round says nothing.
        """
        for _ in range(20):
            self.wait_until_all_are_in_reach()
            decided = said(self.gunicorns, LOST, UNANSWERED)
            statuses = hammer(self.gunicorns, target)
            if decided == said(self.gunicorns, LOST, UNANSWERED):
                return statuses
        pytest.fail("the server was never in reach for a whole round")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The gunicorns start first, and answer before there is a server."""
    directories = [tmp_path_factory.mktemp("site") for _ in WORKERS]
    server = RedisServer(directories[0])
    environ = {"RATE_LIMIT_STORAGE": server.url, "TRUSTED_PROXIES": "1", "LOG_LEVEL": "debug"}
    first, second = (
        serving(directory, WORKERS=str(workers), **environ)
        for directory, workers in zip(directories, WORKERS, strict=True)
    )
    with first as one, second as other:
        gunicorns = [one, other]
        wait_until(lambda: said(gunicorns, LOST) == sum(WORKERS))
        statuses = hammer([one], "GET /api/versioning", times=80)
        at_first = statuses, [rate_limit(gunicorn) for gunicorn in gunicorns], said(gunicorns, LOST)
        with server:
            yield Site(server, gunicorns, at_first)


def test_a_service_starts_and_limits_without_the_server(site: Site) -> None:
    assert site.at_first == ({200: 60, 429: 20}, [FALLBACK] * len(WORKERS), sum(WORKERS))


@pytest.mark.parametrize(
    ("target", "statuses"),
    [("GET /api/versioning", {200: 60, 429: 100}), ("POST /contact.php", {400: 1, 429: 159})],
)
def test_one_client_has_one_limit_over_all_processes(site: Site, target: str, statuses: dict[int, int]) -> None:
    assert site.hammer_in_reach(target) == statuses


@contextmanager
def visitors(servers: list[Server]) -> Iterator[list[int]]:
    """Each is new and asks the next of the servers; yields the statuses of their answers, so far."""
    statuses: list[int] = []
    stopped = threading.Event()

    def visit() -> None:
        for server in cycle(servers):
            statuses.append(ask(server, next(addresses), "GET /api")[0])
            if stopped.wait(0.01):
                return

    with ThreadPoolExecutor(4) as pool:
        visits = [pool.submit(visit) for _ in range(4)]
        try:
            yield statuses
        finally:
            stopped.set()
    for each in visits:
        each.result()


FAULTS: dict[str, tuple[Fault, Fault]] = {
    "killed and restarted": (RedisServer.kill, RedisServer.start),
    "hanging": (RedisServer.pause, RedisServer.resume),
}


@pytest.mark.parametrize(("lose", "restore"), FAULTS.values(), ids=FAULTS)
def test_no_visitor_notices_that_the_server_is_gone(site: Site, lose: Fault, restore: Fault) -> None:
    def go_on() -> None:
        answers = len(statuses) + 200
        wait_until(lambda: len(statuses) >= answers, seconds=60)

    site.wait_until_all_are_in_reach()
    earlier = [len(gunicorn.log) for gunicorn in site.gunicorns]

    with visitors(site.gunicorns) as statuses:
        go_on()
        lose(site.server)
        go_on()
        wait_until(lambda: all(rate_limit(gunicorn) == FALLBACK for gunicorn in site.gunicorns * 5), seconds=60)
        restore(site.server)
        site.wait_until_all_are_in_reach()
        go_on()

    assert {*statuses} == {200}
    assert site.hammer_in_reach("GET /api/versioning") == {200: 60, 429: 100}
    logs = [gunicorn.log[start:] for gunicorn, start in zip(site.gunicorns, earlier, strict=True)]
    assert "Traceback" not in "".join(logs)
    of_one_process = re.findall(f"{LOST}|{BACK}", logs[0])
    assert len(of_one_process) >= 2
    assert of_one_process == ([LOST, BACK] * len(of_one_process))[: len(of_one_process)], "each is said once"
