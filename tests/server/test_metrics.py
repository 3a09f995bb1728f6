"""The metrics of the real gunicorn, as they are read at METRICS_BIND."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.exposition import Samples
from tests.ports import free_port
from tests.server.gunicorn import GUNICORN, PATIENCE, ROOT, Server, newest_worker, serving, start
from tests.waiting import wait_until

RELEASE = "20261124T014400Z-73bd0d6"


@dataclass(frozen=True)
class Watched:
    """A service and the address of its metrics."""

    server: Server
    address: str

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", int(self.address.rpartition(":")[2])), timeout=PATIENCE)

    def count(self) -> float:
        """The requests for /api/versioning."""
        return Samples.of(self.address).sum("http_requests_total", route="/api/versioning")


@contextmanager
def watching(directory: Path, *, command: Sequence[str] = GUNICORN, **environ: str) -> Iterator[Watched]:
    address = f"127.0.0.1:{free_port()}"
    with serving(directory, command=command, METRICS_BIND=address, **environ) as server:
        yield Watched(server, address)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A release. The unit follows the link to it once, when it starts."""
    directory = tmp_path_factory.mktemp("watched")
    for part in ("app", "static"):
        shutil.copytree(ROOT / part, directory / "releases" / RELEASE / part)
    for file in ("wsgi.py", "gunicorn.conf.py"):
        shutil.copy(ROOT / file, directory / "releases" / RELEASE)
    (directory / "current").symlink_to(f"releases/{RELEASE}")
    command = ("sh", "-c", f"cd -P {directory}/current && exec {sys.executable} -m gunicorn")
    with watching(directory, command=command) as watched:
        yield watched


def test_the_release_shows_in_the_start_line_and_in_the_metrics(shared: Watched, server: Server) -> None:
    shown = Samples.of(shared.address).all("service_info", "version")

    assert shown == {(RELEASE,): 1}
    assert re.findall("Public web interface, release (.*)\n", shared.server.log) == [RELEASE]
    assert re.findall("Public web interface, release (.*)\n", server.log) == ["development"]  # a checkout


def test_the_numbers_and_the_service_have_an_address_each(shared: Watched) -> None:
    before = shared.count()
    shared.server.request("GET", "/api/versioning")

    assert shared.count() == before + 1
    assert shared.server.request("GET", "/metrics")[0].status == 404
    with closing(http.client.HTTPConnection(shared.address, timeout=PATIENCE)) as connection:
        connection.request("GET", "/api/v1/health")
        assert b"http_requests_total" in connection.getresponse().read()
        connection.request("POST", "/contact.php", "{}")
        assert connection.getresponse().status == 501


def test_a_request_that_gunicorn_refuses_counts_as_malformed(shared: Watched) -> None:
    with closing(shared.server.connect()) as connection:
        connection.sendall(b"GET / ana\r\n\r\n")
        connection.recv(1000)

    counted = Samples.of(shared.address).all("http_requests_total", "method", "route", "status", "code")
    assert counted["GET", "malformed", "400", "invalid_body"] == 1


def test_clients_that_send_nothing_or_ask_without_end_cost_no_request_and_no_stop(tmp_path: Path) -> None:
    with watching(tmp_path) as watched, ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        for sent in (b"", b"GET / HTTP/1.1\r\nX-Slow: ") * 8:
            stack.enter_context(watched.connect()).sendall(sent)
        pages = [pool.submit(watched.count) for _ in range(24)]
        statuses = [watched.server.request("OPTIONS", "/api")[0].status for _ in range(16)]

        assert statuses == [204] * 16
        assert all(page.result() >= 0 for page in pages)
        watched.server.process.terminate()
        assert watched.server.process.wait(PATIENCE) == 0


def test_a_client_that_sends_nothing_is_left(shared: Watched) -> None:
    """It would hold a thread and a descriptor of the worker."""
    with closing(shared.connect()) as client:
        assert client.recv(1) == b""


ENDS = {"killed": signal.SIGKILL, "reloaded": signal.SIGHUP, "killed anew": signal.SIGKILL, "again": signal.SIGHUP}


@pytest.mark.needs("/proc")
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_new_worker_begins_anew_and_nobody_is_refused_meanwhile(shared: Watched, end: int) -> None:
    server = shared.server
    server.request("GET", "/api/versioning")
    gone, counted = newest_worker(server.log), shared.count()

    def is_replaced() -> bool:
        with suppress(ConnectionResetError):  # the worker has ended while it answered; none is refused
            assert shared.count() in (0, counted)
        return newest_worker(server.log) != gone and not Path(f"/proc/{gone}").exists()

    os.kill(server.process.pid if end == signal.SIGHUP else gone, end)
    wait_until(is_replaced)
    server.wait_until_it_answers()

    assert counted > 0
    assert shared.count() == 0


@pytest.mark.needs("/proc")
def test_a_new_program_listens_beside_the_old_one(tmp_path: Path) -> None:
    with watching(tmp_path, command=(f"{sys.prefix}/bin/gunicorn",)) as watched:
        server = watched.server
        server.process.send_signal(signal.SIGUSR2)
        server.wait_for("(?s)Booting worker.*Booting worker")
        _, new = re.findall(r"Listening at: .* \((\d+)\)", server.log)
        try:
            server.process.terminate()
            server.process.wait(PATIENCE)
            server.request("GET", "/api/versioning")

            assert watched.count() == 1
        finally:
            os.kill(int(new), signal.SIGTERM)
            wait_until(lambda: not Path(f"/proc/{new}").exists())


@pytest.mark.parametrize("library", ["missing", "there"])
def test_what_stands_against_it_stops_the_start_with_one_line(tmp_path: Path, library: str) -> None:
    if library == "missing":
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['prometheus_client'] = None\n")
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:  # as another instance has it
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process, log_file = start(tmp_path, METRICS_BIND=address, PYTHONPATH=str(tmp_path))

        assert process.wait(60) != 0

    install = "requires the extra [metrics], .venv/bin/pip install --require-hashes -r requirements-metrics.txt"
    faults = {
        "missing": f"METRICS_BIND is set: {install}",
        "there": f"METRICS_BIND='{address}': expected an address to listen at: Address already in use",
    }
    line, _, _ = log_file.read_text().splitlines()[-1].partition(" (while attempting to bind")  # Python's own words
    assert line == faults[library]
    assert "Traceback" not in log_file.read_text()


def test_a_worker_without_metrics_does_not_load_their_library_and_a_command_serves_none(tmp_path: Path) -> None:
    program = "import sys, wsgi; sys.exit('prometheus_client' in sys.modules)"
    environ = {"PATH": os.environ["PATH"], "MAIL_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "mail", "list"]
    watched = environ | {"METRICS_BIND": "127.0.0.1:1"}

    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environ, check=False).returncode == 0
    result = subprocess.run(command, cwd=ROOT, env=watched, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "0 undelivered\n")
