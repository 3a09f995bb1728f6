"""The checks of the mail server and of MAIL_DIR: what they find, log and tell, and that a request waits for neither."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from flask import Flask
from freezegun import freeze_time

from app import create_app
from app.mail import smtp
from app.mail.health import CHECK_INTERVAL, MAX_AGE, MailHealth
from app.mail.redelivery import Redelivery
from app.mail.smtp import CHECK_SECONDS
from app.mail.spool import Spool
from tests.conftest import MakeApp
from tests.factories import make_settings
from tests.mail.conftest import MakeMailer, keep, letter
from tests.mail.server import Act, Replies, SmtpServer
from tests.mail.service import Clock
from tests.waiting import wait_until

MakeHealth = Callable[..., MailHealth]


@pytest.fixture
def told() -> list[bool]:
    """What the redelivery is told of the mail server."""
    return []


@pytest.fixture
def make_health(
    make_mailer: MakeMailer, mail_dir: Path, told: list[bool], monkeypatch: pytest.MonkeyPatch
) -> MakeHealth:
    """Makes the checks, which a test runs one by one."""

    def make(server: SmtpServer | None = None, **environ: str) -> MailHealth:
        mailer, spool = make_mailer(server, **environ), Spool(mail_dir)
        redelivery = Redelivery(mailer, spool, patience=1)
        monkeypatch.setattr(redelivery, "server_checked", told.append)
        return MailHealth(mailer, spool, redelivery)

    return make


def run(health: MailHealth) -> tuple[bool, str | None, str | None]:
    """What both checks find now: whether mail is ok, the state of the server and that of the disk."""
    assert [check.run() for check in health.checks] == [CHECK_INTERVAL] * len(health.checks)
    return health.latest()[:3]


REFUSES_THE_LOGIN = {"EHLO": "250-x\r\n250 AUTH PLAIN", "AUTH": "535 5.7.8 web@example.com"}
LOGIN = {"SMTP_USERNAME": "web", "SMTP_PASSWORD": "wrong"}
SERVERS: dict[str, tuple[Replies, dict[str, str], str]] = {
    "refuses the connection": ({"connect": "554 5.3.2 no service"}, {}, "SMTPConnectError 554 5.3.2 no service"),
    "is busy": ({"EHLO": "421 4.7.0 Try again later"}, {}, "SMTPHeloError 421 4.7.0 Try again later"),
    "ends the connection": ({"EHLO": Act.DROP}, {}, "SMTPServerDisconnected"),
    "rejects the login": (REFUSES_THE_LOGIN, LOGIN, "SMTPAuthenticationError 535"),
    "has no STARTTLS": ({}, {"SMTP_SECURITY": "starttls"}, "SMTPNotSupportedError"),
}
"""What the server does, the settings, and what the log says of it."""


@pytest.mark.parametrize(("replies", "environ", "logged"), SERVERS.values(), ids=SERVERS)
def test_a_fault_of_the_server_is_found_logged_once_and_forgotten_when_it_is_over(
    make_health: MakeHealth,
    told: list[bool],
    caplog: pytest.LogCaptureFixture,
    replies: Replies,
    environ: dict[str, str],
    logged: str,
) -> None:
    caplog.set_level("INFO", "app.mail.health")
    with SmtpServer(replies) as server:
        health = make_health(server, **environ)
        found = [run(health), run(health)]
        server.replies = {}
        if is_over := not environ:
            found.append(run(health))

    assert found == [(False, "fail", "ok")] * 2 + [(True, "ok", "ok")] * is_over
    recovery = ["the mail check passes again: server=ok"] * is_over
    assert caplog.messages == [f"the mail check fails: server=fail ({logged})", *recovery]
    assert told == [False, False] + [True] * is_over
    assert server.arrivals == []


DISK: list[tuple[OSError | None, str, str]] = [
    (OSError(errno.ENOSPC, "No space left on device"), "full", "the mail check fails: storage=full (OSError)"),
    (OSError(errno.EDQUOT, "Quota exceeded"), "full", ""),
    (OSError(errno.EROFS, "Read-only"), "read_only", "the mail check fails: storage=read_only (OSError)"),
    (OSError(errno.EACCES, "Denied"), "fail", "the mail check fails: storage=fail (PermissionError)"),
    (None, "ok", "the mail check passes again: storage=ok"),
]
"""What becomes of the disk, what is found then, and what the log says if that has changed."""


def test_each_change_of_the_disk_is_found_and_logged_once(
    make_health: MakeHealth, told: list[bool], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "app.mail.health")
    twice = [row for row in DISK for _ in range(2)]
    monkeypatch.setattr(Spool, "probe", Mock(side_effect=[error for error, _, _ in twice]))
    with SmtpServer() as server:
        health = make_health(server)
        found = [run(health) for _ in twice]

    assert found == [(state == "ok", "ok", state) for _, state, _ in twice]
    assert caplog.messages == [line for _, _, line in DISK if line]
    assert told == [True] * len(twice)


def test_a_store_that_cannot_be_prepared_or_is_gone_is_made_again(make_health: MakeHealth, mail_dir: Path) -> None:
    health = make_health()
    mail_dir.mkdir()
    (mail_dir / "new").touch()
    assert run(health) == (False, None, "fail")

    (mail_dir / "new").unlink()
    assert run(health) == (True, None, "ok")

    shutil.rmtree(mail_dir)
    assert run(health) == (True, None, "ok")
    assert (mail_dir / "cur").is_dir()


def test_a_result_is_too_old_after_30_seconds_whatever_the_wall_clock_says(
    make_health: MakeHealth, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smtp, "CHECK_SECONDS", 300)  # it hangs until it is released
    with SmtpServer() as server, ThreadPoolExecutor(1) as pool:
        health = make_health(server, SMTP_TIMEOUT="300")
        run(health)
        server.replies = {"NOOP": Act.HANG}
        hanging = pool.submit(health.checks[0].run)
        server.wait_until_hung()
        clock.wall = 3600
        ahead = health.latest()[:3]
        clock.wall = -3600
        behind = health.latest()[:3]
        clock.passed = 31
        health.checks[1].run()
        old = health.latest()[:3]
        server.release()
        hanging.result()
        health.checks[0].run()

        assert (ahead, behind, old) == ((True, "ok", "ok"), (True, "ok", "ok"), (False, "fail", "ok"))
        assert health.latest().ok

    assert CHECK_INTERVAL + CHECK_SECONDS <= MAX_AGE == 30


def test_the_last_check_is_shown_with_its_time_by_the_wall_clock(make_health: MakeHealth) -> None:
    with SmtpServer() as server, freeze_time("2030-01-01 12:00:00") as wall:
        health = make_health(server)
        assert health.latest()[3:5] == (None, None)
        run(health)
        wall.tick(20)
        health.checks[0].run()

        assert health.latest().checked_at == datetime(2030, 1, 1, 12, 0, 20, tzinfo=UTC)


REAL: dict[str, None] = {"mailer": None}
"""For a whole app with a mailer of its own, whose checks run by themselves."""


def get(app: Flask, **query: str) -> dict[str, Any]:
    response = app.test_client().get("/api/v1/health", query_string=query)
    assert response.status_code == 200
    return cast("dict[str, Any]", response.get_json()["data"])


def health_of(app: Flask) -> MailHealth:
    return cast("MailHealth", app.extensions["background"].mail_health)


def test_the_service_is_degraded_until_the_server_is_back_and_counts_what_is_undelivered(
    make_app: MakeApp, tmp_path: Path
) -> None:
    path = tmp_path / "mail" / keep(tmp_path / "mail", letter(1)).path
    path.rename(tmp_path / "mail" / "cur" / f"{path.name}:2,S")  # as a mail reader does
    keep(tmp_path / "mail", letter(2))
    (tmp_path / "mail" / "new" / "1").touch()
    server = SmtpServer()
    app = make_app(collaborators=REAL, **server.environ)
    during = get(app, verbose="true")
    with server:
        health_of(app).checks[0].run()
        after = get(app)

    assert (during["status"], during["checks"]) == ("degraded", {"api": "ok", "mail": "fail"})
    details = {"transport": "smtp", "server": "fail", "storage": "ok", "undelivered": 2}
    assert during["details"]["mail"].items() >= details.items()
    assert (after["status"], after["checks"]) == ("ok", {"api": "ok", "mail": "ok"})
    assert set(during) == {*after, "details"}


def test_a_server_that_hangs_makes_nobody_wait_and_hides_nothing_of_the_disk(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "new").touch()
    with SmtpServer({"connect": Act.HANG}) as server:
        app = make_app(collaborators=REAL, first_check=0, **server.environ | {"SMTP_TIMEOUT": "300"})
        server.wait_until_hung()
        wait_until(lambda: health_of(app).latest().disk == "fail")
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: get(app, verbose="true"), range(16)))
        server.release()

    assert {answer["status"] for answer in answers} == {"degraded"}
    assert {answer["details"]["mail"]["checked_at"] for answer in answers} == {None}
    assert len(server.connections) == 1


def test_a_disk_that_hangs_hides_nothing_of_the_mail_server(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on = threading.Event()
    monkeypatch.setattr(Spool, "check", lambda _: going_on.wait(60))
    with SmtpServer() as server:
        health = health_of(make_app(collaborators=REAL, first_check=0, **server.environ))
        wait_until(lambda: health.latest().server == "ok")
        found = health.latest()[:3]
        going_on.set()

    assert found == (False, "ok", None)


def test_the_first_answers_wait_for_the_disk_where_no_server_has_started_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Spool.check

    def check_slowly(spool: Spool) -> None:
        threading.Event().wait(0.1)
        check(spool)

    monkeypatch.setattr(Spool, "check", check_slowly)
    app = create_app(make_settings(tmp_path / "mail"))

    with ThreadPoolExecutor(8) as askers:
        first = list(askers.map(lambda _: get(app)["status"], range(8)))
    app.extensions["background"].stop()

    assert first == ["ok"] * 8


@pytest.mark.parametrize("replies", [{}, {"AUTH": "535 account-7@example.com"}, {"connect": "554 mail.example.com"}])
def test_no_host_address_or_account_shows(make_app: MakeApp, replies: Replies) -> None:
    with SmtpServer(account=("account-7", "secret-7"), replies=replies) as server:
        text = str(get(make_app(collaborators=REAL, **server.environ), verbose="true"))

    private = ("127.0.0.1", str(server.port), "example.com", "@", "account-7", "secret-7")
    assert [word for word in private if word in text] == []
