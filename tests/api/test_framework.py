"""What the application leaves of Flask's dispatch."""

from __future__ import annotations

import pytest
from werkzeug.test import Client

from app.api.framework import Response
from tests.conftest import MakeApp


@pytest.mark.parametrize("name", ["a", "<name>"])
def test_a_path_with_a_parameter_is_served_too(make_app: MakeApp, name: str) -> None:
    app = make_app()

    @app.get("/things/<name>")
    def get_thing(name: str) -> Response:
        return Response(name.encode())

    # The app's own test client takes only what the document describes.
    assert Client(app).get(f"/things/{name}").text == name
