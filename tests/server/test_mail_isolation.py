"""A mail server that hangs, and a stop, with the real gunicorn: nothing is lost and nobody is held up."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.mail.queued import State
from app.mail.spool import Spool
from tests.mail.conftest import kept, numbered
from tests.mail.server import Act, SmtpServer
from tests.server.gunicorn import Server, serving
from tests.versions import HEALTH
from tests.waiting import wait_until

THREADS = 8
PLACES = THREADS // 2
WAITING = THREADS // 4
"""Forms that may be at the mail server at once, and those that may wait for a place."""

PATIENT = {"THREADS": str(THREADS), "SMTP_TIMEOUT": "300"}
"""So much time that whoever waits for a mail server that hangs gets no answer in the time of a test."""


def post(service: Server) -> tuple[int, str | None, str | None]:
    """What a client at an address of its own is answered: status, code of the error, and the field Connection."""
    response, answer = service.new_client().post_form()
    return response.status, json.loads(answer).get("error", {}).get("code"), response.headers["Connection"]


def test_posts_that_hang_in_the_mail_server_keep_nobody_else_waiting(tmp_path: Path) -> None:
    with (
        SmtpServer({"connect": Act.HANG}) as mail_server,
        serving(tmp_path, **mail_server.environ, **PATIENT) as service,
        ThreadPoolExecutor(2 * THREADS) as pool,
    ):
        posted = [pool.submit(post, service) for _ in range(2 * THREADS)]
        mail_server.wait_until_hung(PLACES + 1)  # the check of the mail server hangs, too
        try:
            others = {service.new_client().request("GET", HEALTH)[0].status for _ in range(50)}
            still_hanging = sum(not answer.done() for answer in posted)
        finally:
            mail_server.release()
        answers = {answer.result() for answer in posted}
        states = [message.state for message in kept(service.mail_dir)]

    assert others == {200}
    assert still_hanging >= PLACES
    assert answers == {(500, "mail_delivery_failed", "close")}
    assert states == [State.WAITING] * 2 * THREADS


def test_what_is_being_sent_when_the_service_is_told_to_stop_arrives(tmp_path: Path) -> None:
    """As many forms as can be under way, and a kept message, which takes no place of theirs."""
    forms = PLACES + WAITING
    hurried = {"GUNICORN_CMD_ARGS": "--config tests/server/hurried_gunicorn.py", "RETRY_SECONDS": "1"}
    Spool(tmp_path / "mail").store(numbered("kept")).release()
    with (
        SmtpServer({"message": Act.HOLD}) as mail_server,
        serving(tmp_path, **mail_server.environ, **PATIENT, **hurried) as service,
        ThreadPoolExecutor(forms) as pool,
    ):
        mail_server.wait_until_hung()
        posted = [pool.submit(post, service) for _ in range(forms)]
        mail_server.wait_until_hung(PLACES)
        wait_until(lambda: len(kept(service.mail_dir)) == forms + 1)
        service.process.terminate()
        service.wait_for("Handling signal: term")
        mail_server.release()
        answers = [answer.result() for answer in posted]

    assert answers == [(200, None, "close")] * forms
    assert service.process.returncode == 0
    assert len(mail_server.arrivals) == len(mail_server.taken) == forms + 1
    assert kept(service.mail_dir) == []
    assert {connection.commands[-1].upper() for connection in mail_server.connections} == {"QUIT"}
