"""An exact sliding window per client, in the memory of this process."""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_right
from collections import OrderedDict
from typing import NamedTuple, Protocol

SECOND = 1_000_000_000
"""Nanoseconds in a second: windows are counted in whole nanoseconds, so that no rounding error admits a request."""

MAX_CLIENTS = 87_000
"""Clients that one window remembers.

With more than a third of a power of two, of 2 ** 18 here, the dictionary would grow to the next one as soon as old
clients make room for new ones: a quarter more memory, and over 10 ms in which every thread waits.
"""

_IDLE_CLIENTS_DROPPED_PER_NEW_ONE = 2


class Policy(NamedTuple):
    """At most ``quota`` requests in any ``window_seconds``."""

    quota: int
    window_seconds: int


class Decision(NamedTuple):
    """What a client may do now under one policy."""

    policy: Policy
    allowed: bool
    """Whether the request passes."""
    remaining: int
    """Requests that the quota has left."""
    reset_after: int
    """Nanoseconds until the oldest counted request leaves the window; the whole window when none is counted."""


def whole_seconds(nanoseconds: int) -> int:
    """Rounded up: whoever waits that long has waited long enough."""
    return -(-nanoseconds // SECOND)


class Limiter(Protocol):
    """Counts the requests of each client against one policy."""

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""

    def peek(self, client: bytes) -> Decision:
        """The same answer without counting anything; ``allowed`` says whether a request would pass."""


class SlidingWindow:
    """A limiter whose cost per decision does not depend on the number of clients.

    Clients stand in the order of their last counted request, so the idle ones are always at the front and each new
    client pushes up to two of them out, besides the one that makes room for it at the cap. One counted request is kept
    as a plain integer, more as a packed array.
    """

    def __init__(self, policy: Policy, *, max_clients: int = MAX_CLIENTS) -> None:
        self._policy = policy
        self._quota = policy.quota
        self._window = policy.window_seconds * SECOND
        self._max_clients = max_clients
        self._clients: OrderedDict[bytes, int | array[int]] = OrderedDict()
        self._idle_from = 0  # before this moment no client is idle
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._clients)

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        self._lock.acquire()  # `with` would take twice as long as the two calls
        try:
            # Read under the lock, for the hits of a client must be in order.
            now = time.monotonic_ns()
            kept = self._clients.get(client)
            if kept is None:
                self._make_room(now)
                self._clients[client] = now
                return Decision(self._policy, True, self._quota - 1, self._window)
            opened = now - self._window
            hits = kept if isinstance(kept, array) else [kept]
            oldest = hits[0]
            if oldest <= opened:
                del hits[: bisect_right(hits, opened)]
                oldest = hits[0] if hits else now
            count = len(hits)
            if count >= self._quota:
                return Decision(self._policy, False, 0, oldest - opened)
            hits.append(now)
            if not count:
                self._clients[client] = now
            elif hits is not kept:
                self._clients[client] = array("q", hits)
            self._clients.move_to_end(client)
            return Decision(self._policy, True, self._quota - count - 1, oldest - opened)
        finally:
            self._lock.release()

    def peek(self, client: bytes) -> Decision:
        """The same answer without counting anything; ``allowed`` says whether a request would pass."""
        with self._lock:
            now = time.monotonic_ns()
            opened = now - self._window
            kept = self._clients.get(client, ())
            hits = (kept,) if isinstance(kept, int) else kept
            expired = bisect_right(hits, opened)
            count = len(hits) - expired
            oldest = hits[expired] if count else now
        return Decision(self._policy, count < self._quota, self._quota - count, oldest - opened)

    def learn(self, client: bytes, decision: Decision) -> None:
        """Take over what all processes together decided on the hit that was just counted here.

        A refused one counts no more. When nothing remains, the requests that other processes counted are added here,
        all as old as the oldest one, so that the client is refused here too until that one leaves the window.
        """
        if decision.remaining:
            return
        with self._lock:
            kept = self._clients.get(client)
            if kept is None:
                return  # forgotten for a newer client
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
