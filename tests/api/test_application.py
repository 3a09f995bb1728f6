"""The dispatch of a request."""

from __future__ import annotations

from werkzeug.test import Client

from tests.conftest import MakeApp


def test_a_method_in_lower_case_is_the_method(make_app: MakeApp) -> None:
    response = Client(make_app()).open("/api/v1", environ_overrides={"REQUEST_METHOD": "options"})

    assert response.status_code == 204
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
