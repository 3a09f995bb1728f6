"""What holds of every limiter, wherever it keeps its windows: one suite for all implementations."""

import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from app.ratelimit.window import SECOND, Decision, Policy, SlidingWindow

API = Policy(quota=60, window_seconds=60)
CONTACT = Policy(quota=1, window_seconds=30)


def address(number: int) -> bytes:
    """The key of one IPv4 client among many."""
    return number.to_bytes(4)


clients = st.sampled_from([address(number) for number in range(5)])


class Span(NamedTuple):
    """When something happened: as exactly as the clock could be read before and after it."""

    begun: int
    ended: int


class LimiterAgainstModel(RuleBasedStateMachine):
    """Any sequence of hits, peeks and waits of several clients. The model counts all accepted requests anew each time.

    A clock that stands still while a limiter decides leaves one answer; one that runs leaves those that some moment of
    the decision, and of the requests before it, explains.
    """

    def begin(self, policy: Policy) -> None:
        """Make the limiter."""
        raise NotImplementedError

    def decide(self, client: bytes, *, hit: bool) -> Decision:
        """Let the limiter decide on a hit or a peek."""
        raise NotImplementedError

    def now(self) -> int:
        """The time in nanoseconds, by the clock of the limiter."""
        raise NotImplementedError

    def advance(self, nanoseconds: int) -> None:
        """Let time pass."""
        raise NotImplementedError

    @initialize(policy=st.sampled_from([CONTACT, Policy(2, 1), Policy(3, 30), Policy(7, 10), API]))
    def start(self, policy: Policy) -> None:
        self.policy = policy
        self.accepted: dict[bytes, list[Span]] = defaultdict(list)
        self.begin(policy)

    def ask(self, client: bytes, *, hit: bool) -> Decision:
        begun = self.now()
        decision = self.decide(client, hit=hit)
        ended = self.now()
        accepted, window = self.accepted[client], self.policy.window_seconds * SECOND
        surely = sum(request.begun > ended - window for request in accepted)
        possibly = sum(request.ended > begun - window for request in accepted)
        added = hit and decision.allowed

        counted = self.policy.quota - decision.remaining - added
        assert decision.policy == self.policy
        assert surely <= counted <= possibly
        assert decision.allowed == (counted < self.policy.quota)
        if counted:
            oldest = accepted[-counted]
            assert oldest.begun - ended <= decision.reset_after - window <= oldest.ended - begun
        else:
            assert decision.reset_after == window
        if added:
            accepted.append(Span(begun, ended))
        return decision

    @rule(client=clients, times=st.integers(1, 3))
    def hit(self, client: bytes, times: int) -> None:
        for _ in range(times):
            self.ask(client, hit=True)

    @rule(client=clients, more=st.sampled_from([-1, 0, 1]))
    def hit_as_often_as_the_quota_allows_or_nearly(self, client: bytes, more: int) -> None:
        self.hit(client, self.policy.quota + more)

    @rule(client=clients)
    def peek(self, client: bytes) -> None:
        self.ask(client, hit=False)

    @rule(nanoseconds=st.sampled_from([1, SECOND // 3, SECOND, 10 * SECOND]) | st.integers(0, 70 * SECOND))
    def wait(self, nanoseconds: int) -> None:
        self.advance(nanoseconds)

    @rule(client=clients, early=st.sampled_from([0, 1, SECOND // 100]))
    def wait_until_the_reset_or_just_before(self, client: bytes, early: int) -> None:
        self.advance(max(0, self.ask(client, hit=False).reset_after - early))


def assert_threads_get_exactly_the_quota(limiters: Sequence[SlidingWindow], client: bytes) -> None:
    """Sixteen threads hit ten times at the same time, each through the next of the limiters."""
    start = threading.Barrier(16)

    def hit_often(number: int) -> list[Decision]:
        start.wait()
        return [limiters[number % len(limiters)].hit(client) for _ in range(10)]

    with ThreadPoolExecutor(start.parties) as pool:
        decisions = [decision for each in pool.map(hit_often, range(start.parties)) for decision in each]

    admitted = [decision.remaining for decision in decisions if decision.allowed]
    assert sorted(admitted) == list(range(limiters[0].policy.quota))
