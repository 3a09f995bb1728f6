"""Extensions that fail: the client has its answer, and no log has what a visitor sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.client import validate_response
from tests.server.gunicorn import GUNICORN, Server, serving

SENT = "ana@example.com"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    command = (*GUNICORN, "tests.server.failing:app")
    with serving(tmp_path_factory.mktemp("failing"), command=command, LOG_LEVEL="debug") as server:
        yield server


@pytest.mark.parametrize(
    "place", ["before_request", "after_request", "teardown_request", "middleware before", "middleware after"]
)
def test_what_fails_is_answered_and_logged_once_without_what_was_sent(server: Server, place: str) -> None:
    before = server.log

    response, body = server.request("GET", f"/api?q={SENT}", headers={"X-Fail": place})

    assert response.status == 500
    assert json.loads(body)["error"]["code"] == "internal_error"
    validate_response("GET", "/api", response.status, response.headers.items(), body)
    log = server.log.removeprefix(before)
    assert len(re.findall(r"INFO app\.request .* 500 internal_error ", log)) == 1
    assert "ConnectionResetError" in log
    assert "failing.py" in log
    assert SENT not in log
