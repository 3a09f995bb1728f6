"""A slow mail server, a signal and a second process, with the real gunicorn: nothing is lost and nobody is held up."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from email.parser import BytesHeaderParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.mail.cli import create_mail_commands
from app.mail.mailer import create_mailer
from app.mail.spool import create_spool
from tests.factories import contact_body, make_settings
from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import ROOT, Server, newest_worker, serving
from tests.waiting import wait_until

STAGES = ("RCPT", "message")
"""At the first the server has certainly not taken a message, and from the second on it is in doubt."""

THREADS = 8


REFUSED = (500, "mail_delivery_failed")
ACCEPTED = (200, None)


CLIENTS = itertools.count()


def post(service: Server) -> tuple[int, str | None]:
    """What a client at an address of its own is answered: the status and the error's code."""
    response, body = service.request(
        "POST",
        "/api/v1/contact",
        json.dumps(contact_body()).encode(),
        {"Content-Type": "application/json", "X-Forwarded-For": f"198.51.100.{next(CLIENTS)}"},
    )
    return response.status, json.loads(body).get("error", {}).get("code")


def get_health(service: Server, client: int) -> int:
    response, _ = service.request("GET", "/api/v1/health", headers={"X-Forwarded-For": f"203.0.113.{client}"})
    return response.status


def settings(mail_server: SmtpServer, **changes: str) -> dict[str, str]:
    return mail_server.environ | {"TRUSTED_PROXIES": "1", "THREADS": str(THREADS), "SMTP_TIMEOUT": "20"} | changes


def operate(service: Server, mail_server: SmtpServer, command: str) -> str:
    """What `flask mail` says in another process than the service's: in this one."""
    here = make_settings(service.mail_dir, **settings(mail_server))
    spool = create_spool(here)
    commands = create_mail_commands(here, create_mailer(here, spool), spool)
    return CliRunner().invoke(commands, [command]).stdout


def resend(service: Server, mail_server: SmtpServer) -> str:
    """What `flask mail resend` says in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "flask", "--app", "wsgi", "mail", "resend"],
        cwd=ROOT,
        env=os.environ | settings(mail_server) | {"MAIL_DIR": str(service.mail_dir)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    ).stdout


def listed(service: Server, mail_server: SmtpServer) -> list[tuple[str, str]]:
    """State and local part of the Message-ID of what is undelivered."""
    output = operate(service, mail_server, "list")
    return re.findall(r"(waiting|in doubt) +(\S+)$", output, re.MULTILINE)


def local_part(content: bytes) -> str:
    """The local part of the Message-ID."""
    return str(BytesHeaderParser().parsebytes(content)["Message-ID"]).strip("<>").partition("@")[0]


def kept(service: Server) -> list[Path]:
    return [path for path in service.mail_dir.rglob("*") if path.is_file()]


def kill_all(service: Server) -> None:
    worker = newest_worker(service.log)
    service.process.kill()
    os.kill(worker, signal.SIGKILL)
    service.process.wait()


@pytest.mark.parametrize("stage", STAGES)
def test_what_was_under_way_when_the_service_was_killed_is_not_lost(tmp_path: Path, stage: str) -> None:
    with SmtpServer({stage: Act.HANG}) as mail_server:
        with serving(tmp_path, **settings(mail_server)) as service, ThreadPoolExecutor(1) as pool:
            posted = pool.submit(post, service)
            mail_server.wait_until_hung()
            mail_server.replies = {}
            kill_all(service)
            with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
                posted.result()

        with serving(tmp_path, **settings(mail_server)) as service:
            if stage == "message":  # what is in doubt waits for the operator
                ((state, kept_id),) = listed(service, mail_server)
                output = resend(service, mail_server)
                assert (state, local_part(mail_server.taken[0].content)) == ("in doubt", kept_id)
                assert "delivered: 250" in output
            wait_until(lambda: not kept(service))

    assert len(mail_server.taken) == 1


def test_a_hand_over_that_runs_when_the_service_is_told_to_stop_comes_to_its_end(tmp_path: Path) -> None:
    with (
        SmtpServer({"message": Act.HOLD}) as mail_server,
        serving(tmp_path, **settings(mail_server)) as service,
        ThreadPoolExecutor(1) as pool,
    ):
        posted = pool.submit(post, service)
        mail_server.wait_until_hung()
        service.tell_to_stop()
        mail_server.release()
        answer = posted.result()

    assert answer == ACCEPTED
    assert service.process.returncode == 0
    assert len(mail_server.arrivals) == len(mail_server.taken) == 1
    assert kept(service) == []


def test_posts_that_hang_in_the_mail_server_keep_nobody_else_waiting(tmp_path: Path) -> None:
    with (
        SmtpServer({"connect": Act.HANG}) as mail_server,
        # So long that a GET which waits for a post, or for one that waits for a place, comes to nothing.
        serving(tmp_path, **settings(mail_server, SMTP_TIMEOUT="300")) as service,
        ThreadPoolExecutor(2 * THREADS) as pool,
    ):
        posted = [pool.submit(post, service) for _ in range(2 * THREADS)]
        # One more than half of the threads: the health check hangs too.
        mail_server.wait_until_hung(THREADS // 2 + 1)
        try:
            health = {get_health(service, client) for client in range(50)}
            still_hanging = sum(not answer.done() for answer in posted)
        finally:
            mail_server.release()
        answers = {answer.result() for answer in posted}
        undelivered = listed(service, mail_server)

    assert health == {200}
    assert still_hanging >= THREADS // 2
    assert answers == {REFUSED}
    assert len({local_part for _, local_part in undelivered}) == 2 * THREADS
    assert {state for state, _ in undelivered} == {"waiting"}


def test_a_post_that_hangs_is_answered_within_the_time_allowed(tmp_path: Path) -> None:
    with (
        SmtpServer({"connect": Act.HANG}) as mail_server,
        serving(tmp_path, **settings(mail_server, SMTP_TIMEOUT="1")) as service,
        ThreadPoolExecutor(2 * THREADS) as pool,
    ):
        answers = set(pool.map(post, [service] * 2 * THREADS))

        # The mail server still hangs: had the service waited for it, nobody would have been answered.
        assert answers == {REFUSED}
        assert len(kept(service)) == 2 * THREADS


@pytest.mark.parametrize("pipelining", [False, True], ids=["one by one", "pipelining"])
def test_a_burst_through_a_slow_relay_is_delivered(tmp_path: Path, *, pipelining: bool) -> None:
    burst = THREADS * 3 // 4

    with (
        SmtpServer(seconds_per_reply=0.02, pipelining=pipelining) as mail_server,
        serving(tmp_path, **settings(mail_server, SMTP_TIMEOUT="60")) as service,
        ThreadPoolExecutor(burst) as pool,
    ):
        answers = list(pool.map(post, [service] * burst))

    assert answers == [ACCEPTED] * burst
    assert len(mail_server.taken) == burst
    assert kept(service) == []
