"""Fair turns: the contestants take turns, round by round, so that a noisy moment hits all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

SECONDS = int(os.environ.get("BENCH_SECONDS", "1"))
"""Length of one turn."""
ROUNDS = 5

K = TypeVar("K")
T = TypeVar("T")


def interleaved(turns: Mapping[K, Callable[[], T]], rounds: int = ROUNDS) -> dict[K, list[T]]:
    """The results of each turn in each round, after a first round that warms up and does not count."""
    for turn in turns.values():
        turn()
    results: dict[K, list[T]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            results[name].append(turn())
    return results
