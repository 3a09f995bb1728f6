"""Exact sliding windows, one per client, in the memory of this process."""

import threading
import time
from array import array
from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple

SECOND = 1_000_000_000
"""Nanoseconds in a second. Windows are counted in whole nanoseconds, so that no rounding error admits a request."""

MAX_CLIENTS = 87_000
"""Clients that one window remembers at most.

This is just below a third of 2 ** 18. With more, the dictionary would grow when new clients replace old ones: it would
take a quarter more memory, and every thread would wait for over 10 ms.
"""

_IDLE_CLIENTS_DROPPED_PER_NEW_ONE = 2


class Policy(NamedTuple):
    """At most ``quota`` requests in any ``window_seconds``."""

    quota: int
    window_seconds: int


class Decision(NamedTuple):
    """The answer of a limiter about one client at one moment."""

    policy: Policy
    allowed: bool
    """True when the request passes."""
    remaining: int
    """Requests that the quota has left."""
    reset_after: int
    """Nanoseconds until the oldest counted request leaves the window; the whole window when none is counted."""


def whole_seconds(nanoseconds: int) -> int:
    """The time in whole seconds, rounded up, so that a client that waits for them has waited long enough."""
    return -(-nanoseconds // SECOND)


class SlidingWindow:
    """A limiter whose cost per decision does not grow with the number of clients.

    Clients are kept in the order of their last counted request, so the idle ones are at the front. Each new client
    removes up to two idle ones, and at the cap one more to make room. One counted request is kept as an integer,
    several as a packed array.
    """

    def __init__(self, policy: Policy, *, max_clients: int = MAX_CLIENTS) -> None:
        self.policy = policy
        """The policy that it counts under."""
        self._quota = policy.quota
        self._window = policy.window_seconds * SECOND
        self._max_clients = max_clients
        self._clients: OrderedDict[bytes, int | array[int]] = OrderedDict()
        self._idle_from = 0  # no client is idle before this moment
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._clients)

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        self._lock.acquire()  # `with` would take twice as long
        try:
            # The time is read under the lock, so that the hits of a client are in order.
            now = time.monotonic_ns()
            kept = self._clients.get(client)
            if kept is None:
                self._make_room(now)
                self._clients[client] = now
                return Decision(self.policy, True, self._quota - 1, self._window)
            opened = now - self._window
            hits = kept if isinstance(kept, array) else [kept]
            oldest = hits[0]
            if oldest <= opened:
                del hits[: bisect_right(hits, opened)]
                oldest = hits[0] if hits else now
            count = len(hits)
            if count >= self._quota:
                return Decision(self.policy, False, 0, oldest - opened)
            hits.append(now)
            if not count:
                self._clients[client] = now
            elif hits is not kept:
                self._clients[client] = array("q", hits)
            self._clients.move_to_end(client)
            return Decision(self.policy, True, self._quota - count - 1, oldest - opened)
        finally:
            self._lock.release()

    def peek(self, client: bytes) -> Decision:
        """Decide as ``hit`` would, without counting a request."""
        with self._lock:
            now = time.monotonic_ns()
            opened = now - self._window
            kept = self._clients.get(client, ())
            hits = (kept,) if isinstance(kept, int) else kept
            expired = bisect_right(hits, opened)
            count = len(hits) - expired
            oldest = hits[expired] if count else now
        return Decision(self.policy, count < self._quota, self._quota - count, oldest - opened)

    def learn(self, client: bytes, decision: Decision) -> None:
        """Adopt the decision of the shared storage on the hit that was just counted here.

        A hit that it refused is removed here too. When no request remains, the requests that other processes counted
        are added, all with the age of the oldest one. So this window refuses the client until that one leaves it.
        """
        if decision.remaining:
            return
        with self._lock:
            kept = self._clients.get(client)
            if kept is None:
                return  # a newer client has taken its place
            hits = kept if isinstance(kept, array) else array("q", [kept])
            oldest = hits[-1] + decision.reset_after - self._window
            if not decision.allowed:
                hits.pop()
            others = array("q", [oldest]) * (self._quota - len(hits))
            hits = array("q", sorted(others + hits))
            self._clients[client] = hits if len(hits) > 1 else hits[0]

    def _make_room(self, now: int) -> None:
        if len(self._clients) >= self._max_clients:
            self._clients.popitem(last=False)
        if now < self._idle_from:
            return
        for _ in range(_IDLE_CLIENTS_DROPPED_PER_NEW_ONE):
            kept = next(iter(self._clients.values()), now)
            newest = kept if isinstance(kept, int) else kept[-1]
            self._idle_from = newest + self._window
            if now < self._idle_from:
                return
            self._clients.popitem(last=False)
