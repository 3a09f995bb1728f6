"""Every exception, from whichever layer, comes out in the envelope."""

from __future__ import annotations

from typing import NoReturn

import pytest
from flask import abort
from werkzeug.exceptions import default_exceptions

from tests.api.exchanges import STATUSES
from tests.conftest import MakeApp

SECRET = "la clave de María es 4929 1234"
TRANSLATIONS = {404: "not_found", 405: "method_not_allowed", 429: "rate_limit_exceeded"} | {
    status: "invalid_body" if status < 500 else "internal_error"
    for status in default_exceptions
    if status not in {404, 405, 429}
}


@pytest.mark.parametrize(("status", "code"), sorted(TRANSLATIONS.items()))
def test_an_exception_of_werkzeug_comes_out_in_the_envelope(make_app: MakeApp, status: int, code: str) -> None:
    app = make_app()

    @app.get("/raises")
    def raises() -> NoReturn:
        abort(status, description=SECRET)

    response = app.test_client().get("/raises")

    error = response.get_json()["error"]
    assert (error["code"], error["status"], response.status_code) == (code, STATUSES[code], STATUSES[code])
    assert SECRET not in response.text
