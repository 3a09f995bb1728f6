"""A mail server that hangs, a kill and a stop, with the real gunicorn: nothing is lost and nobody is held up."""

from __future__ import annotations

import http.client
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app import create_app
from app.mail.kept import State
from tests.factories import make_settings
from tests.mail.conftest import kept
from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import Server, newest_worker, serving
from tests.waiting import wait_until

THREADS = 8


def settings(mail_server: SmtpServer) -> dict[str, str]:
    """So much time that whoever waits for a mail server that hangs gets no answer in the time of a test."""
    return mail_server.environ | {"THREADS": str(THREADS), "SMTP_TIMEOUT": "300"}


def post(service: Server) -> tuple[int, str | None, str | None]:
    """What a client at an address of its own is answered: status, code of the error, and the field Connection."""
    response, answer = service.new_client().post_form()
    return response.status, json.loads(answer).get("error", {}).get("code"), response.headers["Connection"]


def states(service: Server) -> list[State]:
    return [message.state for message in kept(service.mail_dir)]


def test_posts_that_hang_in_the_mail_server_keep_nobody_else_waiting(tmp_path: Path) -> None:
    with (
        SmtpServer({"connect": Act.HANG}) as mail_server,
        serving(tmp_path, **settings(mail_server)) as service,
        ThreadPoolExecutor(2 * THREADS) as pool,
    ):
        posted = [pool.submit(post, service) for _ in range(2 * THREADS)]
        mail_server.wait_until_hung(THREADS // 2 + 1)  # the check of the mail server hangs, too
        try:
            others = {service.new_client().request("GET", "/api/v1/health")[0].status for _ in range(50)}
            still_hanging = sum(not answer.done() for answer in posted)
        finally:
            mail_server.release()
        answers = {answer.result()[:2] for answer in posted}
        left = states(service)

    assert others == {200}
    assert still_hanging >= THREADS // 2
    assert answers == {(500, "mail_delivery_failed")}
    assert left == [State.WAITING] * 2 * THREADS


@pytest.mark.needs("/proc")
def test_forms_that_are_handed_over_when_the_service_is_told_to_stop_arrive(tmp_path: Path) -> None:
    """So many at once: half of the threads hand over, and a quarter waits for them."""
    forms = THREADS * 3 // 4
    with (
        SmtpServer({"message": Act.HOLD}) as mail_server,
        serving(tmp_path, **settings(mail_server)) as service,
        ThreadPoolExecutor(forms) as pool,
    ):
        posted = [pool.submit(post, service) for _ in range(forms)]
        mail_server.wait_until_hung(THREADS // 2)
        wait_until(lambda: len(states(service)) == forms)
        service.tell_to_stop()
        mail_server.release()
        answers = [answer.result() for answer in posted]

    assert answers == [(200, None, "close")] * forms
    assert service.process.returncode == 0
    assert len(mail_server.arrivals) == len(mail_server.taken) == forms
    assert states(service) == []
    assert {connection.commands[-1].upper() for connection in mail_server.connections} == {"QUIT"}


def test_what_is_in_doubt_when_the_service_is_killed_waits_for_the_operator(tmp_path: Path) -> None:
    with SmtpServer({"message": Act.HANG}) as mail_server:
        with serving(tmp_path, **settings(mail_server)) as service, ThreadPoolExecutor(1) as pool:
            posted = pool.submit(post, service)
            mail_server.wait_until_hung()
            mail_server.replies = {}
            worker = newest_worker(service.log)
            service.process.kill()
            os.kill(worker, signal.SIGKILL)
            with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
                posted.result()

        with serving(tmp_path, **settings(mail_server)) as service:
            (message,) = kept(service.mail_dir)
            operator = create_app(make_settings(service.mail_dir, **settings(mail_server)))
            resent = operator.test_cli_runner().invoke(args=["mail", "resend"]).stdout

    (taken,) = mail_server.taken
    assert message.state is State.IN_DOUBT
    assert "delivered: 250" in resent
    assert f"<{message.local_part}@".encode() in taken.content
    assert states(service) == []
