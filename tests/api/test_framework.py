"""What the application leaves of Flask's dispatch."""

from __future__ import annotations

import json
from typing import NoReturn, cast

import pytest
from flask import Request
from werkzeug.test import Client

from app.api.framework import Application, Response
from tests.conftest import MakeApp


@pytest.mark.parametrize("name", ["a", "<name>"])
def test_a_path_with_a_parameter_is_served_too(make_app: MakeApp, name: str) -> None:
    app = make_app()

    @app.get("/things/<name>")
    def get_thing(name: str) -> Response:
        return Response(name.encode())

    # The app's own test client takes only what the document describes.
    assert Client(app).get(f"/things/{name}").text == name


def test_a_hook_that_always_fails_leaves_the_envelope(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    app = cast("Application", make_app())

    def fail(_request: Request, _response: Response) -> NoReturn:
        raise ZeroDivisionError

    app.after = fail

    response = Client(app).get("/api/v1/health")

    assert response.status_code == 500
    assert json.loads(response.data)["error"]["code"] == "internal_error"
    assert "ZeroDivisionError in the hook after all views" in caplog.text


def test_a_method_in_lower_case_is_the_method(make_app: MakeApp) -> None:
    response = Client(make_app()).open("/api/v1", environ_overrides={"REQUEST_METHOD": "options"})

    assert response.status_code == 204
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
