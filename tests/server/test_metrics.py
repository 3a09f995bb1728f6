"""The metrics of the real gunicorn, as they are read at METRICS_BIND."""

import http.client
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from app.release import VERSION
from tests.exposition import Samples
from tests.ports import free_port
from tests.server.gunicorn import GUNICORN, PATIENCE, ROOT, Server, newest_worker, serving
from tests.waiting import wait_until

ADDRESS = f"127.0.0.1:{free_port()}"


RELEASE = "20261124T014400Z-73bd0d6"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A release, which has its name from its folder."""
    directory = tmp_path_factory.mktemp("watched")
    folder = directory / "releases" / RELEASE
    for part in ("app", "static"):
        shutil.copytree(ROOT / part, folder / part)
    for file in ("wsgi.py", "gunicorn.conf.py"):
        shutil.copy(ROOT / file, folder)
    with serving(directory, command=("env", "-C", str(folder), *GUNICORN), METRICS_BIND=ADDRESS) as server:
        yield server


def test_the_release_shows_in_the_log_and_in_the_metrics(server: Server) -> None:
    assert f"Public web interface {VERSION}+{RELEASE}\n" in server.log
    assert Samples.of(ADDRESS).all("service_info", "version") == {(f"{VERSION}+{RELEASE}",): 1}


def count() -> float:
    """The requests for /api/versioning."""
    return Samples.of(ADDRESS).sum("http_requests_total", route="/api/versioning")


def test_the_numbers_and_the_service_have_an_address_each(server: Server) -> None:
    before = count()
    server.request("GET", "/api/versioning")

    assert count() == before + 1
    assert server.request("GET", "/metrics")[0].status == 404
    with closing(http.client.HTTPConnection(ADDRESS, timeout=PATIENCE)) as connection:
        connection.request("POST", "/contact.php", "{}")
        assert connection.getresponse().status == 501


@pytest.mark.usefixtures("server")
def test_a_scraper_that_is_silent_is_left() -> None:
    with closing(socket.create_connection(("127.0.0.1", int(ADDRESS.rpartition(":")[2])), PATIENCE)) as silent:
        assert silent.recv(1) == b""


@pytest.mark.needs("/proc")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "reloaded"])
def test_a_new_worker_begins_anew_and_nobody_is_refused_meanwhile(server: Server, end: int) -> None:
    server.request("GET", "/api/versioning")
    gone, counted = newest_worker(server.log), count()

    def is_replaced() -> bool:
        with suppress(ConnectionResetError):  # the worker has ended while it answered; none is refused
            assert count() in (0, counted)
        return newest_worker(server.log) != gone and not Path(f"/proc/{gone}").exists()

    os.kill(server.process.pid if end == signal.SIGHUP else gone, end)
    wait_until(is_replaced)
    server.wait_until_it_answers()

    assert counted > 0
    assert count() == 0
