"""Timelines: one notation for all tables in which time passes.

A timeline is a text of steps, ``SECOND EVENT`` or ``SECOND EVENT -> OUTCOME``, with a semicolon between them:

    0 30x GET /api -> 200 r=30 t=60; 40 GET /api -> 200 r=29 t=20; 60 GET /api -> 200

Half a minute's worth of requests, one more after 40 seconds, and one more 20 seconds later, of which only the status is
of interest. Each table says which events it has; the outcome is what is said of the event here, and no more.
"""

import difflib
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Step(NamedTuple):
    text: str
    second: float
    """Since the beginning."""
    event: str
    outcome: str
    """Empty where nothing is said of it."""

    def as_it_went(self, outcome: object) -> str:
        return f"{self.text.partition(' -> ')[0]} -> {outcome}" if self.outcome else self.text


def steps(timeline: str) -> Iterator[Step]:
    for step in timeline.split("; "):
        second, _, rest = step.partition(" ")
        event, _, outcome = rest.partition(" -> ")
        yield Step(step, float(second), event, outcome)


def assert_went(expected: Iterable[str], happened: Iterable[str]) -> None:
    """Fail unless all lines are as expected; the failure says of those that differ on which side they stand."""
    __tracebackhide__ = True
    marks = {" ": "", "-": "expected, and did not come:", "+": "came, and was not expected:", "@": ""}
    differing = [*difflib.unified_diff([*expected], [*happened], lineterm="")][2:]  # behind the names of two files
    if differing:
        lines = (f"{marks[line[0]]:>28} {'...' if line[0] == '@' else line[1:]}" for line in differing)
        raise AssertionError("\n".join(["not as the row says", *lines]))
