"""The dispatch of a request."""

from __future__ import annotations

import pytest
from flask import Response
from werkzeug.test import Client

from tests.conftest import MakeApp


@pytest.mark.parametrize("name", ["a", "<name>"])
def test_a_path_with_a_parameter_is_served_too(make_app: MakeApp, name: str) -> None:
    app = make_app()

    @app.get("/things/<name>")
    def get_thing(name: str) -> Response:
        return Response(name.encode())

    # The app's own test client takes only what the document describes.
    assert Client(app).get(f"/things/{name}").text == name


def test_a_method_in_lower_case_is_the_method(make_app: MakeApp) -> None:
    response = Client(make_app()).open("/api/v1", environ_overrides={"REQUEST_METHOD": "options"})

    assert response.status_code == 204
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
