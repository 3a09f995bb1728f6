"""Exact sliding windows on a Redis or Valkey server, shared by any number of processes and machines.

One script on the server makes a decision, so a decision is one round trip, and all processes measure time by the
server's clock. redis-py reads the address, makes the connections, to Valkey as well, and sends the script.
"""

import logging
import math
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from queue import Empty, SimpleQueue
from urllib.parse import parse_qsl, urlencode

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import MaxConnectionsError, ResponseError
from redis.exceptions import TimeoutError as LateAnswerError
from redis.retry import Retry

from app.loop import Loop
from app.ratelimit.storage import Storage
from app.ratelimit.window import Decision, Policy, SlidingWindow
from app.settings import SettingsError

TIMEOUT = 0.045
"""Seconds that a request waits for one answer, and for a free connection."""

CONNECT_TIMEOUT = 1.0
"""Seconds for one attempt to connect; no request waits for it."""

FAILURES_IN_A_ROW = 3
"""Probes in a row without an answer after which the server counts as lost.

Requests are not counted, because many of them can time out at the same moment.
"""

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

_UNANSWERED = "the storage of the rate limits left one request without an answer, this process decided it"

logger = logging.getLogger(__name__)


class _State(Enum):
    CONNECTING = auto()
    IN_REACH = auto()
    LOST = auto()


class SharedStorage(Storage):
    """The connections to the server. A thread makes and probes them, so that no request waits for that.

    The process decides a request by itself when no answer comes in TIMEOUT, when the answer is an error, or when the
    server closes the connection. That concerns this request only, and the thread then probes the server at once.

    Every PROBE_INTERVAL the thread connects what is missing and asks as a request does. The server is lost when it
    answers a probe with an error, or when FAILURES_IN_A_ROW probes get no answer while requests get none either. Then
    the process makes all decisions by itself, without waiting, until a probe succeeds. An error that requests meet but
    probes do not concerns single keys, such as a key of the wrong type.

    The log says each loss and each return once, and each error of single keys once between a return and the next loss.
    There is one connection per thread, so that no request waits for another.
    """

    name = "redis"

    def __init__(self, url: str, *, connections: int) -> None:
        options = {
            "max_connections": connections,
            "socket_timeout": TIMEOUT,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "retry": Retry(NoBackoff(), 0),
            "retry_on_timeout": False,
            "retry_on_error": [],
            "health_check_interval": 0,
            "protocol": 2,  # with 3, a server may ask redis-py to be patient
        }
        try:
            self._pool = ConnectionPool.from_url(_address(url, without=options), **options)
            self._pool.connection_class(**self._pool.connection_kwargs)  # raises when an option does not exist
        except Exception as error:
            raise SettingsError(
                ["RATE_LIMIT_STORAGE=(hidden): expected an address that the redis library understands"]
            ) from error
        self._script = Redis(connection_pool=self._pool).register_script(_SCRIPT)
        self._idle: SimpleQueue[Redis] = SimpleQueue()
        """The connections that no request is using. The pool has those that are to be made anew."""
        self._state = _State.CONNECTING
        self._answers = 0
        """The number of requests that the server has answered."""
        self._refusals: dict[str, bool] = {}
        """The errors that it answered to requests, by name; True when the error is in the log."""
        self._loop = Loop("rate-limit-storage", self._look, patience=CONNECT_TIMEOUT)
        self.loops = (self._loop,)

    @property
    def in_reach(self) -> bool:
        """True while the server makes the decisions."""
        return self._state is _State.IN_REACH

    def limiter(self, policy: Policy) -> SlidingWindow:
        """A limiter that keeps its windows on the server, apart from those of other policies."""
        return SharedWindow(self, policy)

    def close(self) -> None:
        """Close the connections that no request is using."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()  # gives the connection back to the pool
        self._pool.disconnect(inuse_connections=False)

    def decide(self, policy: Policy, client: bytes, operation: str) -> Decision | None:
        """The server's decision; None when it makes none. Never raises."""
        if not self.in_reach:
            return None
        try:
            connection = self._idle.get(timeout=TIMEOUT)
        except Empty:
            logger.debug(_UNANSWERED)
            return None
        try:
            decision = self._ask(connection, policy, client, operation)
        except ResponseError as error:
            self._idle.put(connection)
            if _name(error) not in self._refusals:
                self._refusals[_name(error)] = False
                self._loop.wake()
            return None
        except Exception as error:  # noqa: BLE001 - the visitor gets an answer, whatever fails here
            logger.debug(_UNANSWERED)
            connection.close()  # redis-py has cut it, or a late answer would pass for the next one
            if not isinstance(error, LateAnswerError):
                self.close()  # a server that closes one connection has probably closed the idle ones too
            self._loop.wake()
            return None
        self._answers += 1
        self._idle.put(connection)
        return decision

    def _ask(self, connection: Redis, policy: Policy, client: bytes, operation: str) -> Decision:
        key = f"{KEY_PREFIX}:{policy.quota}/{policy.window_seconds}:{client.hex()}"
        arguments = (policy.quota, policy.window_seconds * 1_000_000, operation)
        allowed, remaining, reset_after = self._script([key], arguments, connection)
        return Decision(policy, bool(allowed), remaining, reset_after * _NANOSECONDS)

    def _look(self) -> float:
        """Probe the server and log what has changed; returns the seconds until the next time."""
        try:
            fastest = self._probe()
            if not self.in_reach and fastest > TIMEOUT / 2:
                raise TimeoutError  # a server that is barely fast enough would be lost again and again
        except Exception as error:  # noqa: BLE001 - any failure is a result, and the thread must go on
            self._lose(error)
        else:
            self._keep()
        return PROBE_INTERVAL

    def _probe(self) -> float:
        """Ask over each connection that is missing and one that is idle; raises when the server is lost.

        Returns the seconds of the fastest answer.
        """
        with suppress(Empty):
            self._idle.get_nowait().close()
        fastest, failures, answers = math.inf, 0, self._answers
        while True:
            connection = None
            try:
                connection = Redis(connection_pool=self._pool, single_connection_client=True)
                begun = time.perf_counter()
                self._ask(connection, _PROBE, b"", "hit")
            except MaxConnectionsError:
                return fastest
            except Exception as error:
                if connection:
                    connection.close()
                failures = failures + 1 if answers == self._answers else 1
                answers = self._answers
                if failures == FAILURES_IN_A_ROW or isinstance(error, ResponseError):
                    raise
            else:
                failures = 0
                fastest = min(fastest, time.perf_counter() - begun)
                self._idle.put(connection)

    def _keep(self) -> None:
        """Let the server decide, and log its return and new errors of single keys."""
        if not self.in_reach:
            self._refusals.clear()
        if self._state is _State.LOST:
            logger.info("the storage of the rate limits is back in reach")
        self._state = _State.IN_REACH  # after the line, so that who sees the change can read of it
        for name in [name for name, is_logged in list(self._refusals.items()) if not is_logged]:
            self._refusals[name] = True
            logger.warning(
                "the storage of the rate limits cannot count some clients, this process limits them by itself: %s", name
            )

    def _lose(self, error: Exception) -> None:
        """Decide without the server, and log the loss once."""
        if self._state is not _State.LOST:
            logger.warning(
                "the storage of the rate limits is out of reach, this process limits by itself: %s", _name(error)
            )
        self._state = _State.LOST
        self.close()


def _address(url: str, *, without: Iterable[str]) -> str:
    """The address in the schemes that redis-py knows, less these options: redis-py would prefer them to ours."""
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    scheme = "unix" if scheme.endswith("+unix") else scheme.replace("valkey", "redis")
    return f"{scheme}://{place}?{urlencode([(name, value) for name, value in parse_qsl(query) if name not in without])}"


def _name(error: Exception) -> str:
    """The name of an error in the log: its code, which holds no key and no address, else its class."""
    code: str | None = getattr(error, "status_code", None)
    if code in {None, "ERR"}:
        match = _ERROR_CODE.search(str(error)) if isinstance(error, ResponseError) else None
        code = match and match[1]
    return code or type(error).__name__


class SharedWindow(SlidingWindow):
    """A limiter that is exact over all processes that share the server.

    A request passes when both the window of this process and the window on the server admit it. The window of the
    process always counts. So no process admits more than the quota, and a client gets nothing back when the server is
    lost, found or restarted. While the server makes no decision, the window of the process decides alone; the server
    and the other processes may not know of the requests that it admits then.
    """

    def __init__(self, storage: SharedStorage, policy: Policy) -> None:
        super().__init__(policy)
        self._storage = storage

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        # This window counts before the server does. So a request leaves this window first, and this window refuses
        # nothing that the server would admit. Requests that still wait for their answer are counted too.
        own = super().hit(client)
        if not own.allowed:
            return own
        shared = self._storage.decide(self.policy, client, "hit")
        if shared is None:
            return own
        self.learn(client, shared)
        return shared

    def peek(self, client: bytes) -> Decision:
        """Decide as ``hit`` would, without counting a request."""
        own = super().peek(client)
        if not own.allowed:
            return own
        return self._storage.decide(self.policy, client, "peek") or own
