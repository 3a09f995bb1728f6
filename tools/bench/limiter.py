"""The limiter alone, against the moving window of the `limits` library, both in memory.

Every response states three things, so each decision includes them: whether the client may pass, how much of its quota
remains, and when it is renewed. Here that is one call of `hit`. In `limits` it is `hit` and `get_window_stats`.
"""

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from statistics import median
from timeit import timeit

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from app import API_POLICY
from app.ratelimit.window import MAX_CLIENTS, SlidingWindow
from tools.bench.report import Figure
from tools.bench.rounds import interleaved

CLIENTS = range(10_000)


def measure() -> list[Figure]:
    """The figures of the limiter."""
    bytes_per_client = _bytes_per_client()  # first, because `limits` starts threads, which take memory too
    rounds = interleaved({"ours": _ours(), "limits": _limits()})
    return [
        Figure(
            "A decision of the limiter, against the two calls of `limits`",
            median(each["limits"] / each["ours"] for each in rounds),
            "x",
            at_least=3,
            why_missed="a decision copies the times of the client's requests.",
        ),
        Figure(
            "Memory of the limiter for a client with one request",
            bytes_per_client,
            "bytes",
            at_most=250,
            why_missed="each client takes its key, the time of its request and a place in an ordered dictionary.",
        ),
    ]


def _bytes_per_client() -> float:
    """The bytes per client of a full limiter, keys included, after twice as many clients as it remembers."""
    tracemalloc.start()
    window = SlidingWindow(API_POLICY)
    for client in range(2 * MAX_CLIENTS):
        window.hit(client.to_bytes(4, "big"))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / MAX_CLIENTS


def _ours() -> Callable[[], float]:
    window = SlidingWindow(API_POLICY)
    keys = [client.to_bytes(4, "big") for client in CLIENTS]
    return partial(_seconds, lambda: [window.hit(key) for key in keys])


def _limits() -> Callable[[], float]:
    limiter = MovingWindowRateLimiter(MemoryStorage())
    policy = parse(f"{API_POLICY.quota}/{API_POLICY.window_seconds}seconds")
    keys = [f"10.0.{client}" for client in CLIENTS]
    return partial(
        _seconds, lambda: [(limiter.hit(policy, key), limiter.get_window_stats(policy, key)) for key in keys]
    )


def _seconds(decide: Callable[[], object]) -> float:
    """Processor time of this thread alone, because `limits` has others that clean up."""
    return timeit(decide, timer=time.thread_time, number=2)
