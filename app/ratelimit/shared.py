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

from app.ratelimit.window import Decision, Limiter, Policy, SlidingWindow
from app.settings import SettingsError

TIMEOUT = 0.045
"""Seconds that a request waits for an answer. A decision needs two answers at most, so it stays below 100 ms."""

TIME_OUTS_IN_A_ROW = 3
"""The server counts as gone after so many probes in a row without an answer.

Requests are not counted: those that time out at the same moment say no more than one does.
"""

CONNECT_TIMEOUT = 1.0
"""Seconds for one attempt to connect, which no request waits for."""

PROBE_INTERVAL = 1.0
"""Seconds between two looks at the server, be it in reach or not."""

KEY_PREFIX = "public-web-interface"

_NANOSECONDS = 1_000
"""Nanoseconds in a microsecond, the unit of the server's clock."""

_PROBE = Policy(quota=1_000_000, window_seconds=1)
"""A probe is a request like any other, so that it finds a server that reads but cannot write. None is refused."""

_ERROR_CODE = re.compile("(?:^|: -?)([A-Z]{3,20}) ")
"""The server's word for an error: the first of its answer, or inside it when Redis 6 or older quotes a script's."""

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

_SCRIPT_ID = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
"""The name that the server gives the script."""

_UNANSWERED = "the storage of the rate limits left one request without an answer, this process decided it"

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


class _Pool:
    """The connections from when the server is found until it is lost; at first each waits for the thread to make it."""

    def __init__(self, connections: Iterable[_Connection]) -> None:
        self.idle: SimpleQueue[_Connection] = SimpleQueue()
        self.broken = deque(connections)
        self.answers = 0
        """Grows while the server answers requests."""
        self.refusals: dict[str, bool] = {}
        """The errors that it answered to requests, by name, and whether each is in the log."""

    def give_up(self, connection: _Connection, error: Exception) -> None:
        """Let the thread replace a connection: an answer that comes late would be taken for that to the next question.

        When one is closed, the idle ones probably are too, and a request should wait for a new one instead.
        """
        self.broken.append(connection)
        if not isinstance(error, LateAnswerError):
            with suppress(Empty):
                while True:
                    self.broken.append(self.idle.get_nowait())

    def close(self) -> None:
        """Close what no request uses."""
        with suppress(Empty):
            while True:
                self.idle.get_nowait().disconnect()
        while self.broken:
            self.broken.popleft().disconnect()


class SharedStorage:
    """The connections to the server, made and watched by a thread of their own, so that no request waits for that.

    A request that gets no answer in TIMEOUT is decided by its process, and so is one that the server answers with an
    error or whose connection it closes: that is the business of one request. The thread then looks at the server at
    once, as it does every PROBE_INTERVAL: it replaces broken connections and asks as a request does. The server is out
    of use for all when that look meets an error, cannot connect, or times out TIME_OUTS_IN_A_ROW while no request is
    answered either. From then on each decision is made by this process alone, without waiting for anything, until the
    thread has connected anew. An error that requests meet and the look does not concerns single keys, such as one of
    the wrong type.

    The log says each loss and each return once, and each error of single keys once between a return and the next loss.
    As many connections as threads are kept open, so that none waits for another.
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
            self._make_connection()  # finds what the address asks for and no connection has
        except Exception as error:
            raise SettingsError(
                ["RATE_LIMIT_STORAGE=(hidden): expected an address that the redis library understands"]
            ) from error
        self._pool: _Pool | None = None
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
            return self._pool is not None

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
        if self._pool is not None:
            self._pool.close()

    def decide(self, policy: Policy, client: bytes, operation: str) -> Decision | None:
        """The server's decision, or None when it makes none; never raises."""
        if self._thread is None:
            self.start(wait=TIMEOUT)  # the server that runs the app has not asked for it
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
                self._wake.set()
            return None
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with the server, the visitor gets an answer
            logger.debug(_UNANSWERED)
            pool.give_up(connection, error)
            self._wake.set()
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
            # The server was restarted or told to forget its scripts: this makes it remember.
            connection.send_command("EVAL", _SCRIPT, *arguments)
            answer = connection.read_response()
        allowed, remaining, reset_after = answer
        return Decision(policy, bool(allowed), remaining, reset_after * _NANOSECONDS)

    def _run(self) -> None:
        while not self._stopped:
            pool = self._pool or _Pool([self._make_connection() for _ in range(self._size)])
            try:
                self._look(pool)
            except Exception as error:  # noqa: BLE001 - whatever goes wrong is the result, and the thread must live on
                self._lose(pool, error)
            else:
                self._keep(pool)
            self._first_result.set()
            self._wake.wait(PROBE_INTERVAL)
            self._wake.clear()

    def _look(self, pool: _Pool) -> None:
        """Replace each broken connection and ask on it, or ask on an idle one. Raises what shows the server gone."""
        time_outs = answers = 0
        fastest = TIMEOUT
        asked = False
        while pool.broken or not asked:
            anew = bool(pool.broken)
            try:
                connection = pool.broken.popleft() if anew else pool.idle.get_nowait()
            except Empty:
                return  # requests use all of them and find out by themselves
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
            raise TimeoutError  # a server that is barely fast enough would come and go all the time

    def _keep(self, pool: _Pool) -> None:
        """Leave or put the connections in use, and say what is news."""
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
        """Take the connections out of use, and say so when it is news."""
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
    """What the log calls an error: by the server's word for it, which holds no key and no address, else by class."""
    code: str | None = getattr(error, "status_code", None)  # from redis-py 7 on
    if code in {None, "ERR"}:
        match = _ERROR_CODE.search(str(error)) if isinstance(error, ResponseError) else None
        code = match and match[1]
    return code or type(error).__name__


class SharedWindow:
    """A limiter that is as exact as the one in the process, over all processes that share the server.

    A request passes when both this process's own window and the windows on the server admit it. The own window counts
    all the time, so no process ever admits more than the quota, and a server that is lost, found or restarted gives no
    client back what it has used in this process. While the server makes no decision, the own window decides alone; what
    it admits then may be unknown to the server and to the other processes.
    """

    def __init__(self, storage: SharedStorage, policy: Policy) -> None:
        self._storage = storage
        self._policy = policy
        self._own = SlidingWindow(policy)

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        # Counted here before the server does: then it leaves this window first, and what the server would admit is
        # not refused here. The requests whose answers are awaited are counted, too.
        own = self._own.hit(client)
        if not own.allowed:
            return own
        shared = self._storage.decide(self._policy, client, "hit")
        if shared is None:
            return own
        self._own.learn(client, shared)
        return shared

    def peek(self, client: bytes) -> Decision:
        """The same answer without counting anything; ``allowed`` says whether a request would pass."""
        own = self._own.peek(client)
        if not own.allowed:
            return own
        return self._storage.decide(self._policy, client, "peek") or own
