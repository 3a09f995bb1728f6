"""Exact sliding windows on a Redis or Valkey server, shared by any number of processes and machines.

The library ``limits`` reads the address and makes the connections. Its own moving window is not used: it measures time
by each process's clock, keeps seconds as decimal fractions, and needs a second round trip for what the headers state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, cast

from limits.storage import RedisStorage
from redis import Redis
from redis.exceptions import NoScriptError

from app.ratelimit.window import Decision, Limiter, Policy, SlidingWindow
from app.settings import SettingsError

TIMEOUT = 0.045
"""Seconds that a request waits for an answer. A decision needs two answers at most, so it stays below 100 ms."""

CONNECT_TIMEOUT = 1.0
"""Seconds for one attempt to connect, which no request waits for."""

PROBE_INTERVAL = 1.0
"""Seconds between two looks at the server, be it in reach or not."""

KEY_PREFIX = "public-web-interface"

_NANOSECONDS = 1_000
"""Nanoseconds in a microsecond, the unit of the server's clock."""

_PROBE = Policy(quota=1_000_000, window_seconds=1)
"""A probe is a request like any other, so that it finds a server that reads but cannot write. None is refused."""

_SCRIPT = """
local key, quota, window, counting = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == 'hit'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function expire()
    redis.call('PEXPIREAT', key, math.ceil((now + window) / 1000))
end

-- A clock that was set back must neither admit a client early nor shut it out for longer than a window: the newest
-- request then counts as made now, and the others as long before it as they were.
local newest = tonumber(redis.call('LINDEX', key, -1))
if newest and newest > now then
    for index, stamp in ipairs(redis.call('LRANGE', key, 0, -1)) do
        redis.call('LSET', key, index - 1, stamp - newest + now)
    end
    expire()
end

local oldest = tonumber(redis.call('LINDEX', key, 0))
while oldest and oldest <= now - window do
    redis.call('LPOP', key)
    oldest = tonumber(redis.call('LINDEX', key, 0))
end

local count = redis.call('LLEN', key)
local allowed = count < quota
if allowed and counting then
    redis.call('RPUSH', key, now)
    expire()
    count = count + 1
end
return {allowed and 1 or 0, quota - count, (oldest or now) + window - now}
"""
"""One decision: the times of a client's counted requests, oldest first, in microseconds of the server's clock.

A whole number of microseconds since 1970 is exact as a Lua number. The key expires when the newest of them leaves.
"""

logger = logging.getLogger(__name__)


class _Connection(Protocol):
    """What redis-py's connections do, most of which it leaves without types."""

    def connect(self) -> None:
        """Connect, authenticate and choose the database."""

    def send_command(self, *arguments: str | int) -> None:
        """Send one command."""

    def read_response(self) -> Any:
        """Wait for the answer."""

    def disconnect(self) -> None:
        """Close it."""


_Connections = SimpleQueue[_Connection]


class SharedStorage:
    """The connections to the server, made and watched by a thread of their own, so that no request waits for that.

    A request that gets no answer in TIMEOUT takes the server out of use for all: from then on each decision is made by
    this process alone, without waiting for anything, until the thread has connected anew. As many connections as
    threads are kept open, so that none waits for another.
    """

    name = "redis"

    def __init__(self, url: str, *, connections: int) -> None:
        self._size = connections
        try:
            # redis-py speaks to Valkey as well, and one client library is less than two.
            storage = RedisStorage("redis" + url.removeprefix("redis").removeprefix("valkey"))
            client = cast("Redis", storage.get_connection())
            # After the address has been read, for it may not loosen what a visitor waits for.
            options = client.connection_pool.connection_kwargs | {
                "socket_timeout": TIMEOUT,
                "socket_connect_timeout": CONNECT_TIMEOUT,
                "health_check_interval": 0,
            }
            self._make_connection: Callable[[], _Connection]
            self._make_connection = partial(client.connection_pool.connection_class, **options)
            self._make_connection()  # finds what the address asks for and no connection has
        except Exception as error:
            raise SettingsError(
                ["RATE_LIMIT_STORAGE=(hidden): expected an address that the redis library understands"]
            ) from error
        self._script_id: str = client.register_script(_SCRIPT).sha
        self._connections: _Connections | None = None
        self._out_of_reach = False
        self._thread: threading.Thread | None = None
        # Held until a change is in the log: the lines then stand in the order of the changes, and whoever asks for the
        # state can read how it came about. So nothing that writes the log may ask for the state.
        self._lock = threading.Lock()
        self._first_result = threading.Event()
        self._wake = threading.Event()
        self._stopped = False

    @property
    def in_reach(self) -> bool:
        """Whether decisions are made on the server."""
        with self._lock:
            return self._connections is not None

    def limiter(self, policy: Policy) -> Limiter:
        """A limiter whose windows are kept on the server, one per policy."""
        return SharedWindow(self, policy)

    def start(self, *, wait: float = 0) -> None:
        """Begin to connect, once per process; wait for the outcome, so many seconds at most."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="rate-limit-storage", daemon=True)
                self._thread.start()
        self._first_result.wait(wait)

    def stop(self) -> None:
        """End the thread and close the connections."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CONNECT_TIMEOUT)
        if self._connections is not None:
            _close(self._connections)

    def decide(self, policy: Policy, client: bytes, operation: str) -> Decision | None:
        """The server's decision, or None when it is out of reach; never raises."""
        if self._thread is None:
            self.start(wait=TIMEOUT)  # the server that runs the app has not asked for it
        connections = self._connections
        if connections is None:
            return None
        try:
            connection = connections.get(timeout=TIMEOUT)
            decision = self._ask(connection, policy, client, operation)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with the server, the visitor gets an answer
            self._lose(connections, error)
            return None
        connections.put(connection)
        return decision

    def _ask(self, connection: _Connection, policy: Policy, client: bytes, operation: str) -> Decision:
        key = f"{KEY_PREFIX}:{policy.quota}/{policy.window_seconds}:{client.hex()}"
        arguments = (1, key, policy.quota, policy.window_seconds * 1_000_000, operation)
        try:
            connection.send_command("EVALSHA", self._script_id, *arguments)
            answer = connection.read_response()
        except NoScriptError:
            # The server was restarted or told to forget its scripts: this makes it remember.
            connection.send_command("EVAL", _SCRIPT, *arguments)
            answer = connection.read_response()
        allowed, remaining, reset_after = answer
        return policy, bool(allowed), remaining, reset_after * _NANOSECONDS

    def _run(self) -> None:
        while not self._stopped:
            if self._connections is None:
                self._connect()
                self._first_result.set()
            else:
                self.decide(_PROBE, b"", "hit")
            self._wake.wait(PROBE_INTERVAL)
            self._wake.clear()

    def _connect(self) -> None:
        connections: _Connections = SimpleQueue()
        fastest = TIMEOUT
        try:
            for _ in range(self._size):
                connection = self._make_connection()
                connections.put(connection)
                connection.connect()
                begun = time.perf_counter()
                self._ask(connection, _PROBE, b"", "hit")
                fastest = min(fastest, time.perf_counter() - begun)
            if fastest > TIMEOUT / 2:
                raise TimeoutError  # a server that is barely fast enough would come and go all the time
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the result, and the thread must live on
            self._lose(connections, error)
            return
        with self._lock:
            self._connections = connections
            if self._out_of_reach:
                self._out_of_reach = False
                logger.info("the storage of the rate limits is back in reach")

    def _lose(self, connections: _Connections, error: Exception) -> None:
        """Take the connections out of use, and say so when it is news."""
        _close(connections)
        with self._lock:
            if self._connections not in (connections, None):
                return  # a request that began before the thread connected anew
            if self._connections is not None:
                self._connections = None
                self._wake.set()
            if not self._out_of_reach:
                self._out_of_reach = True
                logger.warning(
                    "the storage of the rate limits is out of reach, this process limits by itself: %s",
                    type(error).__name__,
                )


def _close(connections: _Connections) -> None:
    with suppress(Empty):
        while True:
            connections.get_nowait().disconnect()


class SharedWindow:
    """A limiter that is as exact as the one in the process, over all processes that share the server.

    While the server is out of reach, each process counts in a window of its own, in which no client has done anything
    yet: at the moment of the switch a client has its whole quota again, once per process. What it did meanwhile is
    unknown to the server, which takes up its own windows again.
    """

    def __init__(self, storage: SharedStorage, policy: Policy) -> None:
        self._storage = storage
        self._policy = policy
        self._own = SlidingWindow(policy)

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        return self._storage.decide(self._policy, client, "hit") or self._own.hit(client)

    def peek(self, client: bytes) -> Decision:
        """The same answer without counting anything; ``allowed`` says whether a request would pass."""
        return self._storage.decide(self._policy, client, "peek") or self._own.peek(client)
