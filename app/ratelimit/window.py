"""Exact sliding windows, one per client, in the memory of this process."""

import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from app.background import Loop

SECOND = 1_000_000_000
"""Nanoseconds in a second. Windows are counted in whole nanoseconds, so that no rounding error admits a request."""
MAX_CLIENTS = 87_000
"""Clients that one window remembers at most. This is just below a third of 2 ** 18: with more, the dictionary would be
rebuilt when new clients replace old ones, and every thread would wait for over 10 ms."""

_IDLE_CLIENTS_DROPPED_PER_NEW_ONE = 2


class Policy(NamedTuple):
    """At most ``quota`` requests in any ``window_seconds``."""

    quota: int
    window_seconds: int


class Decision(NamedTuple):
    """A limiter's decision on one client at one moment."""

    policy: Policy
    allowed: bool
    remaining: int  # requests that the quota has left
    reset_after: int  # nanoseconds until the oldest counted request leaves the window; a whole window without one


def whole_seconds(nanoseconds: int) -> int:
    """The time in whole seconds, rounded up, so that a client that waits for them has waited long enough."""
    return -(-nanoseconds // SECOND)


class SlidingWindow:
    """A limiter whose cost per decision does not grow with the number of clients.

    Clients are kept in the order of their last counted request, so the idle ones come first. Each new client removes up
    to two idle ones, and at the cap one more to make room.
    """

    def __init__(self, policy: Policy, *, max_clients: int = MAX_CLIENTS) -> None:
        self.policy = policy
        self._window = policy.window_seconds * SECOND
        self._max_clients = max_clients
        self._clients: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._clients)

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        with self._lock:
            now = time.monotonic_ns()  # under the lock, so that the hits of a client are in order
            hits = self._counted(client, now)
            allowed = len(hits) < self.policy.quota
            if allowed:
                if client not in self._clients:
                    self._make_room(now)
                self._clients[client] = hits = (*hits, now)
                self._clients.move_to_end(client)
        return self._decision(hits, now, allowed=allowed)

    def peek(self, client: bytes) -> Decision:
        """Decide as ``hit`` would, without counting a request."""
        with self._lock:
            now = time.monotonic_ns()
            hits = self._counted(client, now)
        return self._decision(hits, now, allowed=len(hits) < self.policy.quota)

    def learn(self, client: bytes, decision: Decision) -> None:
        """Adopt the decision of the shared storage on the hit that was just counted here.

        Undoes a hit that the storage refused. When the quota is spent, fills this window up with hits as old as the
        oldest one, so that it refuses the client until that one expires.
        """
        if decision.remaining:
            return
        with self._lock:
            hits = self._counted(client, time.monotonic_ns())
            if hits:  # else it was evicted
                oldest = hits[-1] + decision.reset_after - self._window
                own = hits if decision.allowed else hits[:-1]
                others = [oldest] * (self.policy.quota - len(own))
                self._clients[client] = tuple(sorted([*others, *own]))

    def _counted(self, client: bytes, now: int) -> tuple[int, ...]:
        """The client's requests that are in the window, oldest first."""
        hits = self._clients.get(client, ())
        return hits[bisect_right(hits, now - self._window) :]

    def _decision(self, hits: tuple[int, ...], now: int, *, allowed: bool) -> Decision:
        reset_after = (hits[0] if hits else now) + self._window - now
        return Decision(self.policy, allowed, self.policy.quota - len(hits), reset_after)

    def _make_room(self, now: int) -> None:
        if len(self._clients) >= self._max_clients:
            self._clients.popitem(last=False)
        for _ in range(_IDLE_CLIENTS_DROPPED_PER_NEW_ONE):
            least_recent = next(iter(self._clients.values()), (now,))
            if least_recent[-1] > now - self._window:
                return
            self._clients.popitem(last=False)


class Storage:
    """Keeps the windows of any number of policies: this one in the memory of the process."""

    name = "memory"  # the value of ``details.rate_limit.storage`` in the health endpoint

    loops: Sequence[Loop] = ()  # the loops that check the storage; Background starts and stops them

    is_reachable = True  # True while the storage makes the decisions; else the process makes them on its own

    def limiter(self, policy: Policy) -> SlidingWindow:
        """A limiter whose windows are kept here."""
        return SlidingWindow(policy)

    def close(self) -> None:
        """Close the connections; here there are none."""
