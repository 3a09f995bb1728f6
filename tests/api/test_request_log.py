"""One line per request, with an id that the lines of its mail carry too, and nothing personal."""

import json
import re

import pytest

from tests.api.exchanges import Row, send
from tests.conftest import Configure, LogLines, MakeClient
from tests.factories import LOG_TIME, REQUEST_ID, contact_body
from tests.versions import INDEX

REQUESTS = {
    "answered": ("GET /api/versioning", "GET /api/versioning 200 -"),
    "refused": ("GET /api?section=ana@example.com", "GET /api 400 invalid_parameter"),
    "form": ("POST /contact.php", "POST /contact.php 400 invalid_body"),
    "unknown path": ("GET /ana@example.com", "GET other 404 not_found"),
    "unknown method": ("ANA@EXAMPLE.COM /api", "- /api 405 method_not_allowed"),
    "refused method": ("DELETE /contact.php", "DELETE /contact.php 405 method_not_allowed"),
    "unknown endpoint": (f"GET {INDEX}/ana@example.com", "GET api/other 404 endpoint_not_found"),
    "no slash": ("GET api", "GET malformed 400 invalid_body"),
}


@pytest.mark.parametrize(("sent", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_leaves_one_line(
    make_client: MakeClient, configure_logging: Configure, log_lines: LogLines, sent: str, expected: str
) -> None:
    configure_logging()

    send(make_client(), Row(sent, 0), "127.0.0.1")

    (line,) = log_lines()
    request = rf"{re.escape(expected)} \d+\.\d ms 127\.0\.0\.0/24"
    assert re.fullmatch(rf"{LOG_TIME} INFO app\.request [0-9a-f]{{32}} {request}", line)


def test_machines_find_the_parts_of_the_line_by_name(
    make_client: MakeClient, configure_logging: Configure, log_lines: LogLines
) -> None:
    configure_logging(LOG_FORMAT="json")

    make_client(TRUSTED_PROXIES="1").get("/api", headers={"X-Forwarded-For": "2001:db8:1:2:3:4:5:6"})

    (line,) = map(json.loads, log_lines())
    parts = [line[name] for name in ("level", "logger", "method", "route", "status", "code", "client")]
    assert parts == ["INFO", "app.request", "GET", "/api", 200, "-", "2001:db8:1::/48"]
    assert line["message"] == f"GET /api 200 - {line['duration_ms']} ms 2001:db8:1::/48"


@pytest.mark.parametrize(("typed", "said"), [({}, "stored"), ({"_bp_check": "x"}, "submission discarded: honeypot")])
def test_the_lines_of_a_submission_carry_the_id_of_its_request(
    make_client: MakeClient, configure_logging: Configure, log_lines: LogLines, typed: dict[str, str], said: str
) -> None:
    configure_logging(LOG_FORMAT="json")
    client = make_client(collaborators={"mailer": None}, TRUSTED_PROXIES="1")  # the mailer that stores
    log_lines()

    response = client.post("/contact.php", json=contact_body(**typed), headers={"X-Request-ID": REQUEST_ID})

    of_submission, of_request = map(json.loads, log_lines())
    assert said in of_submission["message"]
    assert (of_request["logger"], of_request["status"], of_request["code"]) == ("app.request", 200, "-")
    assert response.headers["X-Request-ID"] == of_request["request_id"] == of_submission["request_id"] == REQUEST_ID
