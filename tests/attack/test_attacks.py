"""Attacks that once did harm, on the shipped service: through nginx or on a process's own socket, all local."""

import http.client
import os
import resource
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.attack.inputs import CLIENT, REQUESTS
from tests.deploy.load import Load, load
from tests.deploy.site import Site, site
from tests.server.gunicorn import unused_address

ANSWERS = 200
"""Requests of each kind by other visitors, while an attack goes on."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site"), "0", "1") as served:
        yield served


def ask(served: Site, request: bytes) -> int:
    """The status of the answer on a process's own socket, past nginx."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(f"{served.directory}/run/0/gunicorn.sock")
        # The server may answer and close before it has read all.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        response.read()
        return response.status


def assert_nobody_else_failed(others: Load) -> None:
    assert {outcome for _, outcome in others.outcomes} == {"200"}, others.outcomes


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["POST", "OPTIONS", "GET"])
def test_bodies_of_refused_clients_that_nobody_reads_fail_no_other_request(served: Site, method: str) -> None:
    stop = threading.Event()

    def attack(client: str) -> None:
        while not stop.is_set():
            served.request(method, "/contact.php", client=client, body=b"a" * 60_000)

    with ThreadPoolExecutor(4) as pool, load(served) as others:
        attacks = [pool.submit(attack, client) for client in [unused_address(), unused_address()] * 2]
        try:
            others.wait_for(ANSWERS)
        finally:
            stop.set()

    assert not any(attack.exception() for attack in attacks)
    assert_nobody_else_failed(others)


@pytest.mark.nightly
@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_holds_the_interpreter_for_long(served: Site, name: str) -> None:
    """No other client of the process is answered meanwhile. One of these once took 3.5 s."""
    before = processor_seconds(served.worker("0"))

    status = ask(served, REQUESTS[name].replace(CLIENT, unused_address().encode()))

    assert processor_seconds(served.worker("0")) - before < 2
    assert status in {200, 400, 404}
    assert "unhandled" not in served.log("0")


def processor_seconds(process: int) -> float:
    """What it has used, which a busy machine does not change as it changes the time that passes (proc(5))."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


HALF_SENT = 1600
"""More than twice what Debian's nginx.conf lets a process of nginx have."""


@pytest.fixture
def _many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HALF_SENT), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_descriptors")
def test_half_sent_heads_of_one_address_leave_room_for_others(tmp_path: Path) -> None:
    """limit_conn counts from the first whole head on."""
    with site(tmp_path, "0") as served, ExitStack() as stack:
        for _ in range(HALF_SENT):
            stack.enter_context(served.open(served.http_port)).sendall(b"GET /api HTTP/1.1\r\nHost: a\r\n")
        with load(served) as others:
            others.wait_for(ANSWERS)

    assert_nobody_else_failed(others)
