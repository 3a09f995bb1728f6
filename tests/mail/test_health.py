"""GET /api/v1/health over a real mail server: what it says, and that it makes nobody wait."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from flask import Flask
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from app import create_app
from app.mail.health import MailCheck
from app.mail.spool import Spool
from tests.conftest import MakeApp
from tests.factories import make_settings
from tests.fakes import RecordingMailer
from tests.mail.conftest import letter
from tests.mail.server import Act, Replies, SmtpServer

HEALTH = "/api/v1/health"
VERBOSE = {"verbose": "true"}
SILENT = {"NOOP": Act.HANG, "connect": Act.HANG}
"""Neither a kept connection nor a new one is answered."""

MakeService = Callable[..., "Service"]


class Service:
    """An app that checks its mail all the time."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self.mail_health = app.extensions["background"].mail_health

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
    monkeypatch.setattr("app.mail.redelivery.INTERVAL", 0.01)
    return lambda **environ: Service(make_app(collaborators={"mailer": None}, first_check=0, **environ))


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


@pytest.fixture
def broken_store(tmp_path: Path) -> Path:
    """A file that keeps MAIL_DIR from being prepared until it is deleted."""
    path = tmp_path / "mail" / "new"
    path.parent.mkdir()
    path.touch()
    return path


@dataclass
class Clocks:
    """The wall clock, which stands still unless it is set, and a monotonic clock that can be put forward."""

    wall: FrozenDateTimeFactory
    passed: float = 0


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocks]:
    """A test names them before its service: a thread that reads a clock of freezegun must end before the clock does."""
    monotonic = time.monotonic
    with freeze_time("2030-01-01 12:00:00") as wall, monkeypatch.context() as patch:
        clocks = Clocks(cast("FrozenDateTimeFactory", wall))
        patch.setattr(time, "monotonic", lambda: monotonic() + clocks.passed)
        yield clocks


def is_ok(check: MailCheck) -> bool:
    return check.ok


def is_failing(check: MailCheck) -> bool:
    return check.checked_at is not None and not check.ok


def test_mail_is_ok_while_the_server_takes_messages(make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ)
    service.wait_until(is_ok)

    data = service.get()

    assert (data["status"], data["checks"]) == ("ok", {"api": "ok", "mail": "ok"})


def test_the_log_quotes_what_the_server_says_before_the_login(
    make_service: MakeService, server: SmtpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.replies = {"EHLO": "421 4.7.0 Try again later"}
    make_service(**server.environ).wait_until(is_failing)

    assert "the mail check fails: server=fail (SMTPHeloError 421 4.7.0 Try again later)" in caplog.messages


@pytest.mark.parametrize(
    ("replies", "environ"),
    [
        pytest.param({"connect": "554 5.3.2 no service"}, {}, id="refuses the connection"),
        pytest.param({"EHLO": "550 5.7.1 no"}, {}, id="refuses the client"),
        pytest.param({"EHLO": Act.HANG}, {"SMTP_TIMEOUT": "0.1"}, id="falls silent"),
        pytest.param({}, {"SMTP_USERNAME": "web", "SMTP_PASSWORD": "wrong"}, id="rejects the credentials"),
        pytest.param({}, {"SMTP_SECURITY": "starttls"}, id="has no STARTTLS"),
    ],
)
def test_mail_fails_while_the_server_would_not_take_a_message(
    make_service: MakeService, server: SmtpServer, replies: Replies, environ: dict[str, str]
) -> None:
    server.replies = replies
    service = make_service(**server.environ | environ)
    service.wait_until(is_failing)

    data = service.get()

    assert (data["status"], data["checks"]) == ("degraded", {"api": "ok", "mail": "fail"})


def test_mail_without_a_server_is_checked_by_its_store(make_service: MakeService, broken_store: Path) -> None:
    service = make_service()
    service.wait_until(is_failing)
    during = service.get(**VERBOSE)
    broken_store.unlink()
    service.wait_until(is_ok)

    assert (during["details"]["mail"]["transport"], during["checks"]["mail"]) == ("maildir", "fail")
    assert service.get()["checks"]["mail"] == "ok"


def test_a_store_that_is_gone_is_made_again(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service()
    service.wait_until(is_ok)

    (tmp_path / "mail").rename(tmp_path / "elsewhere")
    service.wait_until(lambda _: (tmp_path / "mail" / "cur").is_dir())

    service.wait_until(is_ok)


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

    assert server.connections
    assert server.arrivals == []


def test_checked_at_is_what_the_wall_clock_says(clocks: Clocks, make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ)
    service.wait_until(is_ok)
    before = service.get(**VERBOSE)["details"]["mail"]["checked_at"]
    clocks.wall.tick(20)
    moved = datetime(2030, 1, 1, 12, 0, 20, tzinfo=UTC)
    service.wait_until(lambda check: check.checked_at == moved)
    after = service.get(**VERBOSE)["details"]["mail"]["checked_at"]

    assert (before, after) == ("2030-01-01T12:00:00+00:00", "2030-01-01T12:00:20+00:00")


def test_there_is_one_check_at_a_time_however_many_ask(make_service: MakeService, server: SmtpServer) -> None:
    server.replies = {"connect": Act.HANG}
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    server.wait_until_hung()
    asked_together = threading.Barrier(8)

    def ask(_: int) -> str:
        asked_together.wait()
        return str(service.get()["status"])

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(32)))

    assert answers == ["degraded"] * 32
    assert len(server.connections) == 1


def test_nobody_waits_for_a_server_that_hangs_from_the_start(make_service: MakeService, server: SmtpServer) -> None:
    server.replies = {"connect": Act.HANG}
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    server.wait_until_hung()

    data = service.get(**VERBOSE)

    # The first check goes on: no result has come of it, and the answer came first.
    assert data["checks"]["mail"] == "fail"
    assert data["details"]["mail"]["checked_at"] is None


def test_the_first_answers_wait_for_the_disk_where_no_server_has_started_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Spool.check

    def check_slowly(spool: Spool) -> None:
        time.sleep(0.1)
        check(spool)

    monkeypatch.setattr(Spool, "check", check_slowly)
    app = create_app(make_settings(tmp_path / "mail"))

    with ThreadPoolExecutor(8) as askers:
        first = list(askers.map(lambda _: Service(app).get()["status"], range(8)))
    app.extensions["background"].stop()

    assert first == ["ok"] * 8


def test_nobody_waits_for_a_server_that_begins_to_hang(make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    service.wait_until(is_ok)
    server.replies = SILENT
    server.wait_until_hung()

    data = service.get()

    # The check goes on and will fail: what the one before it found is the answer.
    assert data["checks"]["mail"] == "ok"


def test_a_result_older_than_30_seconds_is_not_ok_any_more(
    clocks: Clocks, make_service: MakeService, server: SmtpServer
) -> None:
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    service.wait_until(is_ok)
    server.replies = SILENT
    server.wait_until_hung()
    clocks.passed = 31

    service.wait_until(lambda check: check.disk == "ok")
    data = service.get(**VERBOSE)

    assert (data["status"], data["checks"]["mail"]) == ("degraded", "fail")
    assert (data["details"]["mail"]["server"], data["details"]["mail"]["storage"]) == ("fail", "ok")


@pytest.mark.parametrize("hours", [1, -1], ids=["forward", "back"])
def test_a_wall_clock_that_is_set_makes_no_result_older(
    clocks: Clocks, make_service: MakeService, server: SmtpServer, hours: int
) -> None:
    service = make_service(**server.environ | {"SMTP_TIMEOUT": "300"})
    service.wait_until(is_ok)
    server.replies = SILENT
    server.wait_until_hung()
    clocks.wall.tick(timedelta(hours=hours))

    data = service.get()

    assert (data["status"], data["checks"]["mail"]) == ("ok", "ok")


DISKS = {
    "full": (OSError(errno.ENOSPC, "No space left on device"), "full"),
    "over its quota": (OSError(errno.EDQUOT, "Disk quota exceeded"), "full"),
    "read-only": (OSError(errno.EROFS, "Read-only file system"), "read_only"),
    "somebody else's": (PermissionError(errno.EACCES, "Permission denied"), "fail"),
    "broken": (OSError(errno.EIO, "Input/output error"), "fail"),
}


class Disk(RecordingMailer):
    """A mailer and the check of its storage, which fail, recover and hang as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = {"server": threading.Event(), "storage": threading.Event()}
        self.hung = threading.Event()
        self.storage_checks = 0
        self.storage_error: OSError | None = None
        for event in self.go_on.values():
            event.set()

    def hang(self, part: str) -> None:
        self.go_on[part].clear()
        assert self.hung.wait(30)

    def checked_again(self) -> Callable[[MailCheck], bool]:
        """Whether the storage has been checked again and again since this call."""
        enough = self.storage_checks + 3
        return lambda _: self.storage_checks >= enough

    def check(self) -> None:
        self._pass("server")
        super().check()

    def check_storage(self) -> None:
        self._pass("storage")
        self.storage_checks += 1
        if self.storage_error:
            raise self.storage_error

    def _pass(self, part: str) -> None:
        if not self.go_on[part].is_set():
            self.hung.set()
            self.go_on[part].wait(60)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(Spool, "check", lambda _: disk.check_storage())
    yield disk
    for event in disk.go_on.values():
        event.set()


@pytest.fixture
def watched(make_app: MakeApp, disk: Disk, make_service: MakeService) -> Service:  # noqa: ARG001 - for its pace
    """A service that is ok, over that mailer."""
    service = Service(make_app(collaborators={"mailer": disk}))
    service.wait_until(is_ok)
    return service


@pytest.mark.parametrize(("error", "state"), DISKS.values(), ids=DISKS)
def test_a_disk_that_takes_no_message_makes_it_degraded_and_the_details_say_why(
    watched: Service, disk: Disk, caplog: pytest.LogCaptureFixture, error: OSError, state: str
) -> None:
    caplog.set_level(logging.INFO, "app.mail.health")
    disk.storage_error = error
    watched.wait_until(lambda check: check.disk == state)
    during = watched.get(**VERBOSE)
    disk.storage_error = None
    watched.wait_until(is_ok)
    after = watched.get(**VERBOSE)

    assert (during["status"], during["checks"]["mail"]) == ("degraded", "fail")
    assert (during["details"]["mail"]["server"], during["details"]["mail"]["storage"]) == ("ok", state)
    assert (after["status"], after["details"]["mail"]["storage"]) == ("ok", "ok")
    assert [record.getMessage() for record in caplog.records if record.name == "app.mail.health"] == [
        f"the mail check fails: storage={state} ({type(error).__name__})",
        "the mail check passes again: storage=ok",
    ]


def test_each_change_of_the_disk_is_logged_once(watched: Service, disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    for disk.storage_error in (DISKS["full"][0], DISKS["over its quota"][0], DISKS["read-only"][0]):
        watched.wait_until(disk.checked_again())

    assert [record.args for record in caplog.records if record.name == "app.mail.health"] == [
        ("storage", "full", "OSError"),
        ("storage", "read_only", "OSError"),
    ]


def test_a_mail_server_that_hangs_hides_nothing_of_the_disk(watched: Service, disk: Disk) -> None:
    disk.hang("server")
    disk.storage_error = DISKS["full"][0]
    watched.wait_until(lambda check: check.disk == "full")
    disk.storage_error = None
    watched.wait_until(lambda check: check.disk == "ok")


def test_a_disk_that_hangs_hides_nothing_of_the_mail_server_and_counts_as_failing_in_the_end(
    clocks: Clocks, watched: Service, disk: Disk
) -> None:
    watched.wait_until(is_ok)
    disk.hang("storage")
    disk.broken = True
    watched.wait_until(lambda check: check.server == "fail")
    disk.broken = False
    watched.wait_until(lambda check: check.server == "ok")
    assert watched.mail_health.latest().disk == "ok"

    clocks.passed = 31
    watched.wait_until(lambda check: check.server == "ok")

    mail = watched.get(**VERBOSE)
    assert (mail["status"], mail["details"]["mail"]["storage"]) == ("degraded", "fail")


def test_without_a_mail_server_its_state_is_null(make_service: MakeService) -> None:
    service = make_service()
    service.wait_until(is_ok)

    mail = service.get(**VERBOSE)["details"]["mail"]

    assert (mail["server"], mail["storage"]) == (None, "ok")


@pytest.mark.usefixtures("broken_store")
def test_the_disk_is_judged_also_where_messages_are_sent(make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ)
    service.wait_until(lambda check: check.server == "ok" and check.disk is not None)

    mail = service.get(**VERBOSE)["details"]["mail"]
    assert (mail["server"], mail["storage"]) == ("ok", "fail")


def test_verbose_adds_details(make_service: MakeService, server: SmtpServer) -> None:
    service = make_service(**server.environ)
    service.wait_until(is_ok)

    data = service.get(**VERBOSE)

    assert set(data) == {*service.get(verbose="false"), "details"}
    assert set(data["details"]) == {"uptime_seconds", "mail", "rate_limit"}
    mail = data["details"]["mail"]
    assert set(mail) == {"transport", "checked_at", "latency_ms", "undelivered", "server", "storage"}
    assert datetime.now(UTC) - datetime.fromisoformat(mail["checked_at"]) <= timedelta(seconds=30)
    assert mail["latency_ms"] > 0
    assert mail["undelivered"] == 0


def test_verbose_counts_undelivered_messages(
    make_service: MakeService, undelivered: Callable[..., None], tmp_path: Path
) -> None:
    with SmtpServer() as away:  # else the service could hand them over once it finds the mail server
        pass
    undelivered(letter(1), letter(2))
    path, _ = (tmp_path / "mail" / "new").iterdir()
    path.rename(tmp_path / "mail" / "cur" / f"{path.name}:2,S")
    (tmp_path / "mail" / "new" / "1").touch()
    service = make_service(**away.environ)

    service.wait_until(lambda check: check.undelivered == 2)

    assert service.get(**VERBOSE)["details"]["mail"]["undelivered"] == 2


@pytest.mark.parametrize("replies", [{}, {"MAIL": "550 no"}, {"connect": "554 mail.example.com"}], ids=str)
def test_no_host_address_or_account_shows(make_service: MakeService, replies: Replies) -> None:
    with SmtpServer(account=("account-7", "secret-7"), replies=replies) as server:
        service = make_service(**server.environ)
        service.wait_until(lambda check: check.checked_at is not None)
        text = str(service.get(**VERBOSE))

    for private in ("127.0.0.1", str(server.port), "example.com", "@", "account-7", "secret-7"):
        assert private not in text
