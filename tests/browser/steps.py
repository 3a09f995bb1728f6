"""What several tests of the form do and look for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.browser.visitor import Visitor
from tests.factories import REQUEST_ID
from tests.mail.server import SmtpServer, text_of
from tests.server.gunicorn import Server

RECEIVED = "Hemos recibido su solicitud"
DOUBT = "No sabemos si su solicitud ha llegado"
COUNTDOWN = re.compile(r"Podrá enviarla en \d+ segundos\.")
COUNTDOWN_ENDS = "Ya puede enviarla."

OK = {"body": '{"ok":true}'}
INTERNAL = {"status": 500, "body": '{"error":{"code":"internal_error"}}'}
REFUSED = {"status": 400, "body": '{"error":{"code":"invalid_email"}}'}
FULL = '"default";r=0;t=30'


def spend_quota(service: Server) -> None:
    """Somebody else behind the same address has just sent a form."""
    response, _ = service.request("POST", "/contact.php", b"{}", {"Content-Type": "application/json"})
    assert response.status == 400


def answer_with(visitor: Visitor, *, rate_limit: str = "", **answer: Any) -> None:
    """Let the contact path answer so, with a request id."""
    headers = {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "RateLimit, X-Request-ID",
        "X-Request-ID": REQUEST_ID,
        "RateLimit": rate_limit,
    }
    visitor.page.route("**/api/v1/contact", lambda route: route.fulfill(headers=headers, **answer))


def adding(markup: str) -> Callable[[str], str]:
    """An edit of the page that puts these fields before the trap."""
    return lambda page: page.replace("<!-- A trap", f"{markup}<!-- A trap")


def lines_of(server: SmtpServer, number: int = 0) -> list[str]:
    """The fields of the message, as the sales team reads them; it is the last one that has come."""
    assert len(server.arrivals) == number + 1
    return text_of(server.arrivals[number]).rstrip("\n").split("\n")[2:]
