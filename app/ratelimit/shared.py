"""Exact sliding windows on a Redis or Valkey server, shared by processes and machines.

A script on the server makes each decision in one round trip, and all processes use the server's clock.
redis-py parses the URL, pools the connections (to Valkey, too) and sends the script.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis

from app.background import Loop
from app.ratelimit.window import Decision, Policy, SlidingWindow, Storage
from app.resolver import Resolver
from app.settings import SettingsError

TIMEOUT = 0.045  # seconds that a request waits for a free connection, for a new one, and for each reply
PROBE_INTERVAL = 1.0  # seconds between two probes, both while the server is reachable and while it is not
FAILURES_IN_A_ROW = 3  # failed probes after which the server counts as unreachable
LOOKUP_TIMEOUT = 1.0  # seconds that a probe waits for the DNS

ACCEPTED_URL = (
    "a URL that the redis library understands: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss:// for TLS,"
    " redis+unix://[USER:PASSWORD@]/PATH, or valkey:// in place of redis://"
)
"""The values of RATE_LIMIT_STORAGE. Options in its query take precedence over those that are set here."""

_SCHEMES = {"valkey": "redis", "valkeys": "rediss", "redis+unix": "unix", "valkey+unix": "unix"}  # as redis-py has them

_PROBE = Policy(quota=1_000_000, window_seconds=1)
"""The policy of probes, which refuses none. A probe counts as a request does, so the server must accept writes."""

_SCRIPT = """
local key, quota, window = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function oldest() return tonumber(redis.call('LINDEX', key, 0)) or now end
while oldest() <= now - window do redis.call('LPOP', key) end
local count = redis.call('LLEN', key)
local allowed = count < quota
if allowed and ARGV[3] == 'hit' then
    count = redis.call('RPUSH', key, now)
    redis.call('PEXPIREAT', key, math.ceil((now + window) / 1000))
end
return {allowed and 1 or 0, quota - count, math.min(oldest() - now, 0) + window}
"""
"""Decides by the server's clock, in microseconds, which a Lua number holds exactly. A client's key is the list of the
times of its counted requests; it expires when the newest leaves the window. After the clock was set back, older times
are ahead of it and stay longer than a window: the client may wait too long, but never passes early."""

_LOST = "the rate-limit storage is unreachable; this process limits on its own: %s"

logger = logging.getLogger(__name__)


class _Connection(redis.Connection):
    """A connection to one of these addresses; redis-py itself would look the name up, without a time-out."""

    addresses: Sequence[str] = ()

    def _connect(self) -> Any:
        name, failure = self.host, OSError("no address is known")
        try:
            for address in self.addresses:
                self.host = address
                try:
                    return super()._connect()  # type: ignore[no-untyped-call]
                except OSError as error:
                    failure = error
            raise failure
        finally:
            self.host = name  # TLS compares it with the certificate


class _TlsConnection(redis.SSLConnection, _Connection):
    """The same, within TLS."""


_CONNECTIONS: dict[str, type[_Connection]] = {"redis": _Connection, "rediss": _TlsConnection}
"""The connections of the schemes whose URL names a host."""


class SharedStorage(Storage):
    """A pool of connections to the server, and a thread that probes every PROBE_INTERVAL whether it is reachable.

    When a reply is late or an error, the process decides that one request itself. After FAILURES_IN_A_ROW
    failed probes the process decides all requests, without asking the server, until a probe succeeds. Only probes look
    the server's name up.
    """

    name = "redis"

    def __init__(self, url: str, *, connections: int) -> None:
        """``connections`` is the number of threads using it; raises SettingsError when redis-py rejects the URL."""
        options: dict[str, Any] = {
            "max_connections": connections + 1,  # one is for the probe
            "timeout": TIMEOUT,
            "socket_timeout": TIMEOUT,
            "socket_connect_timeout": TIMEOUT,
            "protocol": 2,  # RESP3 lets the server extend redis-py's timeouts
        }
        scheme, separator, rest = url.partition("://")
        scheme = _SCHEMES.get(scheme, scheme)
        if scheme in _CONNECTIONS:
            options["connection_class"] = type("Connection", (_CONNECTIONS[scheme],), {})  # with addresses of its own
        try:
            self._pool = redis.BlockingConnectionPool.from_url(f"{scheme}{separator}{rest}", **options)
            # Raises when an option in the URL is unknown.
            example = self._pool.connection_class(**self._pool.connection_kwargs)
        except Exception as error:
            raise SettingsError([f"RATE_LIMIT_STORAGE=(hidden): expected {ACCEPTED_URL}"]) from error
        self._resolver = Resolver(example.host, example.port) if scheme in _CONNECTIONS else None
        self._script = redis.Redis(connection_pool=self._pool).register_script(_SCRIPT)
        self.is_reachable = False
        self._failures = FAILURES_IN_A_ROW - 1  # so that a failed first probe is logged at once
        self.loops = (Loop("rate-limit-storage", self._probe),)

    def limiter(self, policy: Policy) -> SlidingWindow:
        """A limiter that keeps its windows on the server, apart from those of other policies."""
        return SharedWindow(self, policy)

    def close(self) -> None:
        """Close the connections."""
        self._pool.disconnect()

    def decide(self, policy: Policy, client: bytes, operation: str) -> Decision | None:
        """The server's decision on a ``hit`` or a ``peek``; None when it makes none. Never raises."""
        try:
            return self._ask(policy, client, operation) if self.is_reachable else None
        except Exception:  # noqa: BLE001 - the client gets a response, whatever fails here
            logger.debug("the rate-limit storage did not decide one request; this process did")
            return None

    def _ask(self, policy: Policy, client: bytes, operation: str) -> Decision:
        key = f"public-web-interface:{policy.quota}/{policy.window_seconds}:{client.hex()}"
        arguments: list[int | str] = [policy.quota, policy.window_seconds * 1_000_000, operation]
        allowed, remaining, microseconds = self._script([key], arguments)
        return Decision(policy, bool(allowed), remaining, microseconds * 1_000)

    def _probe(self) -> float:
        """Probe the server and log a change before it takes effect; returns the seconds until the next time."""
        if self._failures:  # also when the server may have moved
            self._look_up()
        try:
            # A new key each time: a server out of memory lets a script add after it has removed something.
            self._ask(_PROBE, os.urandom(8), "hit")
        except Exception as error:  # noqa: BLE001 - any failure is a result, and the thread must go on
            self._failures += 1
            if self._failures == FAILURES_IN_A_ROW:
                logger.warning(_LOST, type(error).__name__)  # its text may hold a key or an address
                self.is_reachable = False
        else:
            if self._failures >= FAILURES_IN_A_ROW:
                logger.info("the rate-limit storage is reachable again")
            self._failures, self.is_reachable = 0, True
        return PROBE_INTERVAL

    def _look_up(self) -> None:
        """Find the server's addresses. Without an answer of the DNS, those that are known stay."""
        if self._resolver:
            with suppress(OSError):
                found = [address[0] for *_, address in self._resolver.addresses(LOOKUP_TIMEOUT)]
                if found != self._pool.connection_class.addresses:
                    self._pool.connection_class.addresses = found
                    self._pool.disconnect(inuse_connections=False)  # the old server may live on, as a replica


class SharedWindow(SlidingWindow):
    """A limiter that is exact over all processes that share the server.

    A request passes when both the window of this process and the one on the server admit it. The former always counts,
    so a client regains no quota when the server fails or returns. While the server makes no decision, the former
    decides alone, and other processes do not know of the requests it admits then.
    """

    def __init__(self, storage: SharedStorage, policy: Policy) -> None:
        super().__init__(policy)
        self._storage = storage

    def hit(self, client: bytes) -> Decision:
        """Count a request, unless the quota refuses it."""
        # This window counts before the server does. So a request leaves this window first, and this window refuses
        # nothing that the server would admit. Requests without a decision yet are counted, too.
        own = super().hit(client)
        shared = self._storage.decide(self.policy, client, "hit") if own.allowed else None
        if shared:
            self.learn(client, shared)
        return shared or own

    def peek(self, client: bytes) -> Decision:
        """Decide as ``hit`` would, without counting a request."""
        own = super().peek(client)
        return (self._storage.decide(self.policy, client, "peek") if own.allowed else None) or own
