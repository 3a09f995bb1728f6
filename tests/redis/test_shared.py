"""The shared windows on a real server: as exact as those in the process, and out of nobody's way when it is gone."""

import itertools
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from app.ratelimit import shared
from app.ratelimit.shared import FAILURES_IN_A_ROW
from app.ratelimit.window import SECOND, Decision, Policy
from tests.mail.server import authority
from tests.ports import free_port
from tests.ratelimit.properties import (
    API,
    CONTACT,
    LimiterAgainstModel,
    address,
    assert_threads_get_exactly_the_quota,
)
from tests.redis.conftest import MakeStorage, probe
from tests.redis.server import RedisServer
from tests.waiting import wait_until

GENEROUS = 5 * SECOND
"""Time within which anything that does not hang has happened, however busy the machine is."""


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name.startswith("app.")]


def lost(error: str) -> tuple[int, str]:
    return logging.WARNING, f"the rate-limit storage is unreachable; this process limits on its own: {error}"


BACK = (logging.INFO, "the rate-limit storage is reachable again")
UNANSWERED = "the rate-limit storage did not decide one request; this process did"


@pytest.mark.parametrize("processes", [1, 2])
def test_any_sequence_of_requests_is_decided_as_the_model_does(
    processes: int, server: RedisServer, make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests reach the processes in turn. The server's time passes faster when all stamps are made older."""
    storages = [make_storage(f"redis+unix://{server.socket}") for _ in range(processes)]
    monotonic_ns = time.monotonic_ns

    class OnServerAgainstModel(LimiterAgainstModel):
        def begin(self, policy: Policy) -> None:
            server.admin.flushall()
            self.limiters = itertools.cycle([storage.limiter(policy) for storage in storages])
            self.passed = 0  # in microseconds, as the server counts
            monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic_ns() + self.passed * 1_000)

        def decide(self, client: bytes, *, hit: bool) -> Decision:
            limiter = next(self.limiters)
            decision = limiter.hit(client) if hit else limiter.peek(client)
            if decision.allowed:
                return decision
            # The server alone knows to the microsecond when the next request passes.
            confirmed = storages[0].decide(self.policy, client, "peek")
            assert confirmed is not None
            moment_has_come = decision.reset_after < GENEROUS and confirmed.allowed
            return decision if moment_has_come else confirmed

        def now(self) -> int:
            # The server reads this clock, too. Asking it would take longer than a decision does.
            return (time.time_ns() // 1_000 + self.passed) * 1_000

        def advance(self, nanoseconds: int) -> None:
            server.age(nanoseconds // 1_000)
            self.passed += nanoseconds // 1_000

    case = OnServerAgainstModel.TestCase
    # A decision of the server costs many times what one of the process costs.
    case.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=40)
    case("runTest").runTest()

    assert all(storage.is_reachable for storage in storages)


@pytest.mark.parametrize("policy", [CONTACT, API] * 5, ids=lambda policy: f"a quota of {policy.quota}")
def test_sixteen_threads_of_four_processes_on_one_client_get_exactly_the_quota(
    policy: Policy, server: RedisServer, make_storage: MakeStorage
) -> None:
    limiters = [make_storage(server.url).limiter(policy) for _ in range(4)]

    assert_threads_get_exactly_the_quota(limiters, address(1))


def test_each_policy_has_a_key_that_expires_when_the_newest_request_has_left_the_window(
    server: RedisServer, make_storage: MakeStorage
) -> None:
    storage = make_storage(server.url)
    limiter = storage.limiter(API)
    for _ in range(API.quota + 5):
        limiter.hit(address(1))
        limiter.peek(address(2))

    (key,) = server.admin.keys("*:0000000?")

    leaves = int(server.admin.lindex(key, -1)) + API.window_seconds * 1_000_000
    assert leaves <= server.admin.pexpiretime(key) * 1_000 < leaves + 1_000
    assert server.admin.llen(key) == API.quota
    assert storage.limiter(CONTACT).hit(address(1)).allowed


def test_a_clock_set_back_admits_nobody_early(server: RedisServer, make_storage: MakeStorage) -> None:
    storage, policy = make_storage(server.url), Policy(quota=2, window_seconds=30)
    storage.decide(policy, address(1), "hit")
    server.age(-3_600_000_000)

    last, refused = (storage.decide(policy, address(1), "hit") for _ in range(2))

    assert last == Decision(policy, allowed=True, remaining=0, reset_after=30 * SECOND)
    assert refused == Decision(policy, allowed=False, remaining=0, reset_after=30 * SECOND)


RIGHTS = "+evalsha +script +time +lindex +lpop +llen +rpush +pexpireat"
"""All that a user needs."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, authority_file: Path) -> Iterator[dict[str, Any]]:
    """A server that asks for a password, and the parts of its addresses."""
    directory, tls = tmp_path_factory.mktemp("guarded"), free_port()
    certificate = str(directory / "certificate.pem")
    authority().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    options = f"--tls-port {tls} --tls-cert-file {certificate} --tls-key-file {certificate} --tls-auth-clients no"
    with RedisServer(directory, *options.split()) as server:
        server.admin.config_set("requirepass", "s@cret")
        command = f"ACL SETUSER limiter on >s3cret ~public-web-interface:* {RIGHTS}"
        server.admin.execute_command(*command.split())
        on_port = f"127.0.0.1:{server.port}"
        addresses = {"port": on_port, "tls": f"localhost:{tls}", "socket": server.socket, "ca": authority_file}
        yield {"admin": server.admin} | addresses


ADDRESSES = {
    "redis://:s%40cret@{port}/3": "db3",
    "valkey://:s%40cret@{port}?db=3": "db3",
    "redis+unix://default:s%40cret@{socket}?db=3": "db3",
    "valkey+unix://default:s%40cret@{socket}": "db0",
    "redis://limiter:s3cret@{port}": "db0",
    "rediss://:s%40cret@{tls}?ssl_ca_certs={ca}": "db0",
    "valkeys://:s%40cret@{tls}?ssl_ca_certs={ca}": "db0",
    "rediss://:s%40cret@{tls}": "ConnectionError",
    "redis://:hunter2@{port}": "AuthenticationError",
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
    assert storage.is_reachable == is_database
    assert list(guarded["admin"].info("keyspace")) == ([result] if is_database else [])
    assert lines(caplog) == ([] if is_database else [lost(result)])


class Dns:
    """The DNS, which knows one name. Whoever asks for it waits while ``silent``."""

    NAME = "redis.example.com"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses = ["127.0.0.1"]
        self.silent = False
        self.askers: set[str] = set()
        self.over = threading.Event()
        self._ask = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.ask)
        monkeypatch.setattr(shared, "LOOKUP_TIMEOUT", 0.1)

    def ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        if name != self.NAME:
            return self._ask(name, *arguments, **options)
        self.askers.add(threading.current_thread().name)
        if self.silent:
            self.over.wait(60)
        return [each for address in self.addresses for each in self._ask(address, *arguments, **options)]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    dns = Dns(monkeypatch)
    yield dns
    dns.over.set()


def test_no_request_waits_for_the_dns(tmp_path: Path, dns: Dns, make_storage: MakeStorage) -> None:
    dns.silent = True
    with RedisServer(tmp_path) as server:
        storage = make_storage(f"redis://{dns.NAME}:{server.port}")
        limiter = storage.limiter(API)
        unknown = [storage.is_reachable, limiter.hit(address(1)).remaining]
        dns.over.set()
        wait_until(lambda: "resolver" not in {thread.name for thread in threading.enumerate()})
        dns.over.clear()
        dns.askers.clear()
        for _ in range(2):
            probe(storage)  # the first one has the answer that came too late for the one before
        server.admin.client_kill_filter(_type="normal", skipme=True)
        known = [storage.is_reachable, limiter.hit(address(1)).remaining]

    assert unknown == [False, API.quota - 1]
    assert known == [True, API.quota - 1], "the first that the server counts"
    assert dns.askers == set()


MOVES = {
    "to another address": (["127.0.0.2"], ["127.0.0.1"]),
    "to one of several": (["127.0.0.2"], ["127.0.0.2", "127.0.0.1"]),
}


@pytest.mark.parametrize(("before", "after"), MOVES.values(), ids=MOVES)
def test_a_server_that_has_moved_is_found(
    tmp_path: Path, dns: Dns, make_storage: MakeStorage, before: list[str], after: list[str]
) -> None:
    dns.addresses = before
    with RedisServer(tmp_path) as server:
        storage = make_storage(f"redis://{dns.NAME}:{server.port}")
        unreachable = storage.is_reachable
        dns.addresses = after
        probe(storage)

        assert (unreachable, storage.is_reachable) == (False, True)
        assert storage.limiter(API).hit(address(1)).remaining == API.quota - 1


def test_a_server_is_left_for_the_one_that_has_taken_over(
    tmp_path_factory: pytest.TempPathFactory, dns: Dns, make_storage: MakeStorage
) -> None:
    old, new = (RedisServer(tmp_path_factory.mktemp("redis")) for _ in range(2))
    new.port, new.bind = old.port, "127.0.0.2"
    with old, new:
        storage = make_storage(f"redis://{dns.NAME}:{old.port}")
        old.admin.replicaof("127.0.0.2", new.port)
        dns.addresses = ["127.0.0.2"]
        for _ in range(2):  # the first one fails, the second one looks up
            probe(storage)
        storage.limiter(API).hit(address(1))

        assert len(new.admin.keys("*:00000001")) == 1


def test_a_server_that_comes_back_while_the_dns_is_silent_is_found(
    tmp_path: Path, dns: Dns, make_storage: MakeStorage
) -> None:
    with RedisServer(tmp_path) as server:
        storage = make_storage(f"redis://{dns.NAME}:{server.port}")
        dns.silent = True
        server.kill()
        for _ in range(FAILURES_IN_A_ROW):
            probe(storage)
        unreachable = storage.is_reachable
        server.start()
        probe(storage)

    assert (unreachable, storage.is_reachable) == (False, True)


Fault = Callable[[RedisServer], object]


def does(command: str) -> Fault:
    return lambda server: server.admin.execute_command(*command.split())


FAULTS: dict[str, tuple[Fault, str, Fault]] = {
    "killed": (RedisServer.kill, "ConnectionError", RedisServer.start),
    "hanging": (RedisServer.pause, "TimeoutError", RedisServer.resume),
    "a replica that takes no writes": (does("REPLICAOF 127.0.0.1 1"), "ReadOnlyError", does("REPLICAOF NO ONE")),
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
) -> None:
    caplog.set_level(logging.INFO)
    with RedisServer(tmp_path) as server:
        storage, other = (make_storage(f"redis+unix://{server.socket}") for _ in range(2))
        limiter, api, elsewhere = storage.limiter(CONTACT), storage.limiter(API), other.limiter(API)
        for _ in range(API.quota - 1):
            elsewhere.hit(address(1))
        by_all = [each.hit(address(1)) for each in (limiter, api)]

        break_it(server)
        first = limiter.hit(address(2)).allowed
        for _ in range(FAILURES_IN_A_ROW + 1):
            probe(storage)
        own = [limiter.hit(address(2)).allowed for _ in range(100)]
        spent = [each.hit(address(1)).allowed for each in (limiter, api)]
        asked = storage.decide(CONTACT, address(1), "peek")  # a replica would answer
        said = lines(caplog)
        repair(server)
        probe(storage)

        assert [(decision.allowed, decision.remaining) for decision in by_all] == [(True, 0), (True, 0)]
        assert first
        assert own == [False] * 100
        assert spent == [False, False], "the loss gives nothing back"
        assert asked is None, "a server that is unreachable is not asked"
        assert said == [lost(error)]
        assert lines(caplog) == [*said, BACK]
        assert [limiter.hit(address(number)).allowed for number in (1, 2, 3)] == [False, False, True], "nor the return"
        assert server.admin.keys("*:00000003")


@pytest.mark.usefixtures("_impatient")
def test_one_late_answer_decides_one_request_here_and_takes_nothing_out_of_use(
    server: RedisServer, make_storage: MakeStorage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    storage = make_storage(server.url)
    elsewhere, limiter = make_storage(server.url).limiter(API), storage.limiter(API)
    for _ in range(9):
        elsewhere.hit(address(1))
    limiter.hit(address(1))

    server.pause()
    late = limiter.hit(address(1))
    server.resume()

    assert late.remaining == 60 - 2, "what this process has seen"
    assert limiter.hit(address(1)).remaining == 60 - 12, "what the server has counted"
    assert storage.is_reachable
    assert lines(caplog) == [(logging.DEBUG, UNANSWERED)]


def test_a_probe_has_a_connection_of_its_own(server: RedisServer, make_storage: MakeStorage) -> None:
    storage = make_storage(server.url)
    pool: Any = storage._pool
    held = [pool.get_connection() for _ in range(4)]  # as many requests as there are threads
    for _ in range(FAILURES_IN_A_ROW):
        probe(storage)

    assert storage.is_reachable
    for connection in held:
        pool.release(connection)


def test_three_failed_probes_in_a_row_are_a_loss_that_is_said_once(
    tmp_path: Path, make_storage: MakeStorage, caplog: pytest.LogCaptureFixture
) -> None:
    said = []
    with RedisServer(tmp_path) as server:
        storage = make_storage(server.url)
        for failures in (2, 2, 3):
            server.admin.config_set("maxmemory", 1)
            for _ in range(failures):
                probe(storage)
            said.append(lines(caplog))
            server.admin.config_set("maxmemory", 0)
            probe(storage)

    assert said == [[], [], [lost("OutOfMemoryError")]]
