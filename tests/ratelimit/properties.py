"""What holds of every limiter, wherever it keeps its windows: one suite for all implementations."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.ratelimit.window import SECOND, Decision, Policy

API = Policy(quota=60, window_seconds=60)
CONTACT = Policy(quota=1, window_seconds=30)


def address(number: int) -> bytes:
    """The key of one IPv4 client among many."""
    return number.to_bytes(4)


class Limiter(Protocol):
    """Counts the requests of every client under one policy, wherever it keeps its windows."""

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""

    def peek(self, client: bytes) -> Decision:
        """Decide as ``hit`` would, without counting a request."""


class Subject(Protocol):
    """A limiter and the clock that it measures time by, which the test can move."""

    @property
    def limiter(self) -> Limiter:
        """The limiter."""

    def now(self) -> int:
        """The time in nanoseconds."""

    def advance(self, nanoseconds: int) -> None:
        """Let time pass."""

    def close(self) -> None:
        """Give back what it took."""


class Span(NamedTuple):
    """When something happened: as exactly as the clock could be read before and after it."""

    begun: int
    ended: int


class NaiveWindow:
    """Keeps every accepted request of a client in a list and counts them anew for each decision.

    A clock that stands still while a limiter decides leaves one answer; one that runs leaves those that some moment of
    the decision, and of the requests before it, explains.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.window = policy.window_seconds * SECOND
        self.accepted: dict[bytes, list[Span]] = {}

    def hold(self, client: bytes, decision: Decision, when: Span, *, hit: bool) -> None:
        """Hold a limiter's decision to what was accepted before it."""
        accepted = self.accepted.setdefault(client, [])
        surely = sum(request.begun > when.ended - self.window for request in accepted)
        possibly = sum(request.ended > when.begun - self.window for request in accepted)
        added = hit and decision.allowed

        counted = self.policy.quota - decision.remaining - added
        assert decision.policy == self.policy
        assert surely <= counted <= possibly
        assert decision.allowed == (counted < self.policy.quota)
        if counted:
            oldest = accepted[-counted]
            assert oldest.begun - when.ended <= decision.reset_after - self.window <= oldest.ended - when.begun
        else:
            assert decision.reset_after == self.window
        if added:
            accepted.append(when)

    def hold_quota(self) -> None:
        """Hold all that was accepted to the quota: the first and the one too many are a window apart."""
        for accepted in self.accepted.values():
            for first, one_too_many in zip(accepted, accepted[self.policy.quota :], strict=False):
                assert one_too_many.ended - first.begun >= self.window


clients = st.sampled_from([address(number) for number in range(5)])


class LimiterAgainstModel(RuleBasedStateMachine):
    """Any sequence of hits, peeks and waits of several clients."""

    def make_subject(self, policy: Policy) -> Subject:
        raise NotImplementedError

    @initialize(policy=st.sampled_from([CONTACT, Policy(2, 1), Policy(3, 30), Policy(7, 10), API]))
    def start(self, policy: Policy) -> None:
        self.model = NaiveWindow(policy)
        self.subject = self.make_subject(policy)

    def teardown(self) -> None:
        if hasattr(self, "subject"):
            self.subject.close()

    def ask(self, client: bytes, *, counted: bool) -> Decision:
        begun = self.subject.now()
        limiter = self.subject.limiter
        decision = limiter.hit(client) if counted else limiter.peek(client)
        self.model.hold(client, decision, Span(begun, self.subject.now()), hit=counted)
        return decision

    @rule(client=clients, times=st.integers(1, 3))
    def hit(self, client: bytes, times: int) -> None:
        for _ in range(times):
            self.ask(client, counted=True)

    @rule(client=clients, more=st.sampled_from([-1, 0, 1]))
    def hit_as_often_as_the_quota_allows_or_nearly(self, client: bytes, more: int) -> None:
        self.hit(client, self.model.policy.quota + more)

    @rule(client=clients)
    def peek(self, client: bytes) -> None:
        self.ask(client, counted=False)

    @rule(nanoseconds=st.sampled_from([1, SECOND // 3, SECOND, 10 * SECOND]) | st.integers(0, 70 * SECOND))
    def wait(self, nanoseconds: int) -> None:
        self.subject.advance(nanoseconds)

    @rule(client=clients, early=st.sampled_from([0, 1, SECOND // 100]))
    def wait_until_the_reset_or_just_before(self, client: bytes, early: int) -> None:
        self.subject.advance(max(0, self.ask(client, counted=False).reset_after - early))

    @invariant()
    def no_window_ever_holds_more_than_the_quota(self) -> None:
        if hasattr(self, "model"):
            self.model.hold_quota()


def hit_from_threads(
    limiters: Sequence[Limiter], client: bytes, *, threads: int = 16, times: int = 10
) -> list[Decision]:
    """All decisions of threads that hit at the same time, each through the next of the limiters."""
    start = threading.Barrier(threads)

    def hit_often(limiter: Limiter) -> list[Decision]:
        start.wait()
        return [limiter.hit(client) for _ in range(times)]

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(hit_often, limiters[number % len(limiters)]) for number in range(threads)]
        return [decision for future in futures for decision in future.result()]


def assert_exactly_the_quota_was_admitted(policy: Policy, decisions: list[Decision]) -> None:
    admitted = [decision.remaining for decision in decisions if decision.allowed]
    assert sorted(admitted) == list(range(policy.quota))
