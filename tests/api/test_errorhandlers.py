"""Every exception, from whichever layer, comes out in the envelope, and nothing of it shows."""

from typing import NoReturn

import pytest
from flask import abort
from werkzeug.exceptions import default_exceptions

from app.mail.message import Message
from tests.api.exchanges import STATUSES
from tests.conftest import MakeApp, MakeClient
from tests.factories import contact_body
from tests.fakes import RecordingMailer
from tests.versions import CONTACT

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


class CrashingMailer(RecordingMailer):
    def deliver(self, _message: Message) -> None:
        raise ZeroDivisionError(SECRET) from ValueError(SECRET)


@pytest.mark.parametrize("path", ["/contact.php", CONTACT])
def test_what_is_unhandled_is_logged_by_its_class_and_place_alone(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    client = make_client(collaborators={"mailer": CrashingMailer()})

    response = client.post(f"{path}?q={SECRET}", json=contact_body(), headers={"X-Typed": SECRET.encode("latin-1")})

    assert (response.status_code, response.get_json()["error"]["code"]) == (500, "internal_error")
    assert "unhandled ZeroDivisionError" in caplog.text
    assert "in deliver" in caplog.text
    assert not [text for text in (response.text, caplog.text) if SECRET in text or "maria@" in text]
