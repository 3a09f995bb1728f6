"""What binding a worker to a core gains: one worker's threads cannot use two, and move the interpreter's lock about.

All behind nginx over unix sockets. The pair are two services of one worker each, among which nginx gives each client
always the same one, by a hash of the address: so the limits stay exact. nginx and wrk go where there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.findings import Bar, Chart, Findings, Goal, figure
from bench.http import VERSIONING
from bench.machine import LOAD_CORE, SERVER_CORE, cpu_seconds
from bench.rounds import interleaved
from bench.servers import nginx, proxy, service
from bench.wrk import load

UNBOUND, BOUND, PAIR = "one worker on any core", "one worker bound to a core", "two workers, each bound to its core"
CORES: dict[str, tuple[int | None, ...]] = {
    UNBOUND: (None,),
    BOUND: (SERVER_CORE,),
    PAIR: (SERVER_CORE, LOAD_CORE),
}


class Turn(NamedTuple):
    """What one turn showed."""

    per_second: float
    cpu_microseconds: float


def measure(directory: Path) -> Findings:
    """Run the section."""
    with ExitStack() as stack:
        turns: dict[str, Callable[[], Turn]] = {}
        for name, cores in CORES.items():
            sockets = [directory / f"{len(turns)}-{number}.sock" for number in range(len(cores))]
            services = [
                stack.enter_context(service(directory / path.stem, unix=path, core=core))
                for path, core in zip(sockets, cores, strict=True)
            ]
            front = stack.enter_context(nginx(proxy(*sockets), directory / f"nginx-{len(turns)}", core=None))
            turns[name] = partial(_take_turn, front.port, [each.pid for each in services])
        results = interleaved(turns)
    speed, cost = (
        {name: median(turn[column] for turn in rounds) for name, rounds in results.items()} for column in range(2)
    )

    def ratio(name: str, other: str) -> float:
        return median(a.per_second / b.per_second for a, b in zip(results[name], results[other], strict=True))

    return Findings(
        columns=["", "requests/s", "x one on any core", "CPU us/request"],
        rows=[[name, figure(speed[name]), figure(ratio(name, UNBOUND)), figure(cost[name])] for name in CORES],
        goals=[
            Goal("two bound workers against one bound worker", ratio(PAIR, BOUND), 1.4, "x", True),
            Goal("two bound workers against one on any core", ratio(PAIR, UNBOUND), 2, "x", True, True),
        ],
        charts=[
            Chart("Cores, requests per second", "requests/s", [Bar(name, speed[name], name == PAIR) for name in CORES])
        ],
    )


def _take_turn(port: int, pids: list[int]) -> Turn:
    before = sum(map(cpu_seconds, pids))
    seen = load(port, VERSIONING, core=None)
    return Turn(seen.per_second, (sum(map(cpu_seconds, pids)) - before) / seen.requests * 1e6)
