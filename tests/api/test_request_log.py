"""One line per request, with an id that the lines of its mail carry too, and nothing personal."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import Client

from app.logs import add_time_and_request_id
from tests.api.exchanges import Row, send
from tests.conftest import Configure, LogLines, MakeApp, MakeClient
from tests.factories import LOG_TIME, REQUEST_ID, contact_body
from tests.fakes import RecordingMailer

Lines = Callable[..., list[dict[str, Any]]]
TYPED = "ana@example.com"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """The parts of the lines so far, by name: of those of requests, or of those with a text."""
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(add_time_and_request_id)

    def lines(text: str = "") -> list[dict[str, Any]]:
        found = (record for record in caplog.records if text or record.name == "app.request")
        return [vars(record) for record in found if text in record.getMessage()]

    return lines


REQUESTS = {
    "answered": ("GET /api/versioning", "GET /api/versioning 200 -"),
    "head": ("HEAD /openapi.json", "HEAD /openapi.json 200 -"),
    "refused": ("GET /api?section=ana@example.com", "GET /api 400 invalid_parameter"),
    "form": ("POST /contact.php", "POST /contact.php 400 invalid_body"),
    "unknown path": ("GET /ana@example.com", "GET other 404 not_found"),
    "unknown method": ("ANA@EXAMPLE.COM /api", "- /api 405 method_not_allowed"),
    "refused method": ("DELETE /contact.php", "DELETE /contact.php 405 method_not_allowed"),
    "preflight": ("OPTIONS /contact.php", "OPTIONS /contact.php 204 -"),
    "unknown endpoint": ("GET /api/v1/ana@example.com", "GET api/other 404 endpoint_not_found"),
    "unknown version": ("GET /api/v2", "GET api/other 404 unsupported_api_version"),
    "hidden file": ("GET /ana@example.com/.env", "GET dotfile 404 not_found"),
    "PHP": ("POST /ana@example.com.PHP7?x", "POST php 404 not_found"),
    "well-known": ("GET /.well-known/ana@example.com", "GET well-known 404 not_found"),
    "two slashes": ("GET //api", "GET other 404 not_found"),
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


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_of_a_path_with_parameters_the_line_shows_the_rule(make_app: MakeApp, lines: Lines, method: str) -> None:
    app = make_app()
    app.get("/rooms/<name>")(lambda name: {"name": name})

    Client(app).open("/rooms/ana", method=method)

    assert [(line["method"], line["route"]) for line in lines()] == [(method, "/rooms/<name>")]


def test_machines_find_the_parts_of_the_line_by_name(
    make_client: MakeClient, configure_logging: Configure, log_lines: LogLines
) -> None:
    configure_logging(LOG_FORMAT="json")

    make_client().get("/api")

    (line,) = map(json.loads, log_lines())
    assert (line["level"], line["logger"]) == ("INFO", "app.request")
    parts = [line[name] for name in ("method", "route", "status", "code", "client")]
    assert parts == ["GET", "/api", 200, "-", "127.0.0.0/24"]
    assert line["duration_ms"] >= 0
    assert line["message"] == f"GET /api 200 - {line['duration_ms']} ms 127.0.0.0/24"


@pytest.mark.parametrize("level", ["warning", "error", "critical"])
def test_there_is_no_line_above_its_level(
    make_client: MakeClient, configure_logging: Configure, log_lines: LogLines, level: str
) -> None:
    configure_logging(LOG_LEVEL=level)

    make_client().get("/api")

    assert log_lines() == []


BEHIND: dict[str, tuple[str, dict[str, str], str, bool]] = {
    "an IPv4 address": ("1", {"X-Forwarded-For": "203.0.113.77"}, "203.0.113.0/24", False),
    "an IPv6 address": ("1", {"X-Forwarded-For": "2001:db8:1:2:3:4:5:6"}, "2001:db8:1::/48", False),
    "no address": ("1", {"X-Forwarded-For": "unknown"}, "127.0.0.0/24", False),
    "an id from a trusted proxy": ("1", {"X-Request-ID": REQUEST_ID}, "127.0.0.0/24", True),
    "an id from a client": ("0", {"X-Request-ID": REQUEST_ID}, "127.0.0.0/24", False),
    "an id too short": ("1", {"X-Request-ID": REQUEST_ID[:-1]}, "127.0.0.0/24", False),
    "an id in capitals": ("1", {"X-Request-ID": REQUEST_ID.upper()}, "127.0.0.0/24", False),
    "an id of other characters": ("1", {"X-Request-ID": f"{TYPED:0<32}"}, "127.0.0.0/24", False),
    "an empty id": ("1", {"X-Request-ID": ""}, "127.0.0.0/24", False),
}
"""Proxies that are trusted and what they say of a request; the network that is shown, and whether the id is theirs."""


@pytest.mark.parametrize(("proxies", "fields", "network", "is_theirs"), BEHIND.values(), ids=BEHIND)
def test_a_client_is_shown_by_its_network_and_the_id_is_the_proxys_if_it_has_the_form_of_one(
    make_client: MakeClient, lines: Lines, proxies: str, fields: dict[str, str], network: str, *, is_theirs: bool
) -> None:
    response = make_client(TRUSTED_PROXIES=proxies).get("/api", headers=fields)

    (line,) = lines()
    assert line["client"] == network
    assert response.headers.getlist("X-Request-ID") == [line["request_id"]]
    assert (line["request_id"] == fields.get("X-Request-ID")) is is_theirs
    assert re.fullmatch(r"[0-9a-f]{32}", line["request_id"])


def test_the_lines_of_a_submission_carry_the_id_of_its_request(make_client: MakeClient, lines: Lines) -> None:
    client = make_client(collaborators={"mailer": None}, TRUSTED_PROXIES="1")  # the mailer that stores

    response = client.post("/contact.php", json=contact_body(), headers={"X-Request-ID": REQUEST_ID})

    assert response.headers["X-Request-ID"] == REQUEST_ID
    (of_request,), (of_mail,) = lines(), lines("> stored")
    assert of_request["request_id"] == of_mail["request_id"] == REQUEST_ID


def test_what_became_of_a_submission_can_be_counted(
    make_client: MakeClient, lines: Lines, mailer: RecordingMailer
) -> None:
    client = make_client(TRUSTED_PROXIES="1")
    bodies = {"192.0.2.1": contact_body(), "192.0.2.2": contact_body(_bp_check="x"), "192.0.2.3": contact_body(ts=0)}

    for address, body in bodies.items():
        client.post("/contact.php", json=body, headers={"X-Forwarded-For": address})
    mailer.broken = True
    client.post("/contact.php", json=contact_body(), headers={"X-Forwarded-For": "192.0.2.4"})

    logged = lines()
    outcomes = [(line["status"], line["code"]) for line in logged]
    assert outcomes == [(200, "-"), (200, "-"), (429, "too_fast"), (500, "mail_delivery_failed")]
    assert [line["request_id"] for line in lines("discarded")] == [logged[1]["request_id"]]
