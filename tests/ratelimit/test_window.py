"""The exact sliding window: against a naive model, under threads, and what it costs."""

import gc
import sys
import time
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings

from app.ratelimit.window import SECOND, Decision, Policy, SlidingWindow
from tests.ratelimit.properties import (
    API,
    CONTACT,
    LimiterAgainstModel,
    address,
    assert_threads_get_exactly_the_quota,
)
from tests.timeline import Step, play


class Clock:
    """A monotonic clock in nanoseconds that stands still until it is moved; it starts as a machine does, at 0."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0
        patch.setattr(time, "monotonic_ns", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class OwnWindowAgainstModel(LimiterAgainstModel):
    patch = pytest.MonkeyPatch()

    def begin(self, policy: Policy) -> None:
        self.clock = Clock(self.patch)
        self.limiter = SlidingWindow(policy)

    def decide(self, client: bytes, *, hit: bool) -> Decision:
        return self.limiter.hit(client) if hit else self.limiter.peek(client)

    def now(self) -> int:
        return self.clock.now

    def advance(self, nanoseconds: int) -> None:
        self.clock.now += nanoseconds

    def teardown(self) -> None:
        self.patch.undo()


TestOwnWindowAgainstModel = OwnWindowAgainstModel.TestCase
TestOwnWindowAgainstModel.settings = settings(stateful_step_count=40)


class ContestedKey(bytes):
    """A key that lets another thread run whenever it is looked up."""

    __slots__ = ()

    def __hash__(self) -> int:
        time.sleep(0)
        return super().__hash__()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("policy", [CONTACT, API] * 5, ids=lambda policy: f"a quota of {policy.quota}")
def test_sixteen_threads_on_one_client_get_exactly_the_quota(policy: Policy) -> None:
    assert_threads_get_exactly_the_quota([SlidingWindow(policy)], ContestedKey(address(1)))


WINDOWS: dict[str, tuple[Policy, int, str]] = {
    "at the cap, the client whose last request is oldest gives way": (
        *(API, 3),
        (
            "0 hit a; 1 hit b; 2 hit c; 3 hit a; 4 hit d; 5 known clients -> 3;"
            " 5 peek a -> r=58; 5 peek b -> r=60; 5 peek c -> r=59; 5 peek d -> r=59"
        ),
    ),
    "a refused request and a peek do not keep a client": (
        *(CONTACT, 2),
        (
            "0 hit a; 1 hit b; 2 hit a; 3 peek a; 4 hit c; 5 known clients -> 2;"
            " 5 peek a -> r=1; 5 peek b -> r=0; 5 peek c -> r=0"
        ),
    ),
    "a peek at a new client takes no place": (
        *(CONTACT, 1),
        "0 hit a; 1 peek b; 2 peek c; 3 known clients -> 1; 3 peek a -> r=0",
    ),
    "an idle crowd gives way, faster than new clients come": (
        *(CONTACT, 9),
        (
            "0 hit a; 1 hit b; 2 hit c; 3 hit d; 34 hit e; 35 hit f;"
            " 36 known clients -> 2; 36 peek e -> r=0; 36 peek f -> r=0"
        ),
    ),
    "idle clients give way before any that is still counted": (
        *(CONTACT, 4),
        (
            "0 hit a; 1 hit b; 32 hit c; 33 hit d; 34 hit e; 35 hit f; 36 known clients -> 4;"
            " 36 peek c -> r=0; 36 peek d -> r=0; 36 peek e -> r=0; 36 peek f -> r=0"
        ),
    ),
    "idle is who has asked nothing for a whole window": (API, 9, "0 hit a; 30 hit a; 61 hit b; 61 peek a -> r=59"),
    "the last that all processes allow counts, and the next is refused here too": (
        *(API, 9),
        "0 hit a; 0 all allow a with r=0 t=20; 0 peek a -> r=0 t=20; 19.9 peek a -> r=0; 20 hit a -> r=58 t=40 allowed",
    ),
    "a hit that all processes refuse counts no more": (
        *(API, 9),
        (
            f"{'0 hit a; ' * 10}0 all refuse a with r=0 t=20; 0 peek a -> r=0 t=20; 19.9 peek a -> r=0;"
            " 20 hit a -> r=50 t=40 allowed"
        ),
    ),
    "a quota of one is no exception": (
        *(CONTACT, 9),
        "0 hit a; 0 all refuse a with r=0 t=20; 0 peek a -> r=0 t=20; 19.9 peek a -> r=0; 20 hit a -> r=0 t=30 allowed",
    ),
    "while something remains, what others counted is of no interest": (
        *(API, 9),
        "0 hit a; 0 all allow a with r=1 t=20; 0 peek a -> r=59 t=60; 19.9 peek a -> r=59; 20 hit a -> r=58 t=40 allowed",
    ),
}
"""The cap, and a timeline. A client may ask 60 times a minute (API) or once in 30 s (CONTACT). As in RateLimit, r is
what it has left, and t the seconds to the reset. What all processes decided on is the last hit."""


@pytest.mark.parametrize(("policy", "cap", "timeline"), WINDOWS.values(), ids=WINDOWS)
def test_a_window(policy: Policy, cap: int, timeline: str, clock: Clock) -> None:
    window = SlidingWindow(policy, max_clients=cap)

    def happen(step: Step) -> str:
        clock.now = int(step.second * SECOND)
        match step.event.split():
            case ["known", "clients"]:
                return str(len(window))
            case ["all", verdict, client, "with", remaining, reset]:
                left, wait = (int(it[2:]) for it in (remaining, reset))
                window.learn(client.encode(), Decision(policy, verdict == "allow", left, wait * SECOND))
                return ""
        verb, client = step.event.split()
        decision: Decision = getattr(window, verb)(client.encode())
        stated = f"r={decision.remaining} t={decision.reset_after / SECOND:g} {'allowed' * decision.allowed}"
        return step.as_far_as_told(stated)

    play(timeline, happen)


def cost(window: SlidingWindow, client: bytes) -> tuple[int, int]:
    """The lines of Python that a hit runs, and the memory that it takes meanwhile."""
    lines = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()  # Hypothesis has the collector call a function of its own, whose lines would be counted
    tracemalloc.start()
    sys.settrace(trace)
    try:
        window.hit(client)
        return lines, tracemalloc.get_traced_memory()[1]
    finally:
        sys.settrace(before)
        tracemalloc.stop()
        gc.enable()


FEW, MANY = 3, 10_000
SITUATIONS: dict[str, tuple[int, int, bool]] = {
    "a new client while all others are idle": (MANY, 30, False),
    "a new client at the cap": (MANY, 0, True),
    "a known client that is refused": (1, 1, False),
}
"""Who asks, how many seconds after the others, and whether no place is free."""


@pytest.mark.parametrize(("client", "later", "is_full"), SITUATIONS.values(), ids=SITUATIONS)
def test_the_work_of_a_decision_does_not_grow_with_the_number_of_clients(
    client: int, later: int, clock: Clock, *, is_full: bool
) -> None:
    costs = []
    for count in (FEW, MANY):
        clock.now = 0
        window = SlidingWindow(CONTACT, max_clients=count if is_full else 2 * MANY)
        for number in range(count):
            window.hit(address(number))
        clock.now = later * SECOND
        costs.append(cost(window, address(client)))

    (few_lines, _), (many_lines, memory) = costs
    assert many_lines == few_lines
    assert memory < 10_000
