"""GET /api/v1 and GET /api/v1/health."""

from __future__ import annotations

import threading
from datetime import datetime

import pytest

from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.fakes import RecordingMailer


class CountingMailer(RecordingMailer):
    def __init__(self) -> None:
        super().__init__()
        self.checks = 0

    def check(self) -> None:
        self.checks += 1


class HangingMailer(RecordingMailer):
    def __init__(self) -> None:
        super().__init__()
        self.hung = threading.Event()
        self.go_on = threading.Event()

    def check(self) -> None:
        self.hung.set()
        self.go_on.wait()


def test_the_index_lists_every_endpoint_of_the_version(client: ValidatingClient) -> None:
    served = [
        (method, rule.rule)
        for rule in client.application.url_map.iter_rules()
        for method in rule.methods or ()
        if f"{rule.rule}/".startswith("/api/v1/") and method not in {"HEAD", "OPTIONS"}
    ]

    body = client.get("/api/v1").get_json()

    assert body["ok"] is True
    assert body["data"].keys() == {"version", "endpoints"}
    assert body["data"]["version"] == "v1"
    assert sorted((endpoint["method"], endpoint["path"]) for endpoint in body["data"]["endpoints"]) == sorted(served)
    for endpoint in body["data"]["endpoints"]:
        assert endpoint.keys() == {"method", "path", "description", "parameters"}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_method_narrows_the_list(client: ValidatingClient, method: str) -> None:
    whole = client.get("/api/v1").get_json()["data"]

    narrowed = client.get("/api/v1", query_string={"method": method}).get_json()["data"]

    assert narrowed["version"] == "v1"
    assert narrowed["endpoints"] == [endpoint for endpoint in whole["endpoints"] if endpoint["method"] == method]


@pytest.mark.parametrize("query", ["", "?verbose=false"])
def test_health_states_the_fields_of_the_specification(client: ValidatingClient, query: str) -> None:
    body = client.get(f"/api/v1/health{query}").get_json()

    assert body["ok"] is True
    timestamp = body["data"].pop("timestamp")
    assert datetime.fromisoformat(timestamp).tzinfo is not None
    assert body["data"] == {"status": "ok", "version": "v1", "checks": {"api": "ok", "mail": "ok"}}


def test_verbose_health_adds_details(client: ValidatingClient) -> None:
    data = client.get("/api/v1/health?verbose=true").get_json()["data"]

    assert data.keys() == {"status", "version", "timestamp", "checks", "details"}
    assert data["details"].keys() == {"uptime_seconds", "mail", "rate_limit"}
    assert data["details"]["uptime_seconds"] >= 0
    mail = data["details"]["mail"]
    assert mail.keys() == {"transport", "checked_at", "latency_ms", "undelivered", "server", "storage"}
    assert mail["transport"] == "smtp"
    assert mail["undelivered"] == 0
    assert datetime.fromisoformat(mail["checked_at"]).tzinfo is not None
    assert data["details"]["rate_limit"] == {"storage": "memory", "status": "ok"}


def test_health_is_degraded_but_200_while_mail_fails(make_client: MakeClient, mailer: RecordingMailer) -> None:
    mailer.broken = True

    response = make_client().get("/api/v1/health")

    assert response.status_code == 200
    data = response.get_json()["data"]
    assert data["status"] == "degraded"
    assert data["checks"] == {"api": "ok", "mail": "fail"}


def test_health_answers_while_the_mail_check_hangs(make_client: MakeClient) -> None:
    mailer = HangingMailer()
    client = make_client(collaborators={"mailer": mailer}, first_check=0)
    assert mailer.hung.wait(10)

    try:
        data = client.get("/api/v1/health?verbose=true").get_json()["data"]
    finally:
        mailer.go_on.set()

    assert data["checks"] == {"api": "ok", "mail": "fail"}
    assert data["details"]["mail"]["checked_at"] is None


def test_all_callers_share_one_mail_check(make_client: MakeClient) -> None:
    mailer = CountingMailer()
    client = make_client(collaborators={"mailer": mailer})

    for _ in range(20):
        client.get("/api/v1/health")

    assert mailer.checks == 1


def test_health_shows_no_host_address_or_account(make_client: MakeClient) -> None:
    environ = {
        "SMTP_HOST": "relay.internal",
        "SMTP_USERNAME": "cuenta",
        "SMTP_PASSWORD": "clave",
        "SALES_EMAIL": "ventas@example.com",
        "MAIL_FROM": "web@example.com",
    }

    text = make_client(**environ).get("/api/v1/health?verbose=true").text

    assert not [value for value in environ.values() if value in text]
    assert "127.0.0.1" not in text
    assert "/mail" not in text
