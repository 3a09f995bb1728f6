"""GET /api/v1/health over a real mail server: what it says, and that it makes nobody wait."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from flask import Flask
from freezegun import freeze_time

from app.mail.health import MailCheck, MailHealth
from tests.conftest import MakeApp
from tests.mail.conftest import letter
from tests.mail.server import HANG, SmtpServer

HEALTH = "/api/v1/health"
VERBOSE = {"verbose": "true"}

MakeService = Callable[..., "Service"]


class Service:
    """An app that checks its mail all the time."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self.mail_health: MailHealth = app.extensions["mail_health"]

    def get(self, **query: str) -> dict[str, Any]:
        response = self._app.test_client().get(HEALTH, query_string=query)
        assert response.status_code == 200
        return cast("dict[str, Any]", response.get_json()["data"])

    def wait_until(self, condition: Callable[[MailCheck], bool]) -> None:
        """Return once the latest result is such; asking for it over HTTP would cost the quota."""
        for _ in range(1000):
            if condition(self.mail_health.latest()):
                return
            time.sleep(0.01)
        pytest.fail("no such result came")


@pytest.fixture
def make_service(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> MakeService:
    monkeypatch.setattr("app.mail.health.CHECK_INTERVAL", 0.01)
    return lambda **environ: Service(make_app(collaborators={"mailer": None}, first_check=0, **environ))


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


def is_ok(check: MailCheck) -> bool:
    return check.ok


def is_failing(check: MailCheck) -> bool:
    return check.checked_at is not None and not check.ok


def test_mail_is_ok_while_the_server_takes_messages(make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ)
    service.wait_until(is_ok)

    data = service.get()

    assert (data["status"], data["checks"]) == ("ok", {"api": "ok", "mail": "ok"})


@pytest.mark.parametrize(
    ("replies", "environ"),
    [
        pytest.param({"connect": "554 5.3.2 no service"}, {}, id="refuses the connection"),
        pytest.param({"EHLO": "550 5.7.1 no"}, {}, id="refuses the client"),
        pytest.param({"EHLO": HANG}, {"SMTP_TIMEOUT": "0.1"}, id="falls silent"),
        pytest.param({}, {"SMTP_USERNAME": "web", "SMTP_PASSWORD": "wrong"}, id="rejects the credentials"),
        pytest.param({}, {"SMTP_SECURITY": "starttls"}, id="has no STARTTLS"),
    ],
)
def test_mail_fails_while_the_server_would_not_take_a_message(
    make_service: MakeService, server: SmtpServer, replies: dict[str, str], environ: dict[str, str]
) -> None:
    server.replies = replies
    service = make_service(**server.environ | environ)
    service.wait_until(is_failing)

    data = service.get()

    assert (data["status"], data["checks"]) == ("degraded", {"api": "ok", "mail": "fail"})


def test_mail_without_a_server_is_checked_by_its_store(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    service.wait_until(is_ok)
    assert service.get(**VERBOSE)["details"]["mail"]["transport"] == "maildir"

    shutil.rmtree(tmp_path / "mail")
    service.wait_until(is_failing)

    assert service.get()["checks"]["mail"] == "fail"


def test_mail_recovers_when_the_server_returns(make_service: MakeService) -> None:
    with SmtpServer() as server:
        service = make_service(**server.environ)
        service.wait_until(is_ok)
    service.wait_until(is_failing)
    during = service.get()["status"]

    with server:
        service.wait_until(is_ok)
        after = service.get()["status"]

    assert (during, after) == ("degraded", "ok")


def test_the_check_talks_to_the_server_and_sends_nothing(make_service: MakeService, server: SmtpServer) -> None:
    make_service(**server.environ).wait_until(is_ok)

    assert server.most_connected > 0
    assert server.arrivals == []


def test_checked_at_advances(make_service: MakeService, server: SmtpServer) -> None:
    with freeze_time("2030-01-01 12:00:00") as clock:
        service = make_service(**server.environ)
        service.wait_until(is_ok)
        before = service.get(**VERBOSE)["details"]["mail"]["checked_at"]
        clock.tick(20)
        moved = datetime(2030, 1, 1, 12, 0, 20, tzinfo=UTC)
        service.wait_until(lambda check: check.checked_at == moved)
        after = service.get(**VERBOSE)["details"]["mail"]["checked_at"]

    assert (before, after) == ("2030-01-01T12:00:00+00:00", "2030-01-01T12:00:20+00:00")


def test_there_is_one_check_at_a_time_however_many_ask(make_service: MakeService, server: SmtpServer) -> None:
    server.replies = {"connect": HANG}
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    assert server.hung.wait(10)
    asked_together = threading.Barrier(8)

    def ask(_: int) -> str:
        asked_together.wait()
        service.mail_health.start()
        return str(service.get()["status"])

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(32)))

    assert answers == ["degraded"] * 32
    assert server.most_connected == 1


def test_nobody_waits_for_a_server_that_hangs_from_the_start(make_service: MakeService, server: SmtpServer) -> None:
    server.replies = {"connect": HANG}
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    assert server.hung.wait(10)

    data = service.get(**VERBOSE)

    # The first check goes on: no result has come of it, and the answer came first.
    assert data["checks"]["mail"] == "fail"
    assert data["details"]["mail"]["checked_at"] is None


def test_nobody_waits_for_a_server_that_begins_to_hang(make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    service.wait_until(is_ok)
    server.replies = {"connect": HANG}
    assert server.hung.wait(10)

    data = service.get()

    # The check goes on and will fail: what the one before it found is the answer.
    assert data["checks"]["mail"] == "ok"


def test_a_result_older_than_30_seconds_is_not_ok_any_more(make_service: MakeService, server: SmtpServer) -> None:
    with freeze_time("2030-01-01 12:00:00") as clock:
        service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
        service.wait_until(is_ok)
        server.replies = {"connect": HANG}
        assert server.hung.wait(10)
        clock.tick(timedelta(seconds=31))

        data = service.get()

    assert (data["status"], data["checks"]["mail"]) == ("degraded", "fail")


def test_verbose_adds_details(make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ)
    service.wait_until(is_ok)

    data = service.get(**VERBOSE)

    assert set(data) == {*service.get(verbose="false"), "details"}
    assert set(data["details"]) == {"uptime_seconds", "mail", "rate_limit"}
    mail = data["details"]["mail"]
    assert set(mail) == {"transport", "checked_at", "latency_ms", "undelivered"}
    assert datetime.now(UTC) - datetime.fromisoformat(mail["checked_at"]) <= timedelta(seconds=30)
    assert mail["latency_ms"] > 0
    assert mail["undelivered"] == 0


def test_verbose_counts_undelivered_messages(
    make_service: MakeService, server: SmtpServer, undelivered: Callable[..., None], tmp_path: Path
) -> None:
    service = make_service(**server.environ)
    undelivered(letter(1), letter(2))
    path, _ = (tmp_path / "mail" / "new").iterdir()
    path.rename(tmp_path / "mail" / "cur" / f"{path.name}:2,S")
    (tmp_path / "mail" / "new" / "1").touch()

    service.wait_until(lambda check: check.undelivered == 2)

    assert service.get(**VERBOSE)["details"]["mail"]["undelivered"] == 2


@pytest.mark.parametrize("replies", [{}, {"MAIL": "550 no"}, {"connect": "554 mail.example.com"}], ids=str)
def test_no_host_address_or_account_shows(make_service: MakeService, replies: dict[str, str]) -> None:
    with SmtpServer(credentials=("account-7", "secret-7"), replies=replies) as server:
        service = make_service(**server.environ)
        service.wait_until(lambda check: check.checked_at is not None)
        text = str(service.get(**VERBOSE))

    for private in ("127.0.0.1", str(server.port), "example.com", "@", "account-7", "secret-7"):
        assert private not in text
