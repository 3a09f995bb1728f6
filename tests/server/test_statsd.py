"""gunicorn's statsd, switched on by the line of docs/monitoring.md, and its access log, which stays silent."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from tests.pages import MONITORING
from tests.server.gunicorn import PATIENCE, serving

SECRET = "ana@example.com"


def next_request(receiver: socket.socket) -> list[str]:
    """The packets of the next request. The last one tells its status."""
    packets: list[str] = []
    while not (packets and ".status." in packets[-1]):
        packet = receiver.recv(1024).decode()
        if packet.startswith("web.gunicorn.request"):  # others count the workers and the lines of the log
            packets.append(packet)
    return packets


def test_a_request_is_three_packets_and_no_line_of_the_access_log(tmp_path: Path) -> None:
    line = re.search(r"^GUNICORN_CMD_ARGS='(.*)'$", MONITORING.text, re.MULTILINE)
    assert line
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE)
        address = f"127.0.0.1:{receiver.getsockname()[1]}"
        arguments = line[1].replace("127.0.0.1:8125", address) + " --access-logfile=-"
        with serving(tmp_path, GUNICORN_CMD_ARGS=arguments) as server:
            asked = next_request(receiver)  # it was asked until it answered
            before = server.log
            server.request("DELETE", f"/api?email={SECRET}", headers={"User-Agent": SECRET, "Referer": SECRET})
            # gunicorn would write its line before it sends the packets.
            duration, *counts = next_request(receiver)
        lines = server.log.removeprefix(before)

    assert asked[-1] == "web.gunicorn.request.status.204:1|c|@1.0"
    assert re.fullmatch(r"web\.gunicorn\.request\.duration:\d+\.\d+\|ms", duration)
    assert counts == ["web.gunicorn.requests:1|c|@1.0", "web.gunicorn.request.status.405:1|c|@1.0"]
    assert "DELETE /api 405" in lines
    assert SECRET not in lines
    assert "DELETE" not in lines.replace("DELETE /api 405", "")
