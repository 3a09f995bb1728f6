"""The shared windows on a real server: as exact as those in the process, and out of nobody's way when it is gone."""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest
import redis
from hypothesis import settings

from app.ratelimit import shared
from app.ratelimit.shared import SharedStorage
from app.ratelimit.window import SECOND, Decision, Policy
from tests.ports import free_port
from tests.ratelimit.properties import (
    API,
    CONTACT,
    LimiterAgainstModel,
    address,
    assert_exactly_the_quota_was_admitted,
    hit_from_threads,
)
from tests.redis.conftest import MakeStorage, end
from tests.redis.server import Fault, RedisServer, Way, tls_options, way_to
from tests.waiting import wait_until

POLICIES = pytest.mark.parametrize("policy", [CONTACT, API], ids=["contact", "api"])
GENEROUS = 5.0
"""Seconds within which anything that does not hang has happened, however busy the machine is."""


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name.startswith("app.")]


def lost(error: str) -> tuple[int, str]:
    return logging.WARNING, f"the storage of the rate limits is out of reach, this process limits by itself: {error}"


BACK = (logging.INFO, "the storage of the rate limits is back in reach")
UNANSWERED = "the storage of the rate limits left one request without an answer, this process decided it"


class OnServer:
    """Processes that get the requests in turn, on a server whose time passes faster when all stamps are made older."""

    def __init__(self, policy: Policy, storages: list[SharedStorage], server: RedisServer) -> None:
        server.admin.flushall()
        self._server, self._storage, self._policy = server, storages[0], policy
        self._processes = itertools.cycle([storage.limiter(policy) for storage in storages])
        self._passed = 0
        self._patch = pytest.MonkeyPatch()
        monotonic_ns = time.monotonic_ns
        self._patch.setattr(time, "monotonic_ns", lambda: monotonic_ns() + self._passed * 1_000)

    @property
    def limiter(self) -> OnServer:
        return self

    def hit(self, client: bytes) -> Decision:
        return self._confirmed(next(self._processes).hit(client), client)

    def peek(self, client: bytes) -> Decision:
        return self._confirmed(next(self._processes).peek(client), client)

    def _confirmed(self, decision: Decision, client: bytes) -> Decision:
        """A refusal in the words of the server, which alone knows to the microsecond when the next request passes."""
        if decision.allowed:
            return decision
        confirmed = self._storage.decide(self._policy, client, "peek")
        assert confirmed is not None
        moment_has_come = decision.reset_after < GENEROUS * SECOND and confirmed.allowed
        return decision if moment_has_come else confirmed

    def now(self) -> int:
        # The server reads this clock, too, in whole microseconds. Asking it would take longer than a decision does.
        return (time.time_ns() // 1_000 + self._passed) * 1_000

    def advance(self, nanoseconds: int) -> None:
        self._server.age(nanoseconds // 1_000)
        self._passed += nanoseconds // 1_000

    def close(self) -> None:
        self._patch.undo()


@pytest.mark.parametrize("processes", [1, 2])
def test_any_sequence_of_requests_is_decided_as_the_model_does(
    processes: int, server: RedisServer, make_storage: MakeStorage
) -> None:
    storages = [make_storage(f"redis+unix://{server.socket}") for _ in range(processes)]

    class OnServerAgainstModel(LimiterAgainstModel):
        def make_subject(self, policy: Policy) -> OnServer:
            return OnServer(policy, storages, server)

    case = OnServerAgainstModel.TestCase
    # A decision of the server costs many times what one of the process costs.
    case.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=40)
    case("runTest").runTest()

    assert all(storage.in_reach for storage in storages)


@POLICIES
def test_sixteen_threads_of_four_processes_on_one_client_admit_exactly_the_quota(
    policy: Policy, server: RedisServer, make_storage: MakeStorage
) -> None:
    limiters = [make_storage(server.url).limiter(policy) for _ in range(4)]

    for number in range(20):
        decisions = hit_from_threads(limiters, address(number))

        assert_exactly_the_quota_was_admitted(policy, decisions)


@POLICIES
def test_each_policy_has_a_key_that_expires_when_the_newest_request_has_left_the_window(
    policy: Policy, server: RedisServer, make_storage: MakeStorage
) -> None:
    storage = make_storage(server.url)
    limiter = storage.limiter(policy)
    for _ in range(policy.quota + 5):
        limiter.hit(address(1))
        limiter.peek(address(2))

    (key,) = server.admin.keys("*:0000000?")

    newest = int(server.admin.lindex(key, -1))
    leaves = newest + policy.window_seconds * 1_000_000
    assert leaves <= server.admin.pexpiretime(key) * 1_000 < leaves + 1_000
    assert server.admin.llen(key) == policy.quota
    assert storage.limiter(CONTACT if policy == API else API).hit(address(1)).allowed


def test_a_clock_set_back_admits_nobody_early(server: RedisServer, make_storage: MakeStorage) -> None:
    storage, policy = make_storage(server.url), Policy(quota=2, window_seconds=30)
    storage.decide(policy, address(1), "hit")
    server.age(-3_600_000_000)

    last, refused = (storage.decide(policy, address(1), "hit") for _ in range(2))

    assert last == Decision(policy, allowed=True, remaining=0, reset_after=30 * SECOND)
    assert refused == Decision(policy, allowed=False, remaining=0, reset_after=30 * SECOND)


def test_a_process_that_ends_takes_its_leave(server: RedisServer, make_storage: MakeStorage) -> None:
    def connected() -> set[str]:
        return {client["id"] for client in server.admin.client_list()}

    others = connected()
    storage = make_storage(server.url)
    storage.limiter(API).hit(address(1))
    assert connected() - others

    end(storage)

    wait_until(lambda: connected() <= others)


@pytest.mark.usefixtures("_unprobed")
def test_a_decision_is_one_round_trip(server: RedisServer, make_storage: MakeStorage) -> None:
    limiter = make_storage(server.url).limiter(API)
    commands = []
    with redis.Redis(port=server.port) as marker:
        marker.ping()  # how it greets the server depends on its release
        with server.admin.monitor() as monitor:
            limiter.hit(address(1))
            limiter.peek(address(1))
            marker.ping()
            while (entry := monitor.next_command())["command"] != "PING":
                if entry["client_type"] != "lua":
                    commands.append(entry["command"].split()[0])

    assert commands == ["EVALSHA", "EVALSHA"]


RIGHTS = "+evalsha +script +time +lindex +lpop +llen +rpush +pexpireat"
"""All that a user needs."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A server that asks for a password, and the parts of its addresses."""
    directory = tmp_path_factory.mktemp("guarded")
    options, ca = tls_options(directory)
    tls = free_port()
    with RedisServer(directory, *options, "--tls-port", str(tls)) as server:
        server.admin.config_set("requirepass", "s@cret")
        command = f"ACL SETUSER limiter on >s3cret ~public-web-interface:* {RIGHTS}"
        server.admin.execute_command(*command.split())
        on_port = f"127.0.0.1:{server.port}"
        yield {"admin": server.admin, "port": on_port, "tls": f"127.0.0.1:{tls}", "socket": server.socket, "ca": ca}


ADDRESSES = {
    "redis://:s%40cret@{port}": "db0",
    "redis://:s%40cret@{port}/3": "db3",
    "valkey://:s%40cret@{port}/3": "db3",
    "redis://:s%40cret@{port}?db=3": "db3",
    "redis+unix://default:s%40cret@{socket}?db=3": "db3",
    "valkey+unix://default:s%40cret@{socket}?db=3": "db3",
    "redis://limiter:s3cret@{port}": "db0",
    "rediss://:s%40cret@{tls}?ssl_ca_certs={ca}": "db0",
    "valkeys://:s%40cret@{tls}?ssl_ca_certs={ca}": "db0",
    "redis://:hunter2@{port}": "AuthenticationError",
    "rediss://:s%40cret@{tls}": "ConnectionError",
    "valkeys://:s%40cret@{tls}": "ConnectionError",
}
"""The database that counts, or the error that is said: its class alone, for its text could show the password."""


@pytest.mark.parametrize(("url", "result"), ADDRESSES.items(), ids=ADDRESSES)
def test_an_address(
    guarded: dict[str, Any], make_storage: MakeStorage, caplog: pytest.LogCaptureFixture, url: str, result: str
) -> None:
    guarded["admin"].flushall()

    storage = make_storage(url.format(**guarded))
    storage.limiter(API).hit(address(1))

    is_database = result.startswith("db")
    assert storage.in_reach == is_database
    assert list(guarded["admin"].info("keyspace")) == ([result] if is_database else [])
    assert lines(caplog) == ([] if is_database else [lost(result)])


def does(command: str) -> Fault:
    return lambda server: server.admin.execute_command(*command.split())


def run_out_of_memory(server: RedisServer) -> None:
    time.sleep(1.2)  # until the first probes have left their window: what expires makes room for others
    server.admin.config_set("maxmemory", "1")


FAULTS: dict[str, tuple[Fault, str, Fault]] = {
    "killed": (RedisServer.kill, "ConnectionError", RedisServer.start),
    "hanging": (RedisServer.pause, "TimeoutError", RedisServer.resume),
    "a replica that takes no writes": (does("REPLICAOF 127.0.0.1 1"), "ReadOnlyError", does("REPLICAOF NO ONE")),
    "out of memory": (run_out_of_memory, "OutOfMemoryError", does("CONFIG SET maxmemory 0")),
    "no permission": (does("ACL SETUSER default -rpush"), "ResponseError", does("ACL SETUSER default +rpush")),
}
"""What befalls the server, what is said of it, and what mends it."""


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("break_it", "error", "repair"), FAULTS.values(), ids=FAULTS)
def test_the_process_limits_by_itself_until_the_server_is_back(
    break_it: Fault,
    error: str,
    repair: Fault,
    tmp_path: Path,
    make_storage: MakeStorage,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(shared, "PROBE_INTERVAL", 0.01)
    with RedisServer(tmp_path) as server:
        storage = make_storage(f"redis+unix://{server.socket}")
        limiter = storage.limiter(CONTACT)
        by_all = limiter.hit(address(1)).allowed

        break_it(server)
        own = [limiter.hit(address(2)).allowed for _ in range(100)]
        spent = limiter.hit(address(1))
        wait_until(lambda: not storage.in_reach)
        time.sleep(0.3)  # for many a look at the server that must not take it for repaired
        said = lines(caplog)
        repair(server)
        wait_until(lambda: storage.in_reach)

        assert by_all
        assert own == [True] + [False] * 99
        assert not spent.allowed, "the loss gives nothing back"
        assert said == [lost(error)]
        assert lines(caplog) == [*said, BACK]
        assert [limiter.hit(address(number)).allowed for number in (1, 2, 3)] == [False, False, True], "nor the return"
        assert server.admin.keys("*:00000003")


def test_connections_that_it_has_closed_cost_no_request(
    server: RedisServer, make_storage: MakeStorage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    storage = make_storage(server.url)
    limiter = storage.limiter(API)
    limiter.hit(address(1))

    server.admin.client_kill_filter(_type="normal", skipme=True)
    (key,) = server.admin.keys("*:00000001")
    decisions = [limiter.hit(address(1)).remaining for _ in range(4)]

    assert decisions == [58, 57, 56, 55]
    assert server.admin.llen(key) == 5
    assert storage.in_reach
    assert lines(caplog) == []


def test_a_name_that_takes_forever_to_resolve_keeps_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = threading.Event()

    def hang(*_: object, **__: object) -> NoReturn:
        resolved.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    storage = SharedStorage("redis://cache.example.com", connections=1)
    for loop in storage.loops:
        loop.start()
    with ThreadPoolExecutor() as threads:
        try:
            decision = threads.submit(storage.limiter(CONTACT).hit, address(1)).result(GENEROUS)
        finally:
            resolved.set()
            end(storage)

    assert decision.allowed


CLIENT = f":{address(1).hex()}".encode()
PROBE = b":1000000/1:"
"""What only questions about the client hold, and only those of the thread that probes."""


@pytest.fixture
def way(server: RedisServer) -> Iterator[Way]:
    with way_to(server) as way:
        yield way


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("operation", "here", "counted"), [("hit", 2, 11), ("peek", 1, 10)])
def test_one_late_answer_decides_one_request_here_and_takes_nothing_out_of_use(
    operation: str, here: int, counted: int, way: Way, make_storage: MakeStorage, caplog: pytest.LogCaptureFixture
) -> None:
    """What this process has seen by then, and what the server has counted: a peek counts nothing."""
    caplog.set_level(logging.DEBUG)
    storage = make_storage(way.url)
    elsewhere, limiter = make_storage(way.url).limiter(API), storage.limiter(API)
    for _ in range(9):
        elsewhere.hit(address(1))
    limiter.hit(address(1))

    way.hold(CLIENT)
    late = getattr(limiter, operation)(address(1))

    assert late.remaining == 60 - here
    assert limiter.hit(address(1)).remaining == 60 - (counted + 1)
    assert storage.in_reach
    assert lines(caplog) == [(logging.DEBUG, UNANSWERED)]


@pytest.mark.usefixtures("_unprobed")
def test_each_thread_and_the_probe_have_a_connection_and_who_finds_none_decides_here(
    server: RedisServer, way: Way, make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "TIMEOUT", 0.05)
    storage = make_storage(f"{way.url}?socket_timeout=60&socket_connect_timeout=60", connections=2)
    limiter = storage.limiter(API)

    way.hold(CLIENT, times=3)
    with ThreadPoolExecutor() as threads:
        held = [threads.submit(limiter.hit, address(1)) for _ in range(3)]
        wait_until(lambda: way.is_done)
        try:
            # The pool of redis-py by itself would make each wait for 20 s.
            others = [threads.submit(limiter.hit, address(1)).result(GENEROUS).remaining for _ in range(2)]
            (key,) = server.admin.keys("*:00000001")
            counted = server.admin.llen(key)
        finally:
            way.release()

    assert others == [56, 55]
    assert counted == 3, "the server has not heard of the others"
    assert sorted(hit.result().remaining for hit in held) == [57, 58, 59]
    assert storage.in_reach


def test_three_failed_probes_in_a_row_are_a_loss_that_is_said_once(
    server: RedisServer, way: Way, make_storage: MakeStorage, caplog: pytest.LogCaptureFixture
) -> None:
    make_storage(way.url)
    said = []

    for failures in (2, 2, 3):
        way.spoil(PROBE, times=failures)
        wait_until(lambda: way.is_done)
        server.admin.flushall()
        wait_until(lambda: server.admin.keys("*:1000000/1:*"))  # one has succeeded since
        said.append(lines(caplog))

    assert said == [[], [], [lost("OutOfMemoryError")]]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("missed", [1, 59, 60, 61, 90])
def test_several_processes_admit_the_quota_and_at_most_one_more(
    processes: int, missed: int, way: Way, make_storage: MakeStorage
) -> None:
    """The server counts a request whose answer gets lost, so the sum stays the quota as long as it is not spent.

    One too many may pass when the quota is spent and the process has not heard of it: since the server last
    answered it about this client, other processes have used up the rest. A process that has heard of it asks no
    more. So one lost answer admits one request too many at most, and only right after the quota was spent.
    """
    limiters = itertools.cycle([make_storage(way.url).limiter(API) for _ in range(processes)])

    admitted = 0
    for number in range(1, 200):
        if number == missed:
            way.spoil(CLIENT)
        admitted += next(limiters).hit(address(1)).allowed

    assert 60 <= admitted <= (61 if missed == 61 and processes > 1 else 60)
