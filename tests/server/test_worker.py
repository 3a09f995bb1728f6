"""What is logged when something around the app fails."""

from __future__ import annotations

import http.client
import sys
from pathlib import Path

import pytest

from tests.server.gunicorn import serving

SECRET = "ana@example.com"

BROKEN = """
from wsgi import app


def broken(environ, start_response):
    if environ["PATH_INFO"] == "/broken":
        raise RuntimeError(environ["QUERY_STRING"])
    if environ["PATH_INFO"] == "/cut":
        start_response("200 OK", [("Content-Length", "100")])(b"a")
        raise RuntimeError(environ["QUERY_STRING"])
    return app(environ, start_response)
"""


def test_an_application_around_the_app_that_fails_logs_no_text(tmp_path: Path) -> None:
    (tmp_path / "around.py").write_text(BROKEN)
    command = (sys.executable, "-m", "gunicorn", "around:broken")
    with serving(tmp_path, command=command, PYTHONPATH=str(tmp_path)) as server:
        response, _ = server.request("GET", f"/broken?email={SECRET}")
        with pytest.raises(http.client.IncompleteRead):
            server.request("GET", f"/cut?email={SECRET}")

    assert response.status == 500
    assert server.log.count("unforeseen RuntimeError in None") == 2
    assert SECRET not in server.log
