"""The worst inputs are answered, and so is the client beside them; how long that takes decides nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from app.api.body import MAX_BODY_BYTES
from tests.attack.delay import measure
from tests.attack.inputs import BODIES, REQUESTS
from tests.server.gunicorn import Server, serving

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("delay"), TRUSTED_PROXIES="1") as server:
        yield server
        assert "unforeseen" not in server.log


@pytest.mark.parametrize("name", REQUESTS)
def test_the_worst_inputs_are_answered_beside_another_client(server: Server, name: str) -> None:
    (measurement,) = measure(server.connect, {name: REQUESTS[name]}, repetitions=1)

    assert measurement.status in {200, 400, 404}
    assert math.isfinite(max(measurement.delays))


@pytest.mark.parametrize("name", BODIES)
def test_no_body_is_refused_for_its_length(name: str) -> None:
    _, body = BODIES[name]

    assert len(body) <= MAX_BODY_BYTES
