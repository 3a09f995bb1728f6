"""The services that the generated clients call, and what became of the calls."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from tests.clients.calls import CALLS
from tests.clients.tool import Tool, run
from tests.factories import SUNSET
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server, serving

networks = (f"198.18.{number}" for number in itertools.count())


class Services(NamedTuple):
    live: Server
    retired: Server
    """Its v1 is past its sunset."""
    mailless: Server
    """Its mail server is down."""


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with SmtpServer() as down:
        pass
    with ExitStack() as stack:
        yield Services(
            *(
                stack.enter_context(serving(tmp_path_factory.mktemp(name), TRUSTED_PROXIES="1", **environ))
                for name, environ in {"live": {}, "retired": SUNSET, "mailless": down.environ}.items()
            )
        )


@pytest.fixture(scope="session")
def outcomes(
    request: pytest.FixtureRequest, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the program of a tool prints, run once."""
    tool: Tool = request.param
    folder = tmp_path_factory.mktemp("client")
    response, document = services.live.request("GET", "/openapi.json")
    assert response.status == 200
    (folder / "openapi.json").write_bytes(document)
    command = tool.prepare(folder)
    addresses = (f"http://127.0.0.1:{service.port}" for service in services)
    printed: dict[str, Any] = json.loads(run([*command, *addresses, next(networks)], folder))
    assert printed.keys() == CALLS.keys()
    return printed
