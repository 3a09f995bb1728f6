"""Fixtures of the tests that need a redis-server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.ratelimit import shared
from app.ratelimit.shared import SharedStorage
from tests.redis.server import RedisServer

MakeStorage = Callable[..., SharedStorage]


@pytest.fixture(autouse=True)
def timeout(monkeypatch: pytest.MonkeyPatch) -> float:
    """A busy machine may stop a healthy server for longer than a visitor waits; what it is that a visitor waits.

    Probes come soon after each other, so that a test notices at once what they find.
    """
    timeout = shared.TIMEOUT
    monkeypatch.setattr(shared, "TIMEOUT", 10.0)
    monkeypatch.setattr(shared, "PROBE_INTERVAL", 0.05)
    return timeout


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a server that does not answer, which is waited for in the test."""
    monkeypatch.setattr(shared, "TIMEOUT", 1.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


def end(storage: SharedStorage) -> None:
    """Ends a storage as its process does."""
    for loop in storage.loops:
        loop.stop()
    storage.close()


@pytest.fixture
def make_storage() -> Iterator[MakeStorage]:
    """Makes storages that have tried to connect; each stands for a process of its own."""
    storages = []

    def make(url: str, *, connections: int = 4) -> SharedStorage:
        storage = SharedStorage(url, connections=connections)
        storages.append(storage)
        for loop in storage.loops:
            loop.start()
            loop.first_done.wait(10)
        return storage

    yield make
    for storage in storages:
        end(storage)
