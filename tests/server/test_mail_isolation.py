"""A slow mail server, a signal and a second process, with the real gunicorn: nothing is lost and nobody is held up."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.parser import BytesHeaderParser
from pathlib import Path

import pytest

from tests.factories import contact_body
from tests.mail.scripted import Act, ScriptedServer
from tests.server.gunicorn import ROOT, Server, newest_worker, serving

STATES = {"RCPT": "waiting", "message": "in doubt"}
"""What is known of a message while the server hangs at that stage."""

THREADS = 8


REFUSED = (500, "mail_delivery_failed")
ACCEPTED = (200, None)


def post(service: Server, client: int = 0) -> tuple[int, str | None]:
    """What a client at an address of its own is answered: the status and the error's code."""
    response, body = service.request(
        "POST",
        "/api/v1/contact",
        json.dumps(contact_body()).encode(),
        {"Content-Type": "application/json", "X-Forwarded-For": f"198.51.100.{client}"},
    )
    return response.status, json.loads(body).get("error", {}).get("code")


def get_health(service: Server, client: int) -> int:
    response, _ = service.request("GET", "/api/v1/health", headers={"X-Forwarded-For": f"203.0.113.{client}"})
    return response.status


def settings(mail_server: ScriptedServer, **changes: str) -> dict[str, str]:
    return mail_server.environ | {"TRUSTED_PROXIES": "1", "THREADS": str(THREADS), "SMTP_TIMEOUT": "20"} | changes


def operate(directory: Path, mail_server: ScriptedServer, command: str) -> str:
    """What `flask mail` says in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "flask", "--app", "wsgi", "mail", command],
        cwd=ROOT,
        env=os.environ | settings(mail_server) | {"MAIL_DIR": str(directory / "mail")},
        stdout=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    ).stdout


def listed(directory: Path, mail_server: ScriptedServer) -> list[tuple[str, str]]:
    """State and Message-ID of what is undelivered."""
    output = operate(directory, mail_server, "list")
    return re.findall(r"(waiting|in doubt) +(<\S+>)$", output, re.MULTILINE)


def message_id(content: bytes) -> str:
    return str(BytesHeaderParser().parsebytes(content)["Message-ID"])


def kept(directory: Path) -> list[Path]:
    return [path for path in (directory / "mail").rglob("*") if path.is_file()]


def kill_worker(service: Server) -> None:
    os.kill(newest_worker(service.log), signal.SIGKILL)


def kill_all(service: Server) -> None:
    worker = newest_worker(service.log)
    service.process.kill()
    os.kill(worker, signal.SIGKILL)
    service.process.wait()


@pytest.mark.parametrize("stage", STATES)
@pytest.mark.parametrize("kill", [kill_worker, kill_all])
def test_what_was_under_way_when_the_service_was_killed_is_not_lost(
    tmp_path: Path, stage: str, kill: Callable[[Server], None]
) -> None:
    with ScriptedServer({stage: Act.HANG}) as mail_server:
        with serving(tmp_path, **settings(mail_server)) as service, ThreadPoolExecutor(1) as pool:
            posted = pool.submit(post, service)
            mail_server.wait_until_hung()
            kill(service)
            with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
                posted.result()
            if kill is kill_worker:
                assert service.request("OPTIONS", "/api")[0].status == 204

        mail_server.script = {}
        with serving(tmp_path, **settings(mail_server)):
            ((state, kept_id),) = listed(tmp_path, mail_server)
            output = operate(tmp_path, mail_server, "resend")

    assert state == STATES[stage]
    assert "delivered: 250" in output
    assert [message_id(content) for content in mail_server.taken] == [kept_id]
    assert kept(tmp_path) == []


def test_a_hand_over_that_runs_when_the_service_is_told_to_stop_comes_to_its_end(tmp_path: Path) -> None:
    with (
        ScriptedServer({"message": Act.HOLD}) as mail_server,
        serving(tmp_path, **settings(mail_server)) as service,
        ThreadPoolExecutor(1) as pool,
    ):
        posted = pool.submit(post, service)
        mail_server.wait_until_hung()
        service.process.terminate()
        service.wait_until_it_takes_no_requests()
        mail_server.released.set()
        answer = posted.result()

    assert answer == ACCEPTED
    assert service.process.returncode == 0
    assert len(mail_server.received) == len(mail_server.taken) == 1
    assert kept(tmp_path) == []


def test_posts_that_hang_in_the_mail_server_keep_nobody_else_waiting(tmp_path: Path) -> None:
    with (
        ScriptedServer({"connect": Act.HANG}) as mail_server,
        # So long that a GET which waits for a post, or for one that waits for a place, comes to nothing.
        serving(tmp_path, **settings(mail_server, SMTP_TIMEOUT="300")) as service,
        ThreadPoolExecutor(2 * THREADS) as pool,
    ):
        posted = [pool.submit(post, service, client) for client in range(2 * THREADS)]
        # One more than half of the threads: the health check hangs too.
        mail_server.wait_until_hung(THREADS // 2 + 1)
        try:
            health = {get_health(service, client) for client in range(50)}
            still_hanging = sum(not answer.done() for answer in posted)
        finally:
            mail_server.released.set()
        answers = {answer.result() for answer in posted}
        undelivered = listed(tmp_path, mail_server)

    assert health == {200}
    assert still_hanging >= THREADS // 2
    assert answers == {REFUSED}
    assert len({message_id for _, message_id in undelivered}) == 2 * THREADS
    assert {state for state, _ in undelivered} == {"waiting"}


def test_a_post_that_hangs_is_answered_within_the_time_allowed(tmp_path: Path) -> None:
    with (
        ScriptedServer({"connect": Act.HANG}) as mail_server,
        serving(tmp_path, **settings(mail_server, SMTP_TIMEOUT="1")) as service,
        ThreadPoolExecutor(2 * THREADS) as pool,
    ):
        answers = set(pool.map(lambda client: post(service, client), range(2 * THREADS)))

        # The mail server still hangs: had the service waited for it, nobody would have been answered.
        assert answers == {REFUSED}
        assert len(kept(tmp_path)) == 2 * THREADS


@pytest.mark.parametrize("pipelining", [False, True], ids=["one by one", "pipelining"])
def test_a_burst_through_a_slow_relay_is_delivered(
    tmp_path: Path,
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    burst = THREADS * 3 // 4

    with (
        ScriptedServer(seconds_per_reply=0.02, pipelining=pipelining) as mail_server,
        serving(tmp_path, **settings(mail_server, SMTP_TIMEOUT="60")) as service,
        ThreadPoolExecutor(burst) as pool,
    ):
        answers = list(pool.map(lambda client: post(service, client), range(burst)))

    assert answers == [ACCEPTED] * burst
    assert len(mail_server.taken) == burst
    assert kept(tmp_path) == []


@pytest.mark.parametrize("stage", STATES)
def test_a_resend_leaves_a_message_to_the_service_that_is_sending_it(tmp_path: Path, stage: str) -> None:
    with (
        ScriptedServer({stage: Act.HOLD}) as mail_server,
        serving(tmp_path, **settings(mail_server)) as service,
        ThreadPoolExecutor(1) as pool,
    ):
        posted = pool.submit(post, service)
        mail_server.wait_until_hung()
        mail_server.script = {}
        output = operate(tmp_path, mail_server, "resend")
        taken_by_then = list(mail_server.taken)
        mail_server.released.set()
        answer = posted.result()

    assert "skipped" in output
    assert taken_by_then == []
    assert answer == ACCEPTED
    assert len(mail_server.received) == 1
    assert kept(tmp_path) == []
