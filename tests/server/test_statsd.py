"""gunicorn's statsd, switched on by the line of docs/monitoring.md, with a receiver on this machine."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.worker import ServerLogger, _Packets
from tests.pages import MONITORING
from tests.server.gunicorn import PATIENCE, Server, serving

SECRET = "ana@example.com"


@pytest.fixture(scope="module")
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE)
        yield receiver


def next_request(receiver: socket.socket) -> list[str]:
    """The packets of the next request. The last one tells its status."""
    packets: list[str] = []
    while not (packets and ".status." in packets[-1]):
        packet = receiver.recv(1024).decode()
        if packet.startswith("web.gunicorn.request"):  # others count the workers and the lines of the log
            packets.append(packet)
    return packets


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: socket.socket) -> Iterator[Server]:
    """The service with the page's line. gunicorn's access log and its tags are switched on as well."""
    line = re.search(r"^GUNICORN_CMD_ARGS='(.*)'$", MONITORING.text, re.MULTILINE)
    assert line
    arguments = line[1].replace("127.0.0.1:8125", f"127.0.0.1:{receiver.getsockname()[1]}")
    arguments += " --dogstatsd-tags=site:es --access-logfile=-"
    with serving(tmp_path_factory.mktemp("statsd"), GUNICORN_CMD_ARGS=arguments) as server:
        assert "status.204" in next_request(receiver)[-1]  # it was asked until it answered
        yield server


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/health", 200),
        ("POST", "/contact.php", 400),
        ("DELETE", "/api", 405),
        ("GET", "/no-such-page", 404),
    ],
)
def test_a_request_is_three_packets(
    server: Server, receiver: socket.socket, method: str, path: str, status: int
) -> None:
    server.request(method, path)

    duration, *counts = next_request(receiver)
    assert re.fullmatch(r"web\.gunicorn\.request\.duration:\d+\.\d+\|ms\|#site:es", duration)
    assert counts == [
        "web.gunicorn.requests:1|c|@1.0|#site:es",
        f"web.gunicorn.request.status.{status}:1|c|@1.0|#site:es",
    ]


def test_the_access_log_stays_silent_whatever_gunicorn_is_told(server: Server, receiver: socket.socket) -> None:
    before = server.log

    server.request("GET", f"/api?email={SECRET}", headers={"User-Agent": SECRET, "Referer": SECRET})

    # gunicorn would write the line before it sends the packets.
    assert "status.200" in next_request(receiver)[-1]
    (line,) = server.log.removeprefix(before).splitlines()
    assert "GET /api 200" in line
    assert SECRET not in line


def test_a_request_costs_nothing_without_a_receiver() -> None:
    log = ServerLogger.__new__(ServerLogger)
    log.sock = None

    log.access(None, None, None, None)  # it looks at none of them


def test_a_receiver_that_hangs_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def send_much() -> None:
        packets = _Packets(ours, logging.getLogger("gunicorn.error"))  # type: ignore[arg-type]
        for _ in range(10_000):
            packets.send(b"x" * 1000)

    with ours, theirs:
        sender = threading.Thread(target=send_much, daemon=True)
        sender.start()
        sender.join(PATIENCE)

        assert not sender.is_alive()
        assert [record.getMessage() for record in caplog.records] == [
            "statsd misses packets: Resource temporarily unavailable"
        ]


def test_the_log_says_when_there_is_no_receiver_at_the_start(tmp_path: Path) -> None:
    with serving(tmp_path, GUNICORN_CMD_ARGS=f"--statsd-host=unix://{tmp_path}/no-such-socket") as server:
        assert server.log.count("statsd gets nothing until the next start") == 1
        assert "Traceback" not in server.log
