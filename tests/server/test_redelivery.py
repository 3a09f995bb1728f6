"""Messages that were kept arrive by themselves, each once, also when processes are killed in the middle of it."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.mail.queued import State
from tests.mail.conftest import arrived, keep, kept, numbered
from tests.mail.server import Act, SmtpServer
from tests.ports import free_port
from tests.server.gunicorn import Server, serving, started_workers
from tests.waiting import wait_until

PORT = free_port()
WORKERS = 2


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Workers that look after the mail all the time, and try a message again after an hour."""
    hurried = {"GUNICORN_CMD_ARGS": f"--config tests/server/hurried_gunicorn.py --workers {WORKERS}"}
    environ = SmtpServer(port=PORT).environ | hurried | {"RETRY_SECONDS": "3600", "SMTP_TIMEOUT": "60"}
    with serving(tmp_path_factory.mktemp("service"), **environ) as service:
        yield service


@pytest.fixture
def relay(service: Server) -> Iterator[SmtpServer]:
    with SmtpServer(port=PORT) as relay:
        yield relay
    for message in kept(service.mail_dir):
        (service.mail_dir / message.path).unlink()


def leave(service: Server, name: str) -> None:
    """Leave a message whose turn has come. It appears at once, as the service's own do."""
    elsewhere = service.mail_dir.with_name("elsewhere")
    message = keep(elsewhere, numbered(name), age=7200)
    (elsewhere / message.path).rename(service.mail_dir / message.path)


def pass_on(service: Server, relay: SmtpServer, name: str) -> None:
    leave(service, name)
    wait_until(lambda: f"<{name}@example.com>" in arrived(relay))


def kill_the_workers(service: Server) -> None:
    """Return once there are others."""
    before = started_workers(service.log)
    for worker in before[-WORKERS:]:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(started_workers(service.log)) == len(before) + WORKERS)


def test_forms_of_an_outage_arrive_once_when_it_ends_although_their_turn_is_later(service: Server) -> None:
    answers = [service.new_client().post_form() for _ in range(5)]
    with SmtpServer(port=PORT) as relay:
        wait_until(lambda: not kept(service.mail_dir))

    assert [response.status for response, _ in answers] == [500] * 5
    assert all(json.loads(body)["error"]["details"] == {"kept": True} for _, body in answers)
    assert len(arrived(relay)) == len(set(arrived(relay))) == 5


KILLS = {"RCPT": (False, 1), "DATA": (False, 1), "content": (True, 0), "message": (True, 1)}
"""What the mail server is about to answer, whether the message is in doubt then, and how often it ever arrives."""


@pytest.mark.parametrize("is_form", [True, False], ids=["form", "kept"])
@pytest.mark.parametrize("stage", KILLS)
def test_a_kill_loses_no_message_and_sends_none_twice(
    service: Server, relay: SmtpServer, stage: str, *, is_form: bool
) -> None:
    in_doubt, arrivals = KILLS[stage]
    relay.replies = {stage: Act.HANG}
    with ThreadPoolExecutor(1) as pool:
        if is_form:
            pool.submit(service.new_client().post_form)
        else:
            leave(service, "kept")
        relay.wait_until_hung()
        relay.replies = {}
        kill_the_workers(service)
        relay.release()
    pass_on(service, relay, "later")
    pass_on(service, relay, "last")  # so the round of the one before is over
    wait_until(lambda: [message.state for message in kept(service.mail_dir)] == [State.IN_DOUBT] * in_doubt)

    assert len(arrived(relay)) == len(set(arrived(relay))) == arrivals + 2
