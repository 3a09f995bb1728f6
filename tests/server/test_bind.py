"""An address where nobody can listen stops the start at once, and sockets that gunicorn inherits do not."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.listeners import require_free
from tests.exposition import Samples
from tests.ports import free_port
from tests.server.gunicorn import GUNICORN, PATIENCE, ROOT, Server, newest_worker, start


@contextmanager
def running(
    directory: Path, *command: str, port: int, pass_fds: Sequence[int] = (), **environ: str
) -> Iterator[Server]:
    log_file = directory / "gunicorn.log"
    environ |= {"MAIL_DIR": str(directory / "mail"), "BIND": f"127.0.0.1:{port}"}
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log, pass_fds=pass_fds)
    try:
        yield Server(process, port, log_file)
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server at an address of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_port_that_is_taken_stops_the_start_with_one_line(tmp_path: Path, listener: socket.socket) -> None:
    bind = f"127.0.0.1:{listener.getsockname()[1]}"

    process, log_file = start(tmp_path, BIND=bind)

    assert process.wait(60) != 0
    starting, line = log_file.read_text().splitlines()
    assert "Starting gunicorn" in starting
    assert line == f"BIND='{bind}': Address already in use: set BIND to another address, such as 127.0.0.1:8000"


def test_the_metrics_are_not_shared_with_another_service(tmp_path: Path) -> None:
    """Its socket can be shared, because a new program listens beside the old one."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as other:
        metrics = f"127.0.0.1:{other.getsockname()[1]}"

        process, log_file = start(tmp_path, METRICS_BIND=metrics)

        assert process.wait(60) != 0
    line = log_file.read_text().splitlines()[-1]
    assert line.startswith(f"METRICS_BIND='{metrics}': Address already in use: set METRICS_BIND to")


def test_an_address_of_gunicorns_own_option_is_not_binds(tmp_path: Path, listener: socket.socket) -> None:
    taken = f"127.0.0.1:{listener.getsockname()[1]}"

    process, log_file = start(tmp_path, BIND=taken, GUNICORN_CMD_ARGS="--bind 127.0.0.1:0")

    Server(process, 0, log_file).wait_for("Booting worker")
    process.terminate()
    process.wait(30)


TRY_TO_START = """
import os, runpy, sys
from types import SimpleNamespace
from gunicorn.config import Config

for bind in sys.argv[1:]:
    os.environ["BIND"] = bind
    config = Config()
    config.set("bind", bind)
    server = SimpleNamespace(master_pid=0, address=config.address)
    try:
        runpy.run_path("gunicorn.conf.py")["on_starting"](server)
    except SystemExit as stopped:
        print(stopped)
"""


def test_every_other_fault_of_the_address_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(f"{tmp_path}/left")
    good = ["127.0.0.1:0", f"unix:{tmp_path}/new", f"unix:{tmp_path}/left"]
    reasons = {
        "192.0.2.1:8000": "Cannot assign requested address: set BIND to another address, such as 127.0.0.1:8001",
        f"unix:{tmp_path}/missing/socket": "No such file or directory: set BIND to",
        f"unix:{tmp_path}/file": f"'{tmp_path}/file' is not a socket: set BIND to",
        f"unix:{tmp_path}/{'x' * 108}": "AF_UNIX path too long: set BIND to",
    }

    result = subprocess.run(
        [sys.executable, "-c", TRY_TO_START, *good, *reasons],
        cwd=ROOT,
        env={"MAIL_DIR": str(tmp_path / "mail")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    lines = result.stdout.splitlines()
    assert len(lines) == len(reasons)
    for line, (bind, reason) in zip(lines, reasons.items(), strict=True):
        assert line.startswith(f"BIND='{bind}': {reason}")


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_an_address_is_tried_without_taking_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, unix: bool
) -> None:
    """nginx would not send a POST again that was lost with it."""

    def fail(*_: int) -> None:
        pytest.fail("it listens")

    monkeypatch.setattr(socket.socket, "listen", fail)

    require_free(f"{tmp_path}/new" if unix else ("127.0.0.1", free_port()), shared=True)

    assert list(tmp_path.iterdir()) == []


ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.executable, [sys.executable, "-m", "gunicorn"])
"""


def test_a_socket_from_systemd_is_no_taken_port(tmp_path: Path, listener: socket.socket) -> None:
    descriptor, port = listener.fileno(), listener.getsockname()[1]
    activated = [sys.executable, "-c", ACTIVATE, str(descriptor)]
    metrics = f"127.0.0.1:{free_port()}"
    with running(tmp_path, *activated, port=port, pass_fds=[descriptor], METRICS_BIND=metrics) as server:
        server.wait_until_it_answers()

        assert Samples.of(metrics).sum("http_requests_total", route="/api") == 1


def test_who_reads_the_metrics_while_there_is_no_worker_waits_for_the_next_one(tmp_path: Path) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    with running(tmp_path, *GUNICORN, port=free_port(), METRICS_BIND=metrics) as server:
        server.wait_until_it_answers()
        os.kill(newest_worker(server.log), signal.SIGKILL)

        assert Samples.of(metrics).sum("http_requests_total", route="/api") == 1


def test_workers_with_sockets_of_their_own_share_that_of_the_metrics(tmp_path: Path) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    reuse = "--reuse-port"
    with running(tmp_path, *GUNICORN, port=free_port(), METRICS_BIND=metrics, GUNICORN_CMD_ARGS=reuse) as server:
        server.wait_until_it_answers()

        assert Samples.of(metrics).sum("http_requests_total", route="/api") == 1


def test_a_new_program_takes_over_the_sockets_of_the_old_one(tmp_path: Path) -> None:
    metrics = f"127.0.0.1:{free_port()}"
    with running(tmp_path, f"{sys.prefix}/bin/gunicorn", port=free_port(), METRICS_BIND=metrics) as server:
        server.wait_until_it_answers()
        server.process.send_signal(signal.SIGUSR2)
        server.wait_for("(?s)Booting worker.*Booting worker")
        _, new = re.findall(r"Listening at: .* \((\d+)\)", server.log)
        try:
            server.process.terminate()
            server.process.wait(PATIENCE)
            server.request("GET", "/api/versioning")

            requests = Samples.of(metrics).all("http_requests_total", "route")
        finally:
            os.kill(int(new), signal.SIGTERM)
    assert requests == {("/api/versioning",): 1}
