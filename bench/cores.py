"""The gain of a second core. The threads of one process take turns, so one process uses one core.

All run behind nginx over unix sockets. nginx and wrk run on any core: on a machine of two cores they take from the pair
the time that a single worker leaves to them. The pair are two services of one worker each, each bound to a core. nginx
either leads each client always to the same one, by a hash of its address, or it alternates between them and they share
the limits on a redis-server of the same machine. "CPU" leaves out nginx and Redis. "Accepted" is the number of requests
that passed when one client sent 200, one right after the other.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.findings import Bar, Chart, Findings, Goal, figure
from bench.http import VERSIONING
from bench.machine import LOAD_CORE, SERVER_CORE, cpu_seconds
from bench.rounds import interleaved
from bench.servers import nginx, proxy, redis, service
from bench.wrk import load

UNBOUND, BOUND = "one worker on any core", "one worker bound to a core"
PAIR, SHARED = "two bound workers, clients by hash", "two bound workers, limits in Redis"
CORES: dict[str, tuple[int | None, ...]] = {
    UNBOUND: (None,),
    BOUND: (SERVER_CORE,),
    PAIR: (SERVER_CORE, LOAD_CORE),
    SHARED: (SERVER_CORE, LOAD_CORE),
}
REQUESTS_OF_ONE_CLIENT = 200


class Turn(NamedTuple):
    """The figures of one turn."""

    per_second: float
    cpu_microseconds: float


def measure(directory: Path) -> Findings:
    """Run the section."""
    with ExitStack() as stack:
        storage = stack.enter_context(redis(directory / "redis"))
        fronts: dict[str, int] = {}
        turns: dict[str, Callable[[], Turn]] = {}
        for number, name in enumerate(CORES):
            environ = {"RATE_LIMIT_STORAGE": storage} if name == SHARED else {}
            fronts[name], pids = _start(stack, name, directory / str(number), environ)
            turns[name] = partial(_take_turn, fronts[name], pids)
        results = interleaved(turns, rounds=4)
        accepted = {name: _hammer(port) for name, port in fronts.items()}
    speed, cost = (
        {name: median(turn[column] for turn in rounds) for name, rounds in results.items()} for column in range(2)
    )

    def ratio(name: str, other: str) -> float:
        return median(a.per_second / b.per_second for a, b in zip(results[name], results[other], strict=True))

    return Findings(
        columns=["", "requests/s", "x one on any core", "CPU us/request", "accepted"],
        rows=[
            [name, figure(speed[name]), figure(ratio(name, UNBOUND)), figure(cost[name]), str(accepted[name])]
            for name in CORES
        ],
        goals=[
            Goal("two bound workers against one bound worker", ratio(PAIR, BOUND), 1.5, "x", True),
            Goal("two bound workers against one on any core", ratio(PAIR, UNBOUND), 1.5, "x", True),
        ],
        charts=[
            Chart("Cores, requests per second", "requests/s", [Bar(name, speed[name], name == PAIR) for name in CORES])
        ],
    )


def _start(stack: ExitStack, name: str, directory: Path, environ: Mapping[str, str]) -> tuple[int, list[int]]:
    """The port of the nginx in front, and the services behind it."""
    directory.mkdir()
    sockets = [directory / f"{number}.sock" for number in range(len(CORES[name]))]
    services = [
        stack.enter_context(service(directory / path.stem, unix=path, core=core, environ=environ))
        for path, core in zip(sockets, CORES[name], strict=True)
    ]
    block = proxy(*sockets, choice="") if name == SHARED else proxy(*sockets)
    return stack.enter_context(nginx(block, directory / "nginx", core=None)).port, [each.pid for each in services]


def _take_turn(port: int, pids: list[int]) -> Turn:
    before = sum(map(cpu_seconds, pids))
    seen = load(port, VERSIONING, core=None)
    return Turn(seen.per_second, (sum(map(cpu_seconds, pids)) - before) / seen.requests * 1e6)


def _hammer(port: int) -> int:
    """Send requests of one client as fast as it can; returns how many were accepted."""
    accepted = 0
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(REQUESTS_OF_ONE_CLIENT):
        connection.request("GET", VERSIONING, headers={"X-Forwarded-For": "192.0.2.1"})
        response = connection.getresponse()
        response.read()
        accepted += response.status == HTTPStatus.OK
    connection.close()
    return accepted
