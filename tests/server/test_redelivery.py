"""Messages that were kept arrive by themselves, each once, also when processes are killed in the middle of it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.mail.kept import State
from app.mail.spool import Spool
from tests.mail.conftest import arrived, kept, letter
from tests.mail.server import Act, SmtpServer
from tests.ports import free_port
from tests.server.gunicorn import Server, serving
from tests.waiting import wait_until

PORT = free_port()
WORKERS = 2


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Workers that look after the mail all the time."""
    hurried = {"GUNICORN_CMD_ARGS": f"--config tests/server/hurried_gunicorn.py --workers {WORKERS}"}
    environ = SmtpServer(port=PORT).environ | hurried | {"RETRY_SECONDS": "1", "SMTP_TIMEOUT": "60"}
    with serving(tmp_path_factory.mktemp("service"), **environ) as service:
        yield service


@pytest.fixture
def relay(service: Server) -> Iterator[SmtpServer]:
    with SmtpServer(port=PORT) as relay:
        yield relay
    for message in kept(service.mail_dir):
        (service.mail_dir / message.path).unlink()


def store(service: Server, name: str) -> None:
    """Leave a message as a process does that is killed before the first attempt."""
    Spool(service.mail_dir).store(letter(name)).release()


def workers(service: Server) -> list[int]:
    return [int(worker) for worker in re.findall(r"Booting worker with pid: (\d+)", service.log)]


def kill_the_workers(service: Server) -> None:
    """Return once there are others."""
    before = workers(service)
    for worker in before[-WORKERS:]:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(workers(service)) == len(before) + WORKERS)


def test_forms_of_an_outage_arrive_once_when_it_ends(service: Server, relay: SmtpServer) -> None:
    relay.replies = {"connect": "421 4.3.2 busy"}
    answers = [service.new_client().post_form() for _ in range(5)]
    relay.replies = {}
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
            store(service, "kept")
        relay.wait_until_hung()
        kill_the_workers(service)
        relay.replies = {}
        relay.release()
    store(service, "later")  # whatever is waiting is tried before it, for the oldest comes first
    wait_until(lambda: "<later@example.com>" in arrived(relay))
    wait_until(lambda: [message.state for message in kept(service.mail_dir)] == [State.IN_DOUBT] * in_doubt)

    assert len(arrived(relay)) == len(set(arrived(relay))) == arrivals + 1
