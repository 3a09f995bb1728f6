"""GET /api/v1/health beside the check of the mail server, which a thread of its own makes."""

from __future__ import annotations

import threading
from datetime import datetime

import pytest

from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.fakes import RecordingMailer
from tests.waiting import wait_until

PATH = "/api/v1/health"


class SlowMailer(RecordingMailer):
    """Counts the checks, each of which waits until it may go on."""

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.broken, self.checks, self.go_on = broken, 0, threading.Event()

    def check(self) -> None:
        self.checks += 1
        self.go_on.wait()
        super().check()


@pytest.mark.parametrize(("mail_fails", "status", "check"), [(False, "ok", "ok"), (True, "degraded", "fail")])
def test_all_callers_share_one_check(make_client: MakeClient, status: str, check: str, *, mail_fails: bool) -> None:
    mailer = SlowMailer(broken=mail_fails)
    mailer.go_on.set()
    client = make_client(collaborators={"mailer": mailer})

    answers = [client.get(PATH).get_json()["data"] for _ in range(20)]

    assert answers[0].keys() == {"status", "version", "timestamp", "checks"}
    assert datetime.fromisoformat(answers[0]["timestamp"]).tzinfo is not None
    assert {answer["status"] for answer in answers} == {status}
    assert [answer["checks"] for answer in answers] == [{"api": "ok", "mail": check}] * 20
    assert mailer.checks == 1


def test_health_answers_while_the_check_hangs(make_client: MakeClient) -> None:
    mailer = SlowMailer()
    client = make_client(collaborators={"mailer": mailer}, first_check=0)
    wait_until(lambda: mailer.checks)

    try:
        data = client.get(f"{PATH}?verbose=true").get_json()["data"]
    finally:
        mailer.go_on.set()

    assert data["checks"] == {"api": "ok", "mail": "fail"}
    assert data["details"]["mail"]["checked_at"] is None


def test_health_shows_no_host_address_or_account(make_client: MakeClient) -> None:
    environ = {"SMTP_HOST": "relay.internal", "SMTP_USERNAME": "cuenta", "SMTP_PASSWORD": "clave"}
    environ |= {"SALES_EMAIL": "ventas@example.com", "MAIL_FROM": "web@example.com"}

    text = make_client(**environ).get(f"{PATH}?verbose=true").text

    assert not [value for value in (*environ.values(), "127.0.0.1", "/mail") if value in text]


def test_the_index_lists_every_endpoint_of_the_version(client: ValidatingClient) -> None:
    served = {
        (method, rule.rule)
        for rule in client.application.url_map.iter_rules()
        for method in rule.methods or ()
        if f"{rule.rule}/".startswith("/api/v1/") and method not in {"HEAD", "OPTIONS"}
    }

    endpoints = client.get("/api/v1").get_json()["data"]["endpoints"]

    assert {(endpoint["method"], endpoint["path"]) for endpoint in endpoints} == served
    assert len(endpoints) == len(served)
