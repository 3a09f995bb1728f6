"""Exact sliding windows on a Redis or Valkey server, shared by any number of processes and machines.

redis-py reads the address and makes the connections, to Valkey as well. One script on the server makes a decision, so a
decision is one round trip, and all processes measure time by the server's clock.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from redis import ConnectionPool
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as LateAnswerError

from app.loop import Loop
from app.ratelimit.window import Decision, Policy, SlidingWindow, Window
from app.settings import SettingsError

TIMEOUT = 0.045
"""Seconds that a request waits for one answer. A decision needs two answers at most, so it takes less than 100 ms."""

TIME_OUTS_IN_A_ROW = 3
"""Probes in a row without an answer after which the server counts as lost.

Requests are not counted, because many of them can time out at the same moment.
"""

CONNECT_TIMEOUT = 1.0
"""Seconds for one attempt to connect; no request waits for it."""

PROBE_INTERVAL = 1.0
"""Seconds between two probes, both while the server is in reach and while it is not."""

KEY_PREFIX = "public-web-interface"

_NANOSECONDS = 1_000
"""Nanoseconds in a microsecond, the unit of the server's clock."""

_PROBE = Policy(quota=1_000_000, window_seconds=1)
"""The policy of a probe, which refuses none. A probe counts as a request does, so a server must be able to write."""

_ERROR_CODE = re.compile("(?:^|: -?)([A-Z]{3,20}) ")
"""The code of an error, such as OOM. Redis up to 6 does not put it first when it reports an error in a script."""

_SCRIPT = """
local key, quota, window, counting = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == 'hit'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function expire()
    redis.call('PEXPIREAT', key, math.ceil((now + window) / 1000))
end

-- A clock that was set back must not admit a client early, and must not refuse it for longer than a window. So the
-- newest request counts as made now, and the others keep their distance to it.
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
"""Makes one decision on the server.

The key of a client holds the times of its counted requests, oldest first, in microseconds of the server's clock. A Lua
number holds them exactly. The key expires when the newest request leaves the window.
"""

_SCRIPT_ID = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""The name that the server gives the script."""

_UNANSWERED = "the storage of the rate limits left one request without an answer, this process decided it"

logger = logging.getLogger(__name__)


class _Connection(Protocol):
    """The methods of redis-py's connections that are used here; redis-py types few of them."""

    def connect(self) -> None:
        """Connect, authenticate and choose the database."""

    def send_command(self, *arguments: str | int) -> None:
        """Send one command."""

    def read_response(self) -> Any:
        """Wait for the answer and return it."""

    def disconnect(self) -> None:
        """Close the connection."""


class _Pool:
    """The connections that are used until the server is lost; the thread of the storage connects the broken ones."""

    def __init__(self, connections: Iterable[_Connection]) -> None:
        self.idle: SimpleQueue[_Connection] = SimpleQueue()
        self.broken = deque(connections)
        self.answers = 0
        """The number of requests that the server has answered."""
        self.refusals: dict[str, bool] = {}
        """The errors that it answered to requests, by name; True when the error is in the log."""

    def give_up(self, connection: _Connection, error: Exception) -> None:
        """Leave a connection to the thread, which replaces it: a late answer would pass for the next answer.

        When the server has closed one connection, it has probably closed the idle ones too, so these are replaced as
        well.
        """
        self.broken.append(connection)
        if not isinstance(error, LateAnswerError):
            with suppress(Empty):
                while True:
                    self.broken.append(self.idle.get_nowait())

    def close(self) -> None:
        """Close the connections that no request is using."""
        with suppress(Empty):
            while True:
                self.idle.get_nowait().disconnect()
        while self.broken:
            self.broken.popleft().disconnect()


class SharedStorage:
    """The connections to the server. A thread makes and probes them, so that no request waits for that.

    The process decides a request by itself when no answer comes in TIMEOUT, when the answer is an error, or when the
    server closes the connection. That concerns this request only, and the thread then probes the server at once.

    A probe replaces the broken connections and asks as a request does; there is one every PROBE_INTERVAL. The server
    is lost when a probe meets an error or cannot connect, or when TIME_OUTS_IN_A_ROW probes time out while no request
    is answered. Then the process makes all decisions by itself, without waiting, until a probe succeeds. An error that
    requests meet but probes do not concerns single keys, such as a key of the wrong type.

    The log says each loss and each return once, and each error of single keys once between a return and the next loss.
    There is one connection per thread, so that no request waits for another.
    """

    name = "redis"

    def __init__(self, url: str, *, connections: int) -> None:
        self._size = connections
        try:
            pool = ConnectionPool.from_url(_address(url))
            # These come last, because an option of the address must not make a visitor wait longer.
            options = pool.connection_kwargs | {
                "socket_timeout": TIMEOUT,
                "socket_connect_timeout": CONNECT_TIMEOUT,
                "health_check_interval": 0,
            }
            self._make_connection: Callable[[], _Connection]
            self._make_connection = partial(pool.connection_class, **options)
            self._make_connection()  # raises when an option of the address does not exist
        except Exception as error:
            raise SettingsError(
                ["RATE_LIMIT_STORAGE=(hidden): expected an address that the redis library understands"]
            ) from error
        self._pool: _Pool | None = None
        self._out_of_reach = False
        # Held until a change is in the log, so that the lines are in the order of the changes and a state is in the log
        # before anybody sees it. So code that writes the log must not read `in_reach`.
        self._lock = threading.Lock()
        self._loop = Loop("rate-limit-storage", self._run, patience=CONNECT_TIMEOUT)
        self.loops = (self._loop,)

    @property
    def in_reach(self) -> bool:
        """True while the server makes the decisions."""
        with self._lock:
            return self._pool is not None

    def limiter(self, policy: Policy) -> Window:
        """A limiter that keeps its windows on the server, apart from those of other policies."""
        return SharedWindow(self, policy)

    def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.close()

    def decide(self, policy: Policy, client: bytes, operation: str) -> Decision | None:
        """The server's decision; None when it makes none. Never raises."""
        pool = self._pool
        if pool is None:
            return None
        try:
            connection = pool.idle.get(timeout=TIMEOUT)
        except Empty:
            logger.debug(_UNANSWERED)
            return None
        try:
            decision = self._ask(connection, policy, client, operation)
        except ResponseError as error:
            pool.idle.put(connection)
            name = _name(error)
            if name not in pool.refusals:
                pool.refusals[name] = False
                self._loop.wake()
            return None
        except Exception as error:  # noqa: BLE001 - the visitor gets an answer, whatever fails here
            logger.debug(_UNANSWERED)
            pool.give_up(connection, error)
            self._loop.wake()
            return None
        pool.answers += 1
        pool.idle.put(connection)
        return decision

    def _ask(self, connection: _Connection, policy: Policy, client: bytes, operation: str) -> Decision:
        key = f"{KEY_PREFIX}:{policy.quota}/{policy.window_seconds}:{client.hex()}"
        arguments = (1, key, policy.quota, policy.window_seconds * 1_000_000, operation)
        try:
            connection.send_command("EVALSHA", _SCRIPT_ID, *arguments)
            answer = connection.read_response()
        except NoScriptError:
            # The server does not know the script: it was restarted or its scripts were deleted. EVAL stores it again.
            connection.send_command("EVAL", _SCRIPT, *arguments)
            answer = connection.read_response()
        allowed, remaining, reset_after = answer
        return Decision(policy, bool(allowed), remaining, reset_after * _NANOSECONDS)

    def _run(self) -> float:
        """Look once; returns the seconds until the next time."""
        pool = self._pool or _Pool([self._make_connection() for _ in range(self._size)])
        try:
            self._look(pool)
        except Exception as error:  # noqa: BLE001 - any failure is a result, and the thread must go on
            self._lose(pool, error)
        else:
            self._keep(pool)
        return PROBE_INTERVAL

    def _look(self, pool: _Pool) -> None:
        """Replace and probe each broken connection, or probe an idle one; raises when the server is lost."""
        time_outs = answers = 0
        fastest = TIMEOUT
        asked = False
        while pool.broken or not asked:
            anew = bool(pool.broken)
            try:
                connection = pool.broken.popleft() if anew else pool.idle.get_nowait()
            except Empty:
                return  # requests use all connections, so they find out by themselves
            try:
                if anew:
                    connection.disconnect()
                    connection.connect()
                begun = time.perf_counter()
                self._ask(connection, _PROBE, b"", "hit")
                fastest = min(fastest, time.perf_counter() - begun)
            except Exception as error:
                pool.give_up(connection, error)
                if isinstance(error, LateAnswerError):
                    time_outs = time_outs + 1 if answers == pool.answers else 1
                    answers = pool.answers
                    if time_outs == TIME_OUTS_IN_A_ROW:
                        raise
                elif anew or isinstance(error, ResponseError):
                    raise
            else:
                time_outs = 0
                asked = True
                pool.idle.put(connection)
        if pool is not self._pool and fastest > TIMEOUT / 2:
            raise TimeoutError  # a server that is barely fast enough would be lost again and again

    def _keep(self, pool: _Pool) -> None:
        """Use these connections, and log a return and new errors of single keys."""
        with self._lock:
            self._pool = pool
            if self._out_of_reach:
                self._out_of_reach = False
                logger.info("the storage of the rate limits is back in reach")
        for name in list(pool.refusals):
            if not pool.refusals[name]:
                pool.refusals[name] = True
                logger.warning(
                    "the storage of the rate limits cannot count some clients, this process limits them by itself: %s",
                    name,
                )

    def _lose(self, pool: _Pool, error: Exception) -> None:
        """Stop using these connections, and log the loss once."""
        with self._lock:
            self._pool = None
            if not self._out_of_reach:
                self._out_of_reach = True
                logger.warning(
                    "the storage of the rate limits is out of reach, this process limits by itself: %s", _name(error)
                )
        pool.close()


def _address(url: str) -> str:
    """The address in the schemes that redis-py knows: redis, rediss and unix."""
    scheme, _, rest = url.partition("://")
    return f"{'unix' if scheme.endswith('+unix') else scheme.replace('valkey', 'redis')}://{rest}"


def _name(error: Exception) -> str:
    """The name of an error in the log: its code, which holds no key and no address, else its class."""
    code: str | None = getattr(error, "status_code", None)  # redis-py 7 and newer
    if code in {None, "ERR"}:
        match = _ERROR_CODE.search(str(error)) if isinstance(error, ResponseError) else None
        code = match and match[1]
    return code or type(error).__name__


class SharedWindow:
    """A limiter that is exact over all processes that share the server.

    A request passes when both the window of this process and the window on the server admit it. The window of the
    process always counts. So no process admits more than the quota, and a client gets nothing back when the server is
    lost, found or restarted. While the server makes no decision, the window of the process decides alone; the server
    and the other processes may not know of the requests that it admits then.
    """

    def __init__(self, storage: SharedStorage, policy: Policy) -> None:
        self._storage = storage
        self._policy = policy
        self._own = SlidingWindow(policy)

    def __len__(self) -> int:
        return len(self._own)

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        # This window counts before the server does. So a request leaves this window first, and this window refuses
        # nothing that the server would admit. Requests that still wait for their answer are counted too.
        own = self._own.hit(client)
        if not own.allowed:
            return own
        shared = self._storage.decide(self._policy, client, "hit")
        if shared is None:
            return own
        self._own.learn(client, shared)
        return shared

    def peek(self, client: bytes) -> Decision:
        """Decide as ``hit`` would, without counting a request."""
        own = self._own.peek(client)
        if not own.allowed:
            return own
        return self._storage.decide(self._policy, client, "peek") or own
