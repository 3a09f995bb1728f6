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

MAX_CLIENTS = 100_000
"""Clients that one window remembers. Growing past the next power of two would stop every thread for over 10 ms."""

_IDLE_CLIENTS_DROPPED_PER_NEW_ONE = 2


class Policy(NamedTuple):
    """At most ``quota`` requests in any ``window_seconds``."""

    quota: int
    window_seconds: int


class Decision(NamedTuple):
    """What a client may do now.

    ``reset_after`` is in nanoseconds: until its oldest counted request leaves the window, or the whole window.
    """

    policy: Policy
    allowed: bool
    remaining: int
    reset_after: int

    @property
    def reset_after_seconds(self) -> int:
        """The same in whole seconds, rounded up: whoever waits that long passes."""
        return -(-self.reset_after // SECOND)


class Limiter(Protocol):
    """Counts the requests of each client against one policy."""

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""

    def peek(self, client: bytes) -> Decision:
        """The same answer without counting anything; ``allowed`` says whether a request would pass."""


class SlidingWindow:
    """A limiter whose cost per decision does not depend on the number of clients.

    Clients stand in the order of their last counted request, so the idle ones are always at the front and each new
    client pushes up to two of them out. One counted request is kept as a plain integer, more as a packed array.
    """

    def __init__(self, policy: Policy, *, max_clients: int = MAX_CLIENTS) -> None:
        self._policy = policy
        self._window = policy.window_seconds * SECOND
        self._max_clients = max_clients
        self._hits: OrderedDict[bytes, int | array[int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._hits)

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        policy = self._policy
        with self._lock:
            # Read under the lock, for the hits of a client must be in order.
            now = time.monotonic_ns()
            count, oldest = self._counted(client, now)
            if count >= policy.quota:
                return Decision(policy, False, 0, oldest + self._window - now)
            self._add(client, count, now)
            return Decision(policy, True, policy.quota - count - 1, oldest + self._window - now)

    def peek(self, client: bytes) -> Decision:
        """The same answer without counting anything; ``allowed`` says whether a request would pass."""
        policy = self._policy
        with self._lock:
            now = time.monotonic_ns()
            count, oldest = self._counted(client, now)
        return Decision(policy, count < policy.quota, policy.quota - count, oldest + self._window - now)

    def _counted(self, client: bytes, now: int) -> tuple[int, int]:
        """How many requests of the client are in the window, and the time of the oldest (now, when there is none)."""
        hits = self._hits.get(client)
        horizon = now - self._window
        if hits is None:
            return 0, now
        if isinstance(hits, int):
            return (1, hits) if hits > horizon else (0, now)
        expired = bisect_right(hits, horizon)
        if expired:
            del hits[:expired]
        return (len(hits), hits[0]) if hits else (0, now)

    def _add(self, client: bytes, count: int, now: int) -> None:
        hits = self._hits.get(client)
        if hits is None:
            self._make_room(now)
            self._hits[client] = now
            return
        if count == 0:
            self._hits[client] = now
        elif isinstance(hits, int):
            self._hits[client] = array("q", (hits, now))
        else:
            hits.append(now)
        self._hits.move_to_end(client)

    def _make_room(self, now: int) -> None:
        horizon = now - self._window
        for _ in range(_IDLE_CLIENTS_DROPPED_PER_NEW_ONE):
            if not self._hits:
                return
            client, hits = next(iter(self._hits.items()))
            last = hits if isinstance(hits, int) else (hits[-1] if hits else horizon)
            if last > horizon and len(self._hits) < self._max_clients:
                return
            del self._hits[client]
