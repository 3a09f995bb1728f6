"""Several gunicorns on one server: one client, one limit, whatever happens to the server."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tests.client import validate_response
from tests.redis.server import RedisServer
from tests.server.gunicorn import Server, serving
from tests.waiting import wait_until

GENEROUS = 10.0
"""Seconds in which any request has been answered, however busy the machine is: shorter than a client's patience."""

CLIENTS = (f"192.0.{third}.{fourth}" for third in range(3, 256) for fourth in range(256))
"""Each has its quota for itself."""

LOST = "the storage of the rate limits is out of reach, this process limits by itself"
BACK = "the storage of the rate limits is back in reach"
UNANSWERED = "the storage of the rate limits left one request without an answer, this process decided it"


FALLBACK = {"storage": "redis", "status": "fallback"}


@contextmanager
def services(directory: Path, count: int, **environ: str) -> Iterator[list[Server]]:
    """So many gunicorns, each as on a machine of its own."""
    with ExitStack() as stack:
        running = []
        for number in range(count):
            (directory / str(number)).mkdir()
            environ |= {"TRUSTED_PROXIES": "1", "LOG_LEVEL": "debug"}
            running.append(stack.enter_context(serving(directory / str(number), **environ)))
        yield running


def ask(server: Server, client: str, method: str = "GET", path: str = "/api") -> tuple[int, dict[str, str], bytes]:
    response, body = server.request(method, path, None, {"X-Forwarded-For": client})
    return response.status, dict(response.headers), body


def hammer(servers: list[Server], client: str, times: int, method: str, path: str) -> Counter[int]:
    """The statuses that one client gets that asks all servers at the same time."""
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(
            lambda number: ask(servers[number % len(servers)], client, method, path)[0], range(len(servers) * times)
        )
        return Counter(answers)


def all_in_reach(servers: list[Server]) -> bool:
    """Whether each process has the shared server: those that lost it say so, one that has yet to find it does not."""
    if any(server.log.count(LOST) != server.log.count(BACK) for server in servers):
        return False
    return all(rate_limit(server, next(CLIENTS))["status"] == "ok" for server in servers for _ in range(20))


def wait_until_all_are_in_reach(servers: list[Server]) -> None:
    wait_until(lambda: all_in_reach(servers), seconds=60)


def own_decisions(servers: list[Server]) -> int:
    """How often the processes have said so far that they decide one or all requests by themselves."""
    return sum(server.log.count(said) for server in servers for said in (LOST, UNANSWERED))


def hammer_in_reach(servers: list[Server], method: str, path: str) -> Counter[int]:
    """The same in a round during which no process decided anything on its own.

    A busy machine may keep the shared server from answering in time. Then the processes rightly limit by themselves,
    and the round says nothing.
    """
    for _ in range(20):
        wait_until_all_are_in_reach(servers)
        decided = own_decisions(servers)
        statuses = hammer(servers, next(CLIENTS), 160 // len(servers), method, path)
        if decided == own_decisions(servers):
            return statuses
    pytest.fail("the server was never in reach for a whole round")


def rate_limit(server: Server, client: str) -> dict[str, str]:
    status, headers, body = ask(server, client, "GET", "/api/v1/health?verbose=true")
    validate_response("GET", "/api/v1/health", status, headers.items(), body)
    details: dict[str, str] = json.loads(body)["data"]["details"]["rate_limit"]
    return details


SETUPS: dict[str, tuple[int, str]] = {"two gunicorns": (2, "1"), "two workers of one": (1, "2")}
"""The number of gunicorns and the workers of each."""


@dataclass(frozen=True)
class Site:
    """Gunicorns on one shared server, which several tests use: each leaves all of them in reach."""

    server: RedisServer
    gunicorns: list[Server]


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    gunicorns, workers = SETUPS[request.param]
    directory = tmp_path_factory.mktemp("site")
    with (
        RedisServer(directory) as server,
        services(directory, gunicorns, RATE_LIMIT_STORAGE=server.url, WORKERS=workers) as running,
    ):
        yield Site(server, running)


@pytest.mark.parametrize("site", SETUPS, indirect=True)
def test_one_client_has_one_limit_over_all_processes(site: Site) -> None:
    api = hammer_in_reach(site.gunicorns, "GET", "/api/versioning")
    contact = hammer_in_reach(site.gunicorns, "POST", "/contact.php")

    assert api == {200: 60, 429: 100}
    assert contact == {400: 1, 429: 159}


class Load:
    """Requests of ever new clients to all servers in turn, from several threads."""

    def __init__(self, servers: list[Server], threads: int = 4) -> None:
        self._servers = servers
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[number]) for number in range(threads)]
        self.statuses: Counter[int] = Counter()
        self.longest = 0.0
        self.failures: list[Exception] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, answers: int = 200) -> None:
        """Return after so many answers more."""
        goal = self.statuses.total() + answers
        wait_until(lambda: self.statuses.total() >= goal or self.failures, seconds=60)

    def _run(self, thread: int) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            client = f"10.{thread}.{number // 250 % 250}.{number % 250}"
            begun = time.monotonic()
            try:
                status = ask(self._servers[number % len(self._servers)], client)[0]
            except Exception as error:  # noqa: BLE001 - the test fails by it, and not the thread alone
                self.failures.append(error)
                return
            self.longest = max(self.longest, time.monotonic() - begun)
            self.statuses[status] += 1
            time.sleep(0.01)


FAULTS: dict[str, tuple[Callable[[RedisServer], Any], Callable[[RedisServer], Any]]] = {
    "killed and restarted": (RedisServer.kill, RedisServer.start),
    "hanging": (RedisServer.pause, RedisServer.resume),
}


@pytest.mark.parametrize(("lose", "restore"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("site", ["two gunicorns"], indirect=True)
def test_no_visitor_notices_that_the_server_is_gone(
    lose: Callable[[RedisServer], Any], restore: Callable[[RedisServer], Any], site: Site
) -> None:
    server, running = site.server, site.gunicorns
    wait_until_all_are_in_reach(running)
    earlier = [len(service.log) for service in running]

    with Load(running) as load:
        load.go_on()
        lose(server)
        load.go_on()
        wait_until(lambda: all(rate_limit(service, next(CLIENTS)) == FALLBACK for service in running), seconds=60)
        restore(server)
        wait_until_all_are_in_reach(running)
        load.go_on()
    shared = hammer_in_reach(running, "GET", "/api/versioning")
    logs = [service.log[start:] for service, start in zip(running, earlier, strict=True)]

    assert load.failures == []
    assert load.statuses.keys() == {200}
    assert load.longest < GENEROUS
    assert shared == {200: 60, 429: 100}
    for log in logs:
        said = re.findall(f"{LOST}|{BACK}", log)
        assert len(said) >= 2
        assert said == ([LOST, BACK] * len(said))[: len(said)], "each loss and each return is said once"
        assert "Traceback" not in log


def test_a_service_starts_and_limits_without_the_server(tmp_path: Path) -> None:
    address = f"redis+unix://{tmp_path}/nothing.sock"

    with services(tmp_path, 1, RATE_LIMIT_STORAGE=address) as running:
        statuses = hammer(running, next(CLIENTS), 80, "GET", "/api/versioning")
        details = rate_limit(running[0], next(CLIENTS))
        log = running[0].log

    assert statuses == {200: 60, 429: 20}
    assert details == FALLBACK
    assert log.count(LOST) == 1
