"""Fair measurements: the servers take turns, round by round, so that a noisy moment affects all of them."""

from collections.abc import Callable, Mapping
from typing import TypeVar

ROUNDS = 9

T = TypeVar("T")


def interleaved(turns: Mapping[str, Callable[[], T]]) -> list[dict[str, T]]:
    """The results of each round, by name. A first round warms up and does not count."""
    return [{name: turn() for name, turn in turns.items()} for _ in range(ROUNDS + 1)][1:]
