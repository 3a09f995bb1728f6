"""What happens to requests while the service is reloaded, upgraded, stopped, or held by slow or rude clients."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from h2.connection import H2Connection
from h2.events import PingAckReceived

from tests.deploy.load import Load, load, new_client
from tests.deploy.site import INSTANCES, SERVER_NAME, Site, site
from tests.mail.server import SmtpServer
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

ALL_WELL = {("GET", "200"), ("POST", "200")}
ANSWERS = 50
SLOW_CLIENTS = 100
RESETS = 60
"""In one write. nginx closes a connection that sends it more than twice its limit of streams at once."""
REQUESTS_OF_A_CLIENT = 32
RATE, BURST = 100, 200
RUDE = "127.9.9.9"
"""No other client has an address in its network, which the log shows."""


@dataclass(frozen=True)
class UnderLoad:
    """A site that tests share, and the mail server to which it delivers."""

    site: Site
    mail: SmtpServer

    def serve(self, *instances: str) -> Site:
        """The site with these instances alone, and nothing delivered yet."""
        self.site.stop(*(self.site.instances.keys() - set(instances)))
        self.site.start(*(instance for instance in instances if instance not in self.site.instances))
        self.mail.arrivals.clear()
        return self.site

    def assert_each_message_arrived_once(self, load: Load) -> None:
        contents = b"".join(mail.content for mail in self.mail.arrivals)
        identifiers = re.findall(rb"^Message-ID: (.*)\r$", contents, re.MULTILINE)

        assert len(identifiers) == len(set(identifiers)) == load.outcomes["POST", "200"]


@contextmanager
def under_load(
    directory: Path, changes: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[UnderLoad]:
    # The server takes a message after a while, so that some are always under way.
    with (
        SmtpServer(on_message=lambda: time.sleep(0.1)) as mail,
        site(directory, environ=mail.environ | dict(environ or {}), changes=changes) as served,
    ):
        yield UnderLoad(served, mail)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnderLoad]:
    """Its nginx has the patience that slow clients need on a busy machine."""
    patience = {f"client_{part}_timeout 10s": f"client_{part}_timeout 120s" for part in ("header", "body")}
    with under_load(tmp_path_factory.mktemp("site"), patience) as shared:
        yield shared


def reload_nginx(served: Site) -> Iterator[None]:
    for _ in range(2):
        yield
        served.nginx.send_signal(signal.SIGHUP)


def reload_gunicorn(served: Site) -> Iterator[None]:
    for instance in [*served.instances] * 2:
        yield
        old = served.worker(instance)
        served.instances[instance].send_signal(signal.SIGHUP)
        served.wait_for_exit(old)


def upgrade(served: Site) -> Iterator[None]:
    for instance in [*served.instances] * 2:
        yield
        served.restart(instance)


def let_a_new_program_take_over(served: Site) -> Iterator[None]:
    old = served.worker("0")
    yield
    served.instances["0"].send_signal(signal.SIGUSR2)
    wait_until(lambda: served.worker("0") != old)
    yield
    served.stop("0")


EVENTS: dict[str, tuple[Callable[[Site], Iterator[None]], tuple[str, ...]]] = {
    "a reload of nginx": (reload_nginx, INSTANCES),
    "reloads of gunicorn": (reload_gunicorn, INSTANCES),
    "reloads of one gunicorn": (reload_gunicorn, ("0",)),
    "an upgrade, one process after the other": (upgrade, INSTANCES),
    "a new program that takes over": (let_a_new_program_take_over, ("0",)),
}
"""What is done between the answers, and to which instances."""


@pytest.mark.parametrize(("event", "instances"), EVENTS.values(), ids=EVENTS)
def test_no_request_fails(
    shared: UnderLoad, event: Callable[[Site], Iterator[None]], instances: tuple[str, ...]
) -> None:
    served = shared.serve(*instances)
    with load(served) as clients:
        for _ in event(served):
            clients.wait_for(ANSWERS)
        clients.wait_for(ANSWERS)
    if not served.instances:  # the program that took over is nobody's child
        new = served.worker("0")
        os.kill(int(re.findall(r"Listening at: \S+ \((\d+)\)", served.log("0"))[-1]), signal.SIGTERM)
        served.wait_for_exit(new)

    assert clients.outcomes.keys() == ALL_WELL
    shared.assert_each_message_arrived_once(clients)


def test_workers_that_end_after_some_requests_fail_none(tmp_path: Path) -> None:
    with under_load(tmp_path, environ={"GUNICORN_CMD_ARGS": "--max-requests 40"}) as own:
        served = own.serve(*INSTANCES)
        first = [served.worker(instance) for instance in INSTANCES]
        with load(served) as clients:
            for worker in first:
                served.wait_for_exit(worker)
            clients.wait_for(ANSWERS)
            renewed = sum(served.log(instance).count("Autorestarting worker") for instance in INSTANCES)

    assert renewed >= 2
    assert clients.outcomes.keys() == ALL_WELL
    own.assert_each_message_arrived_once(clients)


def test_a_stop_fails_no_request_that_was_accepted(shared: UnderLoad) -> None:
    served = shared.serve("0")
    with load(served) as clients:
        clients.wait_for(ANSWERS)
        served.stop("0")
        clients.wait_for(ANSWERS)

    # Those that came afterwards were told so, and nothing of theirs was begun.
    assert clients.outcomes.keys() == ALL_WELL | {("GET", "500 internal_error"), ("POST", "500 internal_error")}
    shared.assert_each_message_arrived_once(clients)
    assert list((served.directory / "mail" / "new").iterdir()) == []


def test_slow_clients_cost_nobody_else_anything(shared: UnderLoad) -> None:
    served = shared.serve("0")
    with load(served) as without:
        without.wait_for(ANSWERS)
    with ExitStack() as stack:
        slow = [stack.enter_context(served.connect(new_client())) for _ in range(SLOW_CLIENTS)]
        for number, connection in enumerate(slow):
            connection.sendall(begin(number))
        with load(served) as beside:
            for _ in range(4):
                drip(slow)
                beside.wait_for(ANSWERS)

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


def test_resets_over_http_2_free_no_place_in_the_service(tmp_path: Path) -> None:
    with site(tmp_path, "0") as served:
        worker = served.worker("0")
        os.kill(worker, signal.SIGSTOP)  # no request ends in the meantime
        try:
            before = served.sockets("0")
            for _ in range(BURST // RESETS):
                open_and_reset(served)
            taken = served.sockets("0") - before
        finally:
            os.kill(worker, signal.SIGCONT)

    assert taken == REQUESTS_OF_A_CLIENT


def test_resets_over_http_2_pass_at_100_a_second_and_fail_nobody_else(shared: UnderLoad) -> None:
    served = shared.serve("0")
    stop = threading.Event()

    def attack() -> None:
        while not stop.is_set():
            open_and_reset(served)

    begun = time.monotonic()
    with ThreadPoolExecutor() as pool:
        attacker = pool.submit(attack)
        try:
            with load(served) as beside:
                beside.wait_for(ANSWERS)
        finally:
            stop.set()
        attacker.result()
    seconds = time.monotonic() - begun

    assert beside.outcomes.keys() == ALL_WELL
    # However slow the machine is, nginx lets through no more in that time.
    assert 0 < served.log("0").count('"client": "127.9.9.0/24"') <= BURST + RATE * (seconds + 1)


def open_and_reset(served: Site) -> None:
    """Requests that are reset in the same write, on a connection of their own; return once nginx has read them."""
    fields = [(":method", "GET"), (":scheme", "https"), (":authority", SERVER_NAME), (":path", "/api/v1/health")]
    http_2 = served.tls()
    http_2.set_alpn_protocols(["h2"])
    state = H2Connection()
    state.initiate_connection()
    for _ in range(RESETS):
        stream = state.get_next_available_stream_id()
        state.send_headers(stream, fields, end_stream=True)
        state.reset_stream(stream)
    state.ping(bytes(8))
    with served.connect(RUDE, tls=http_2) as connection:
        connection.sendall(state.data_to_send())
        has_read = False
        while not has_read:
            received = connection.recv(65_536)
            assert received
            has_read = any(isinstance(event, PingAckReceived) for event in state.receive_data(received))
