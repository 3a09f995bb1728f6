"""The checks of the mail server and of MAIL_DIR: what they find, log and tell, and how little they ask."""

import errno
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock, call

import pytest
from flask import Flask

from app.mail.health import CHECK_INTERVAL, MAX_AGE, MailHealth
from app.mail.mailer import Mailer
from app.mail.message import Message
from app.mail.queued import QueueCounts
from app.mail.smtp import CHECK_SECONDS, MAX_NOOPS
from app.mail.spool import Spool
from tests.conftest import MakeApp
from tests.mail.conftest import Clock, MakeMailer, keep, numbered
from tests.mail.server import ACCOUNT, Act, Replies, SmtpServer
from tests.versions import HEALTH
from tests.waiting import wait_until

HOUR = 3600

MakeHealth = Callable[..., MailHealth]


@pytest.fixture
def redelivery() -> Mock:
    """What is told of the mail server."""
    return Mock(counts=QueueCounts([]))


@pytest.fixture
def make_health(make_mailer: MakeMailer, mail_dir: Path, redelivery: Mock) -> MakeHealth:
    """Makes the checks, which a test runs one by one."""
    return lambda server=None: MailHealth(make_mailer(server), Spool(mail_dir), redelivery)


def run(health: MailHealth) -> tuple[bool, str | None, str | None]:
    """What both checks find now: whether mail is ok, the state of the server and that of the disk."""
    assert [check.run() for check in health.checks] == [CHECK_INTERVAL] * len(health.checks)
    return health.latest()[:3]


SERVERS: dict[str, tuple[Replies, str]] = {
    "is busy": (
        {"EHLO": "421 4.7.0 Try again later"},
        "the mail server refused this host's EHLO: 421 4.7.0 Try again later",
    ),
    "ends the connection": ({"EHLO": Act.DROP}, "the connection to the mail server was lost: no complete reply"),
    "rejects the login": (
        {"AUTH": "535 5.7.8 web@example.com"},
        "the mail server refused SMTP_USERNAME with SMTP_PASSWORD: 535",
    ),
}
"""What the server does, and what the log says of it."""


@pytest.mark.parametrize(("replies", "logged"), SERVERS.values(), ids=SERVERS)
def test_a_fault_of_the_server_is_found_logged_once_and_forgotten_when_it_is_over(
    make_health: MakeHealth, redelivery: Mock, caplog: pytest.LogCaptureFixture, replies: Replies, logged: str
) -> None:
    caplog.set_level("INFO", "app.mail.health")
    with SmtpServer(replies, account=ACCOUNT) as server:
        health = make_health(server)
        during = [run(health), run(health)]
        server.replies = {}
        after = run(health)

    assert (during, after) == ([(False, "fail", "ok")] * 2, (True, "ok", "ok"))
    assert caplog.messages == [
        f"the mail check fails: server=fail ({logged})",
        "the mail check passes again: server=ok",
    ]
    assert redelivery.server_checked.mock_calls == [call(False), call(False), call(True)]
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
    make_health: MakeHealth, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "app.mail.health")
    twice = [row for row in DISK for _ in range(2)]
    monkeypatch.setattr(Spool, "check", Mock(side_effect=[error for error, _, _ in twice]))
    with SmtpServer() as server:
        health = make_health(server)
        found = [run(health) for _ in twice]

    assert found == [(state == "ok", "ok", state) for _, state, _ in twice]
    assert caplog.messages == [line for _, _, line in DISK if line]


def test_a_result_is_too_old_after_30_seconds_whatever_the_wall_clock_says(
    make_health: MakeHealth, clock: Clock
) -> None:
    with SmtpServer() as server:
        health = make_health(server)
        run(health)
    clock.wall = HOUR
    ahead = health.latest()[:3]
    clock.wall, clock.passed = -HOUR, 31
    health.checks[1].run()

    assert (ahead, health.latest()[:3]) == ((True, "ok", "ok"), (False, "fail", "ok"))
    assert CHECK_INTERVAL + CHECK_SECONDS <= MAX_AGE == 30


REAL: dict[str, None] = {"mailer": None}
"""For a whole app with a mailer of its own, whose checks run by themselves."""


def get(app: Flask, **query: str) -> dict[str, Any]:
    response = app.test_client().get(HEALTH, query_string=query)
    assert response.status_code == 200
    return cast("dict[str, Any]", response.get_json()["data"])


def health_of(app: Flask) -> MailHealth:
    return cast("MailHealth", app.extensions["mail_health"])


def test_the_service_is_degraded_until_the_server_is_back_and_counts_what_is_undelivered(
    make_app: MakeApp, mail_dir: Path
) -> None:
    path = mail_dir / keep(mail_dir, numbered(1)).path
    path.rename(mail_dir / "cur" / f"{path.name}:2,S")  # as a mail reader does
    keep(mail_dir, numbered(2))
    (mail_dir / "new" / "1").touch()
    server = SmtpServer(seconds_per_reply=0.02)
    app = make_app(collaborators=REAL, **server.environ)
    during = get(app, verbose="true")
    with server:
        begun = time.perf_counter()
        health_of(app).checks[0].run()
        passed = time.perf_counter() - begun
        after = get(app, verbose="true")

    assert (during["status"], during["checks"]) == ("degraded", {"api": "ok", "mail": "fail"})
    details = during["details"]["mail"]
    assert datetime.fromisoformat(details.pop("checked_at")) > datetime.now(UTC) - timedelta(minutes=5)
    assert details.pop("latency_ms") >= 0
    assert 20 < after["details"]["mail"]["latency_ms"] < passed * 1000
    assert details == {"transport": "smtp", "server": "fail", "storage": "ok", "undelivered": 2}
    assert (after["status"], after["checks"]) == ("ok", {"api": "ok", "mail": "ok"})


def test_a_server_that_hangs_makes_nobody_wait_and_hides_nothing_of_the_disk(make_app: MakeApp, mail_dir: Path) -> None:
    mail_dir.mkdir()
    (mail_dir / "new").touch()
    with SmtpServer({"connect": Act.HANG}) as server:
        app = make_app(collaborators=REAL, first_check=0, **server.environ | {"SMTP_TIMEOUT": "300"})
        server.wait_until_hung()
        wait_until(lambda: health_of(app).latest().disk == "fail")
        answers = [get(app, verbose="true") for _ in range(3)]
        server.release()

    assert [(it["status"], it["details"]["mail"]["checked_at"]) for it in answers] == [("degraded", None)] * 3
    assert len(server.connections) == 1


def check(mailer: Mailer) -> None:
    assert mailer.sender
    mailer.sender.check()


def test_a_connection_is_kept_by_noops_which_count_anew_after_a_message(
    make_mailer: MakeMailer, message: Message, clock: Clock
) -> None:
    with SmtpServer(account=ACCOUNT) as server:
        mailer = make_mailer(server)
        for is_check in [*[True] * (1 + MAX_NOOPS), False, *[True] * (MAX_NOOPS + 1)]:
            check(mailer) if is_check else mailer.deliver(message)
            clock.passed += CHECK_INTERVAL

    said = [[command.upper().split()[0] for command in connection.commands] for connection in server.connections]
    noops = ["NOOP"] * MAX_NOOPS
    assert said == [["EHLO", "AUTH", *noops, "MAIL", "RCPT", "DATA", *noops, "QUIT"], ["EHLO", "AUTH"]]
    assert [arrival.content for arrival in server.taken] == [message.content]


@pytest.mark.parametrize("reply", [Act.DROP, Act.RESET, "421 4.4.2 idle for too long", "554 Too many nonmail commands"])
def test_a_connection_that_is_gone_is_replaced_within_the_same_check(
    make_mailer: MakeMailer, message: Message, reply: str | Act
) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server)
        check(mailer)
        server.connections[0].replies = {"NOOP": reply}
        check(mailer)
        mailer.deliver(message)

    assert len(server.connections) == 2
    assert [arrival.content for arrival in server.taken] == [message.content]


def test_a_connection_that_falls_silent_leaves_half_of_the_time_for_another_one(
    make_mailer: MakeMailer, clock: Clock
) -> None:
    begun = time.perf_counter()
    with SmtpServer() as server:
        mailer = make_mailer(server, SMTP_TIMEOUT="60")
        check(mailer)
        server.connections[0].replies = {"NOOP": Act.HANG}
        clock.skip_after(b"NOOP", CHECK_SECONDS / 2 - 0.1)
        check(mailer)

    assert len(server.connections) == 2
    assert time.perf_counter() - begun < CHECK_SECONDS / 2


def test_a_check_takes_no_longer_than_a_form_may(make_mailer: MakeMailer, clock: Clock) -> None:
    with SmtpServer() as server:
        mailer = make_mailer(server, SMTP_TIMEOUT="2")
        clock.skip_after(b"ehlo", 3)
        with pytest.raises(OSError, match="SMTP_TIMEOUT"):
            check(mailer)


def test_an_idle_process_logs_in_at_most_12_times_an_hour(
    make_health: MakeHealth, redelivery: Mock, clock: Clock
) -> None:
    with SmtpServer(security="starttls", account=ACCOUNT) as server:
        check, _ = make_health(server).checks
        while clock.passed < HOUR:
            clock.passed += check.run()

    assert redelivery.server_checked.mock_calls == [call(True)] * (HOUR // int(CHECK_INTERVAL))
    assert 0 < server.logins <= 12
