"""The limiter alone, against the moving window of the `limits` library: both in memory, in a process bound to one core.

Every response states three things, so a decision says all three: does the client pass, how much of its quota remains,
and when is it renewed. Here that is one call of `hit`. In `limits` it is `hit` and `get_window_stats`; its `hit` alone
says only the first. The clients take turns, and each has made a request before. With 1,000,000 clients every call is a
client's first: the limiter of this service remembers 87,000 clients and forgets an older one for each new one. This is
where its slowest decision is measured. Its bytes per client are those of a full limiter divided by 87,000. Times are
processor times. Those of 1,000,000 clients and the bytes, which include the key of a client, come from a single run.
"""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from math import nan
from pathlib import Path
from statistics import median
from typing import Any

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from app import API_POLICY
from app.ratelimit.window import MAX_CLIENTS, SlidingWindow
from bench.findings import Bar, Chart, Findings, Goal, figure
from bench.machine import SERVER_CORE
from bench.rounds import SECONDS, interleaved

DECISIONS = 20_000 * SECONDS
MANY = 1_000_000
FEWER = 20_000
"""Enough clients to measure the bytes of one in `limits`, which is too slow for more."""
NEWCOMERS = f"{MANY:,} clients"
LIMITS_POLICY = parse(f"{API_POLICY.quota}/{API_POLICY.window_seconds}seconds")
CASES = (("1 client", 1, 1), ("10,000 clients", 10_000, 1), ("8 threads", 10_000, 8))
"""Each case: its name, the number of clients and the number of threads."""

OURS, LIMITS, HIT_ALONE = "this service", "limits, moving window", "the same, `hit` alone"

Hit = Callable[[Any], object]
"""Counts a request of the client with this key."""


def measure(_directory: Path) -> Findings:
    """Run the section."""
    os.sched_setaffinity(0, {SERVER_CORE})
    # First, because `limits` starts threads of its own, which take memory, too.
    flooded, flooded_longer = _bytes_after(OURS, 2 * MAX_CLIENTS, 3 * MAX_CLIENTS)
    (unbounded,) = _bytes_after(LIMITS, FEWER)
    nanoseconds: dict[str, dict[str, float]] = {name: {} for name in MAKERS}
    ratios: dict[str, float] = {}
    for label, clients, threads in CASES:
        numbers = [number % clients for number in range(DECISIONS)]
        turns = {name: partial(_time_decisions, make(), _keys(name, numbers), threads) for name, make in MAKERS.items()}
        results = interleaved(turns, rounds=9)  # more than elsewhere, because a turn is short
        for name, times in results.items():
            nanoseconds[name][label] = median(times)
        ratios[label] = median(other / ours for ours, other in zip(results[OURS], results[LIMITS], strict=True))
    for name in (OURS, LIMITS):
        nanoseconds[name][NEWCOMERS] = _time_decisions(MAKERS[name](), _keys(name, range(MANY)), 1)
    ratios[NEWCOMERS] = nanoseconds[LIMITS][NEWCOMERS] / nanoseconds[OURS][NEWCOMERS]
    bytes_per_client = {OURS: flooded_longer / MAX_CLIENTS} | dict.fromkeys((LIMITS, HIT_ALONE), unbounded / FEWER)
    return Findings(
        columns=["", *(f"ns, {label}" for label in ratios), "bytes/client"],
        rows=[
            [
                name,
                *(figure(taken.get(label, nan)) for label in ratios),
                figure(bytes_per_client[name]),
            ]
            for name, taken in nanoseconds.items()
        ],
        goals=[
            Goal(
                "a decision against `hit` and `get_window_stats` of `limits`, at the slowest",
                min(ratios.values()),
                8,
                "x",
                True,
            ),
            Goal("memory of a client with one hit", bytes_per_client[OURS], 200, "bytes"),
            Goal("memory after three times as many new clients against twice", flooded_longer / flooded, 1.1, "x"),
            Goal("the slowest decision at the cap", _slowest_decision_ms(), 20, "ms"),
        ],
        charts=[
            Chart(
                "Limiter, nanoseconds per decision with 10,000 clients",
                "ns",
                [Bar(name, nanoseconds[name]["10,000 clients"], name == OURS) for name in MAKERS],
            )
        ],
    )


def _ours() -> Hit:
    return SlidingWindow(API_POLICY).hit


def _limits() -> Hit:
    limiter = MovingWindowRateLimiter(MemoryStorage())

    def decide(client: str) -> object:
        return limiter.hit(LIMITS_POLICY, client), limiter.get_window_stats(LIMITS_POLICY, client)

    return decide


def _hit_alone() -> Hit:
    return partial(MovingWindowRateLimiter(MemoryStorage()).hit, LIMITS_POLICY)


def _keys(name: str, clients: Iterable[int]) -> list[Any]:
    """The keys of the clients, in the form that each limiter takes."""
    return [client.to_bytes(4, "big") if name == OURS else f"10.0.{client}" for client in clients]


def _time_decisions(hit: Hit, keys: list[Any], threads: int) -> float:
    """Nanoseconds per decision; counts the deciding threads alone, because `limits` has others that clean up."""
    each = len(keys) // threads
    taken: list[int] = []

    def decide(first: int) -> None:
        begun = time.thread_time_ns()
        for key in keys[first : first + each]:
            hit(key)
        taken.append(time.thread_time_ns() - begun)

    workers = [threading.Thread(target=decide, args=(number * each,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(taken) / (each * threads)


def _bytes_after(name: str, *numbers: int) -> list[int]:
    """Bytes of the limiter and its keys, each time that so many new clients have made a request."""
    tracemalloc.start()
    try:
        hit = MAKERS[name]()
        taken = []
        for first, end in pairwise((0, *numbers)):
            for number in range(first, end):
                hit(*_keys(name, [number]))
            taken.append(tracemalloc.get_traced_memory()[0])
        return taken
    finally:
        tracemalloc.stop()


def _slowest_decision_ms() -> float:
    """Milliseconds: the slowest decision of each round, and of these the median."""
    slowest = []
    for _ in range(3):
        hit, worst = _ours(), 0
        for key in _keys(OURS, range(2 * MAX_CLIENTS)):
            begun = time.process_time_ns()
            hit(key)
            worst = max(worst, time.process_time_ns() - begun)
        slowest.append(worst / 1e6)
    return median(slowest)


MAKERS: dict[str, Callable[[], Hit]] = {OURS: _ours, LIMITS: _limits, HIT_ALONE: _hit_alone}
