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


@dataclass(frozen=True)
class Watched:
    """A service and the address of its metrics."""

    server: Server
    address: str

    def connect(self) -> socket.socket:
        host, _, port = self.address.partition(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)

    def count(self, route: str = "/api/versioning") -> float:
        return Samples.of(self.address).sum("http_requests_total", route=route)


@contextmanager
def watching(directory: Path, *, command: Sequence[str] = GUNICORN, **environ: str) -> Iterator[Watched]:
    address = f"127.0.0.1:{free_port()}"
    with serving(directory, command=command, METRICS_BIND=address, **environ) as server:
        yield Watched(server, address)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watching(tmp_path_factory.mktemp("watched")) as watched:
        yield watched


def test_the_numbers_and_the_service_have_an_address_each(shared: Watched) -> None:
    before = shared.count()
    shared.server.request("GET", "/api/versioning")

    assert shared.count() == before + 1
    assert shared.server.request("GET", "/metrics")[0].status == 404
    host, _, port = shared.address.partition(":")
    with closing(http.client.HTTPConnection(host, int(port), PATIENCE)) as connection:
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
        for sent in (b"", b"GET / HTTP/1.1\r\nX-Slow: "):
            for _ in range(8):
                stack.enter_context(watched.connect()).sendall(sent)
        pages = [pool.submit(watched.count) for _ in range(100)]
        statuses = [watched.server.request("OPTIONS", "/api")[0].status for _ in range(50)]

        assert statuses == [204] * 50
        assert all(page.result() >= 0 for page in pages)
        watched.server.process.terminate()
        assert watched.server.process.wait(PATIENCE) == 0


def test_a_client_that_sends_nothing_is_left(shared: Watched) -> None:
    """It would hold a thread and a descriptor of the worker."""
    with closing(shared.connect()) as client:
        assert client.recv(1) == b""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGHUP])
def test_a_new_worker_begins_anew_and_nobody_is_refused_meanwhile(tmp_path: Path, end: int) -> None:
    with watching(tmp_path) as watched:
        for _ in range(3):
            watched.server.request("GET", "/api/versioning")
            gone = newest_worker(watched.server.log)
            assert watched.count() == 1

            os.kill(watched.server.process.pid if end == signal.SIGHUP else gone, end)
            while newest_worker(watched.server.log) == gone or Path(f"/proc/{gone}").exists():
                with suppress(ConnectionResetError):  # the worker has ended while it answered; none is refused
                    assert watched.count() in (0, 1)
            watched.server.wait_until_it_answers()

            assert watched.count() == 0


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


@pytest.mark.parametrize(
    ("folder", "release"),
    [("releases/20261124T014400Z-73bd0d6", "20261124T014400Z-73bd0d6"), ("source", "development")],
)
def test_the_release_shows_in_the_start_line_and_in_the_metrics(tmp_path: Path, folder: str, release: str) -> None:
    for part in ("app", "static"):
        shutil.copytree(ROOT / part, tmp_path / folder / part)
    for file in ("wsgi.py", "gunicorn.conf.py"):
        shutil.copy(ROOT / file, tmp_path / folder)
    (tmp_path / "current").symlink_to(folder)  # the unit follows it once, when it starts
    command = ("sh", "-c", f"cd -P {tmp_path}/current && exec {sys.executable} -m gunicorn")

    with watching(tmp_path, command=command) as watched:
        shown = Samples.of(watched.address).all("service_info", "version")

    assert watched.server.log.count(f"Public web interface, release {release}\n") == 1
    assert shown == {(release,): 1}
