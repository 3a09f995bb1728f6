"""Fixtures of the tests that need a redis-server."""

from collections.abc import Callable, Iterator

import pytest

from app.ratelimit import shared
from app.ratelimit.shared import SharedStorage
from tests.redis.server import RedisServer

MakeStorage = Callable[[str], SharedStorage]


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may stop a healthy server for longer than a visitor waits. Probes come when a test wants one."""
    monkeypatch.setattr(shared, "TIMEOUT", 10.0)
    monkeypatch.setattr(shared, "PROBE_INTERVAL", 3600.0)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a server that does not answer, which is waited for in the test."""
    monkeypatch.setattr(shared, "TIMEOUT", 1.0)


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """The server of the tests that change none of its settings, started once and empty."""
    shared_server.admin.flushall()
    return shared_server


def probe(storage: SharedStorage) -> None:
    """Let the storage look once whether the server counts."""
    for loop in storage.loops:
        loop.first_done.clear()
        loop.wake()
        assert loop.first_done.wait(30)


@pytest.fixture
def make_storage() -> Iterator[MakeStorage]:
    """Makes storages that have tried to connect; each stands for a process of its own."""
    storages = []

    def make(url: str) -> SharedStorage:
        storage = SharedStorage(url, connections=4)
        storages.append(storage)
        for loop in storage.loops:
            loop.start()
            loop.first_done.wait(10)
        return storage

    yield make
    for storage in storages:
        for loop in storage.loops:
            loop.stop()
        storage.close()
