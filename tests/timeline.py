"""Timelines: one notation for all tables in which time passes.

A timeline is a text of steps, ``SECOND EVENT`` or ``SECOND EVENT -> OUTCOME``, with a semicolon between them:

    0 30x GET /api -> 200 r=30 t=60; 40 GET /api -> 200 r=29 t=20; 60 GET /api -> 200

Thirty requests at once, of which the last answer is told; one more at 40 seconds; and one at 60, of which only the
status matters. Each table says which events it has.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple


class Step(NamedTuple):
    text: str
    second: float
    """Since the beginning."""
    event: str
    outcome: str
    """Empty where nothing is said of it."""

    def as_it_went(self, outcome: str) -> str:
        return f"{self.text.partition(' -> ')[0]} -> {outcome}" if self.outcome else self.text

    def as_far_as_told(self, outcome: str) -> str:
        """As many words of it as the row has."""
        return " ".join(outcome.split()[: len(self.outcome.split())])


def steps(timeline: str) -> Iterator[Step]:
    for step in timeline.split("; "):
        second, _, rest = step.partition(" ")
        event, _, outcome = rest.partition(" -> ")
        yield Step(step, float(second), event, outcome)


def play(timeline: str, happen: Callable[[Step], str]) -> None:
    """Let each step happen, and fail unless its outcome is that of the timeline."""
    __tracebackhide__ = True
    coming = [*steps(timeline)]
    assert_went([step.text for step in coming], [step.as_it_went(happen(step)) for step in coming])


def assert_went(expected: Iterable[str], happened: Iterable[str]) -> None:
    """Fail unless all lines are as expected; the failure says of those that differ on which side they stand."""
    __tracebackhide__ = True
    marks = {" ": "", "-": "expected, and did not come:", "+": "came, and was not expected:", "@": ""}
    differing = [*difflib.unified_diff([*expected], [*happened], lineterm="")][3:]  # behind files and first place
    if differing:
        lines = (f"{marks[line[0]]:>28} {'(more lines)' if line[0] == '@' else line[1:]}" for line in differing)
        raise AssertionError("\n".join(["not as the row says", *lines]))
