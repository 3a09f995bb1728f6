"""Several gunicorns on one server: one client, one limit, whatever happens to the server."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from app import API_POLICY, CONTACT_POLICY
from tests.client import validate_response
from tests.redis.server import RedisServer
from tests.server.gunicorn import Server, serving
from tests.versions import HEALTH
from tests.waiting import wait_until

LOST = "the rate-limit storage is unreachable; this process limits on its own"
BACK = "the rate-limit storage is reachable again"
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
    response, body = server.new_client().request("GET", f"{HEALTH}?verbose=true")
    validate_response("GET", HEALTH, response.status, response.getheaders(), body)
    details: dict[str, str] = json.loads(body)["data"]["details"]["rate_limit"]
    return details


def said(servers: list[Server], line: str) -> int:
    """How often the processes have said it so far."""
    return sum(server.log.count(line) for server in servers)


def wait_until_reachable(servers: list[Server]) -> None:
    wait_until(lambda: said(servers, LOST) == said(servers, BACK), seconds=60)
    # A process says so before it asks the server, and any worker may answer.
    wait_until(lambda: all(rate_limit(server)["status"] == "ok" for server in servers * 10), seconds=60)


def test_no_visitor_notices_that_the_server_comes_and_goes_and_comes_back(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Three processes of two gunicorns start, and answer, before there is a server."""
    server = RedisServer(tmp_path)
    storage = server.url + PATIENT
    with (
        serving(tmp_path, RATE_LIMIT_STORAGE=storage) as one,
        serving(tmp_path_factory.mktemp("other"), RATE_LIMIT_STORAGE=storage, WORKERS="2") as other,
    ):
        both = [one, other]
        wait_until(lambda: said(both, LOST) == 3)
        assert hammer([one], "GET", "/api/versioning", times=API_POLICY.quota + 20) == {200: API_POLICY.quota, 429: 20}
        assert [rate_limit(each) for each in both] == [FALLBACK] * 2

        with server:
            wait_until_reachable(both)
            api, contact = API_POLICY.quota, CONTACT_POLICY.quota
            assert hammer(both, "GET", "/api/versioning", times=api + 100) == {200: api, 429: 100}
            assert hammer(both, "POST", "/contact.php", times=contact + 100) == {400: contact, 429: 100}

            server.kill()
            assert {each.new_client().request("GET", "/api")[0].status for each in both * 50} == {200}
            wait_until(lambda: said(both, LOST) >= 6, seconds=60)  # one that has not noticed yet would say nothing
            assert [rate_limit(each) for each in both * 5] == [FALLBACK] * 10

            server.start()
            wait_until_reachable(both)
            assert said(both, LOST) == 6, "each process says it once at the start and once now"
            assert hammer(both, "GET", "/api/versioning") == {200: 60, 429: 100}
