"""One line per request, with an id that the lines of its mail carry too, and nothing personal."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from app.logs import RequestIdFilter
from tests.conftest import MakeClient
from tests.factories import contact_body
from tests.fakes import RecordingMailer

REQUEST_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(RequestIdFilter())
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in log.records if record.name == "app.api.hooks"]


def field(record: logging.LogRecord, name: str) -> Any:
    return getattr(record, name)


REQUESTS = {
    "answered": (("GET", "/api/versioning"), "GET /api/versioning 200 -"),
    "refused": (("GET", "/api?section=ana@example.com"), "GET /api 400 invalid_parameter"),
    "unknown path": (("GET", "/ana@example.com"), "GET - 404 not_found"),
    "unknown method": (("ANA", "/api"), "- - 405 method_not_allowed"),
    "preflight": (("OPTIONS", "/contact.php"), "OPTIONS /contact.php 204 -"),
}


@pytest.mark.parametrize(("request_line", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_leaves_one_line(
    make_client: MakeClient, log: pytest.LogCaptureFixture, request_line: tuple[str, str], expected: str
) -> None:
    method, url = request_line

    make_client().open(url, method=method)

    (line,) = lines(log)
    assert re.fullmatch(rf"{re.escape(expected)} \d+\.\d ms 127\.0\.0\.0/24", line.getMessage())
    assert "ana" not in log.text


def test_machines_find_the_parts_of_the_line_by_name(make_client: MakeClient, log: pytest.LogCaptureFixture) -> None:
    make_client().get("/api")

    (line,) = lines(log)
    parts = [field(line, name) for name in ("method", "route", "status", "code", "client")]
    assert parts == ["GET", "/api", 200, "-", "127.0.0.0/24"]
    assert field(line, "duration_ms") >= 0


ADDRESSES = {"203.0.113.77": "203.0.113.0/24", "2001:db8:1:2:3:4:5:6": "2001:db8:1::/48", "unknown": "127.0.0.0/24"}


@pytest.mark.parametrize(("address", "shown"), ADDRESSES.items())
def test_a_client_is_shown_by_its_network_alone(
    make_client: MakeClient, log: pytest.LogCaptureFixture, address: str, shown: str
) -> None:
    make_client(TRUSTED_PROXIES="1").get("/api", headers={"X-Forwarded-For": address})

    assert field(lines(log)[0], "client") == shown


@pytest.mark.parametrize(
    ("proxies", "given", "kept"),
    [
        pytest.param("1", REQUEST_ID, True, id="from a trusted proxy"),
        pytest.param("0", REQUEST_ID, False, id="from a client"),
        pytest.param("1", REQUEST_ID[:-1], False, id="too short"),
        pytest.param("1", REQUEST_ID.upper(), False, id="in capitals"),
        pytest.param("1", "ana@example.com".ljust(32, "0"), False, id="of other characters"),
        pytest.param("1", "", False, id="none"),
    ],
)
def test_the_id_is_the_proxys_if_it_has_the_form_of_one(
    make_client: MakeClient, log: pytest.LogCaptureFixture, proxies: str, given: str, *, kept: bool
) -> None:
    make_client(TRUSTED_PROXIES=proxies).get("/api", headers={"X-Request-ID": given})

    shown = field(lines(log)[0], "request_id")
    assert (shown == given) is kept
    assert re.fullmatch(r"[0-9a-f]{32}", shown)


def test_the_lines_of_a_submission_carry_the_id_of_its_request(
    make_client: MakeClient, log: pytest.LogCaptureFixture
) -> None:
    client = make_client(collaborators={"mailer": None}, TRUSTED_PROXIES="1")  # the one that stores

    client.post("/contact.php", json=contact_body(), headers={"X-Request-ID": REQUEST_ID})

    mail = [record for record in log.records if record.getMessage().endswith("stored")]
    assert [field(record, "request_id") for record in [*mail, *lines(log)]] == [REQUEST_ID] * 2


def test_what_became_of_a_submission_can_be_counted(
    make_client: MakeClient, log: pytest.LogCaptureFixture, mailer: RecordingMailer
) -> None:
    client = make_client(TRUSTED_PROXIES="1")
    bodies = {"192.0.2.1": contact_body(), "192.0.2.2": contact_body(_bp_check="x"), "192.0.2.3": contact_body(ts=0)}

    for address, body in bodies.items():
        client.post("/contact.php", json=body, headers={"X-Forwarded-For": address})
    mailer.broken = True
    client.post("/contact.php", json=contact_body(), headers={"X-Forwarded-For": "192.0.2.4"})

    outcomes = [(field(line, "status"), field(line, "code")) for line in lines(log)]
    assert outcomes == [(200, "-"), (200, "-"), (429, "too_fast"), (500, "mail_delivery_failed")]
    assert [field(record, "request_id") for record in log.records if "discarded" in record.getMessage()] == [
        field(lines(log)[1], "request_id")
    ]
