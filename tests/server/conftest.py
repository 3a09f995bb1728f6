"""The server that most tests of this folder share."""

from collections.abc import Iterator

import pytest

from tests.server.gunicorn import Server, serving


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("shared")) as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    """The service with its default settings, started once. Each test is a client at an address of its own."""
    return shared_server.new_client()
