"""Exact sliding windows on a Redis or Valkey server, shared by any number of processes and machines.

One script on the server makes a decision, so a decision is one round trip, and all processes measure time by the
server's clock. redis-py reads the address, makes the connections, to Valkey as well, and sends the script.
"""

import logging
import os
import re
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import parse_qsl, urlencode

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.loop import Loop
from app.ratelimit.window import Decision, Policy, SlidingWindow, Storage
from app.settings import SettingsError

TIMEOUT = 0.045
"""Seconds that a request waits for one answer; a decision needs two at most."""
CONNECT_TIMEOUT = 1.0
"""Seconds for one attempt to connect; no request waits for it."""
PROBE_INTERVAL = 1.0
"""Seconds between two probes, both while the server is in reach and while it is not."""
FAILURES_IN_A_ROW = 3
"""Probes without an answer after which the server is lost; requests do not count, many can time out at once."""

_PROBE = Policy(quota=1_000_000, window_seconds=1)
"""The policy of a probe, which refuses none. A probe counts as a request does, so a server must be able to write."""

_ERROR_CODE = re.compile("(?:^|: -?)([A-Z]{3,20}) ")
"""The code of an error, such as OOM. Redis up to 6 does not put it first when it reports an error in a script."""

_SCRIPT = """
local key, quota, window, counting = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == 'hit'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A clock that was set back must not admit a client early, and must not refuse it for longer than a window. So the
-- newest request counts as made now, and the others keep their distance to it.
local ahead = (tonumber(redis.call('LINDEX', key, -1)) or now) - now
if ahead > 0 then
    for index, stamp in ipairs(redis.call('LRANGE', key, 0, -1)) do
        redis.call('LSET', key, index - 1, stamp - ahead)
    end
end

local oldest = tonumber(redis.call('LINDEX', key, 0))
while oldest and oldest <= now - window do
    redis.call('LPOP', key)
    oldest = tonumber(redis.call('LINDEX', key, 0))
end

local count = redis.call('LLEN', key)
local allowed = count < quota
local counted = allowed and counting
if counted then
    count = redis.call('RPUSH', key, now)
end
if counted or ahead > 0 then
    redis.call('PEXPIREAT', key, math.ceil((now + window) / 1000))
end
return {allowed and 1 or 0, quota - count, (oldest or now) + window - now}
"""
"""Decides on the server, whose clock counts microseconds, which a Lua number holds exactly. A client's key holds the
times of its counted requests, oldest first; it expires when the newest leaves the window."""

_LOST = "the storage of the rate limits is out of reach, this process limits by itself: %s"
_BACK = "the storage of the rate limits is back in reach"
_UNANSWERED = "the storage of the rate limits left one request without an answer, this process decided it"
_REFUSED = "the storage of the rate limits cannot count some clients, this process limits them by itself: %s"

logger = logging.getLogger(__name__)


class SharedStorage(Storage):
    """The connections to the server, one per thread. A thread makes and probes them, so that no request does.

    The process decides a request by itself when no answer comes in TIMEOUT, when the answer is an error, or when the
    server closes the connection. That concerns this request only. The server is lost when it answers a probe with an
    error, or when FAILURES_IN_A_ROW probes get no answer while requests get none either. Then the process makes all
    decisions by itself, without waiting, until a probe succeeds. An error that requests meet but probes do not concerns
    single keys, such as one of the wrong type; the log names it once between a return and the next loss.
    """

    name = "redis"

    def __init__(self, url: str, *, connections: int) -> None:
        options = {
            "max_connections": connections,
            "socket_timeout": TIMEOUT,
            "socket_connect_timeout": CONNECT_TIMEOUT,
            "retry": Retry(NoBackoff(), 0),
            "health_check_interval": 0,
            "protocol": 2,  # with 3, a server may ask redis-py to be patient
        }
        try:
            self._pool = redis.ConnectionPool.from_url(_address(url, without=options), **options)
            self._pool.connection_class(**self._pool.connection_kwargs)  # raises when an option does not exist
        except Exception as error:
            expected = "expected an address that the redis library understands"
            raise SettingsError([f"RATE_LIMIT_STORAGE=(hidden): {expected}"]) from error
        self._script = redis.Redis(connection_pool=self._pool).register_script(_SCRIPT)
        # Each has one connection. What a request closes goes back to the pool, and the thread takes it from there.
        self._idle: SimpleQueue[redis.Redis] = SimpleQueue()
        self.in_reach = False
        self._lost = False  # as the log says
        self._answers = 0  # to requests
        self._refusals: dict[str, bool] = {}  # the errors of requests by name; True when the error is in the log
        self._loop = Loop("rate-limit-storage", self._look, patience=CONNECT_TIMEOUT)
        self.loops = (self._loop,)

    def limiter(self, policy: Policy) -> SlidingWindow:
        """A limiter that keeps its windows on the server, apart from those of other policies."""
        return SharedWindow(self, policy)

    def close(self) -> None:
        """Close the connections that no request is using."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
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
        decision = None
        try:
            decision = self._ask(connection, policy, client, operation)
            self._answers += 1
        except redis.ResponseError as error:
            if not self._refusals.setdefault(_name(error), False):
                self._loop.wake()
        except Exception as error:  # noqa: BLE001 - the visitor gets an answer, whatever fails here
            logger.debug(_UNANSWERED)
            connection.close()
            if not isinstance(error, redis.TimeoutError):
                self.close()  # a server that closes one connection has probably closed the idle ones too
            self._loop.wake()
            return None
        self._idle.put(connection)
        return decision

    def _ask(self, connection: redis.Redis, policy: Policy, client: bytes, operation: str) -> Decision:
        key = f"public-web-interface:{policy.quota}/{policy.window_seconds}:{client.hex()}"
        arguments = (1, key, policy.quota, policy.window_seconds * 1_000_000, operation)
        answer: Any
        try:
            answer = connection.evalsha(self._script.sha, *arguments)
        except redis.exceptions.NoScriptError:  # the script's own call would store it and ask again, in two answers
            answer = connection.eval(_SCRIPT, *arguments)
        allowed, remaining, microseconds = answer
        return Decision(policy, bool(allowed), remaining, microseconds * 1_000)

    def _look(self) -> float:
        """Probe the server and log a change before anybody sees it; returns the seconds until the next time."""
        try:
            self._probe()
        except Exception as error:  # noqa: BLE001 - any failure is a result, and the thread must go on
            if not self._lost:
                logger.warning(_LOST, _name(error))
            self._lost, self.in_reach = True, False
            self.close()
        else:
            if self._lost:
                logger.info(_BACK)
                self._refusals.clear()
            self._lost, self.in_reach = False, True
            for name in [name for name, is_logged in self._refusals.copy().items() if not is_logged]:
                logger.warning(_REFUSED, name)
                self._refusals[name] = True
        return PROBE_INTERVAL

    def _probe(self) -> None:
        """Ask over an idle connection and over each that has to be made; raises when the server is lost."""
        with suppress(Empty):
            self._idle.get_nowait().close()
        failures, answers = 0, self._answers
        for _ in range(self._pool.max_connections + FAILURES_IN_A_ROW):
            connection = None
            try:
                connection = redis.Redis(connection_pool=self._pool, single_connection_client=True)
                begun = time.perf_counter()
                # A new key each time: a server without memory lets a script add when it has removed something before.
                self._ask(connection, _PROBE, os.urandom(8), "hit")
                if not self.in_reach and time.perf_counter() - begun > TIMEOUT / 2:
                    raise redis.TimeoutError  # a server that is barely fast enough would be lost again and again
            except redis.MaxConnectionsError:
                return
            except Exception as error:
                if connection:
                    connection.close()
                failures = failures + 1 if answers == self._answers else 1
                answers = self._answers
                if failures == FAILURES_IN_A_ROW or isinstance(error, redis.ResponseError):
                    raise
            else:
                failures = 0
                self._idle.put(connection)


def _address(url: str, *, without: dict[str, object]) -> str:
    """The address in the schemes that redis-py knows, less these options, which redis-py would prefer to ours."""
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    scheme = "unix" if scheme.endswith("+unix") else scheme.replace("valkey", "redis")
    return f"{scheme}://{place}?{urlencode([(name, value) for name, value in parse_qsl(query) if name not in without])}"


def _name(error: Exception) -> str:
    """The name of an error in the log: its code, which holds no key and no address, else its class."""
    code: str | None = getattr(error, "status_code", None)
    if code in {None, "ERR"}:
        match = _ERROR_CODE.search(str(error)) if isinstance(error, redis.ResponseError) else None
        code = match and match[1]
    return code or type(error).__name__


class SharedWindow(SlidingWindow):
    """A limiter that is exact over all processes that share the server.

    A request passes when both the window of this process and the one on the server admit it. The former always counts,
    so a client gets nothing back when the server is lost or found. While the server makes no decision, the former
    decides alone, and the others may not know of the requests that it admits then.
    """

    def __init__(self, storage: SharedStorage, policy: Policy) -> None:
        super().__init__(policy)
        self._storage = storage

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        # This window counts before the server does. So a request leaves this window first, and this window refuses
        # nothing that the server would admit. Requests that still wait for their answer are counted too.
        own = super().hit(client)
        shared = self._storage.decide(self.policy, client, "hit") if own.allowed else None
        if shared:
            self.learn(client, shared)
        return shared or own

    def peek(self, client: bytes) -> Decision:
        """Decide as ``hit`` would, without counting a request."""
        own = super().peek(client)
        return (self._storage.decide(self.policy, client, "peek") if own.allowed else None) or own
