"""What happens to requests while the service is reloaded, upgraded, stopped, or held by slow clients."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.load import Load, load, new_client
from tests.deploy.site import site
from tests.mail.server import SmtpServer

ALL_WELL = {("GET", "200"), ("POST", "200")}
ANSWERS = 50
SLOW_CLIENTS = 100


def slow_mail_server() -> SmtpServer:
    """Takes a message after a while, so that some are always under way."""
    return SmtpServer(on_message=lambda: time.sleep(0.1))


def assert_each_message_arrived_once(load: Load, server: SmtpServer) -> None:
    identifiers = re.findall(rb"^Message-ID: (.*)\r$", b"".join(mail.content for mail in server.arrivals), re.MULTILINE)

    assert len(identifiers) == len(set(identifiers)) == load.outcomes["POST", "200"]


def test_a_reload_of_nginx_fails_no_request(tmp_path: Path) -> None:
    with (
        slow_mail_server() as server,
        site(tmp_path, "0", "1", environ=server.environ) as served,
        load(served) as clients,
    ):
        for _ in range(2):
            clients.wait_for(ANSWERS)
            served.nginx.send_signal(signal.SIGHUP)
        clients.wait_for(ANSWERS)

    clients.report("reload of nginx, twice")
    assert clients.outcomes.keys() == ALL_WELL
    assert_each_message_arrived_once(clients, server)


@pytest.mark.parametrize("instances", [("0",), ("0", "1")], ids=["one process", "two processes"])
def test_a_reload_of_gunicorn_fails_no_request(tmp_path: Path, instances: tuple[str, ...]) -> None:
    with (
        slow_mail_server() as server,
        site(tmp_path, *instances, environ=server.environ) as served,
        load(served) as clients,
    ):
        for instance in instances:
            for _ in range(2):
                clients.wait_for(ANSWERS)
                old = served.worker(instance)
                served.instances[instance].send_signal(signal.SIGHUP)
                served.wait_for_exit(old)
        clients.wait_for(ANSWERS)

    clients.report(f"reload of gunicorn, {len(instances)} process(es), twice each")
    assert clients.outcomes.keys() == ALL_WELL
    assert_each_message_arrived_once(clients, server)


def test_workers_that_end_after_some_requests_fail_none(tmp_path: Path) -> None:
    environ = {"GUNICORN_CMD_ARGS": "--max-requests 40"}
    with (
        slow_mail_server() as server,
        site(tmp_path, "0", "1", environ=server.environ | environ) as served,
        load(served) as clients,
    ):
        clients.wait_for(2 * ANSWERS)
        renewed = sum(served.log(instance).count("Autorestarting worker") for instance in ("0", "1"))

    clients.report("workers of 40 requests each")
    assert renewed >= 2
    assert clients.outcomes.keys() == ALL_WELL
    assert_each_message_arrived_once(clients, server)


def test_an_upgrade_of_one_process_after_the_other_fails_no_request(tmp_path: Path) -> None:
    with (
        slow_mail_server() as server,
        site(tmp_path, "0", "1", environ=server.environ) as served,
        load(served) as clients,
    ):
        for _ in range(2):
            for instance in ("0", "1"):
                clients.wait_for(ANSWERS)
                served.restart(instance)
        clients.wait_for(ANSWERS)

    clients.report("restart of both processes, one after the other, twice")
    assert clients.outcomes.keys() == ALL_WELL
    assert_each_message_arrived_once(clients, server)


def test_a_stop_fails_no_request_that_was_accepted(tmp_path: Path) -> None:
    with (
        slow_mail_server() as server,
        site(tmp_path, "0", environ=server.environ) as served,
        load(served) as clients,
    ):
        clients.wait_for(ANSWERS)
        served.stop("0")
        clients.wait_for(ANSWERS)

    clients.report("stop of the only process")
    # Those that came afterwards were told so, and nothing of theirs was begun.
    assert clients.outcomes.keys() == ALL_WELL | {("GET", "500 internal_error"), ("POST", "500 internal_error")}
    assert_each_message_arrived_once(clients, server)
    assert list((tmp_path / "mail" / "new").iterdir()) == []


def test_slow_clients_cost_nobody_else_anything(tmp_path: Path) -> None:
    with slow_mail_server() as server, site(tmp_path, "0", environ=server.environ) as served:
        with load(served) as without:
            without.wait_for(ANSWERS)
        with ExitStack() as stack:
            slow = [stack.enter_context(served.connect(new_client())) for _ in range(SLOW_CLIENTS)]
            for number, connection in enumerate(slow):
                connection.sendall(begin(number))
            with load(served) as beside:
                for _ in range(4):  # nginx waits ten seconds for a whole header
                    drip(slow)
                beside.wait_for(ANSWERS)

    without.report("without slow clients")
    beside.report(f"beside {SLOW_CLIENTS} slow clients")
    assert without.outcomes.keys() == beside.outcomes.keys() == ALL_WELL
    # They had not sent enough to be requests, so none of the service's threads has heard of them.
    assert served.log("0").count('"route": "/contact.php"') == 0


def begin(number: int) -> bytes:
    """One half is slow with the header fields and the other with the body."""
    head = b"POST /contact.php HTTP/1.1\r\nHost: a\r\n"
    return head if number % 2 else head + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


def drip(connections: Sequence[socket.socket]) -> None:
    for connection in connections:
        connection.sendall(b"{")
    time.sleep(1)
