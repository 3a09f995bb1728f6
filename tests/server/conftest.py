"""The server that most tests of this folder share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.server.gunicorn import Server, serving

_CLIENTS = (f"127.0.{third}.{fourth}" for third, fourth in itertools.product(range(1, 256), range(1, 255)))


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("shared")) as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    """The service with its default settings, started once. Each test is a client at an address of its own."""
    return replace(shared_server, client=next(_CLIENTS))
