"""The shipped rules of nftables in the real kernel: how many connections one client can have.

``python -m tests.deploy.test_connections RULES`` loads RULES (a file) twice and prints, as JSON, what becomes of the
connections of each client. The test runs it in a network namespace of its own.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import time

import pytest

from tests.deploy.site import DEPLOY
from tests.server.gunicorn import ROOT
from tests.waiting import wait_until

NAMESPACE = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
RULES = (DEPLOY / "nftables" / "public-web-interface.nft").read_text()
LIMITS = (DEPLOY / "nginx" / "snippets" / "limits.conf").read_text()
OPEN, BURST, MOST = 64, 128, 1000
SERVER = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "2001:db8::1"}
IPV6 = ("2001:db8:1:1::1", "2001:db8:1:1:ffff::1", "2001:db8:1:2::1", "64:ff9b::198.18.5.1", "64:ff9b::198.18.5.2")
"""Clients: two of one /64, one of another, and two IPv4 clients behind NAT64."""

EXPECTED = {
    "open": OPEN,
    "same address, other port": 0,
    "same address, port of another service": 1,
    "other address": 1,
    "open over IPv6": OPEN,
    "same /64": 0,
    "other /64": 1,
    "open over NAT64": OPEN,
    "other address of NAT64": 1,
    "after one was closed": 1,
    "opened and closed": BURST,
    "other address, meanwhile": 1,
    "rules of others": 1,
}
"""How many connections each client gets."""


def connect(client: str, port: int = 443) -> socket.socket | None:
    """A connection from that address, or None when it is reset."""
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    connection = socket.socket(family)
    connection.bind((client, 0))
    connection.settimeout(30)
    try:
        connection.connect((SERVER[family], port))
    except ConnectionRefusedError:
        connection.close()
        return None
    return connection


def abort(connection: socket.socket) -> None:
    """End a connection for both sides at once."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def main(rules: str) -> None:
    """Print the report."""
    for command in (
        "ip link set lo up",
        *(f"ip address add {address}/128 dev lo nodad" for address in (*IPV6, SERVER[socket.AF_INET6])),
        "nft add table inet somebody_elses",
        f"nft -f {rules}",
        f"nft -f {rules}",
    ):
        subprocess.run(command.split(), check=True)
    held = [
        socket.create_server(("::", port), family=socket.AF_INET6, backlog=MOST, dualstack_ipv6=True)
        for port in (80, 443, 25)
    ]
    report: dict[str, int] = {}

    def hold(name: str, client: str, port: int = 443, *, most: int = 1) -> None:
        """Open connections until one is reset, and keep them."""
        report[name] = 0
        while report[name] < most and (connection := connect(client, port)):
            held.append(connection)
            report[name] += 1

    def again() -> bool:
        hold("after one was closed", "127.0.0.2")
        return report["after one was closed"] == 1

    hold("open", "127.0.0.2", most=MOST)
    last = held.pop()
    hold("same address, other port", "127.0.0.2", 80)
    hold("same address, port of another service", "127.0.0.2", 25)
    hold("other address", "127.0.0.3")
    hold("open over IPv6", IPV6[0], most=MOST)
    hold("same /64", IPV6[1])
    hold("other /64", IPV6[2])
    hold("open over NAT64", IPV6[3], most=MOST)
    hold("other address of NAT64", IPV6[4])
    abort(last)
    wait_until(again)
    report["opened and closed"] = 0
    while report["opened and closed"] < MOST and (connection := connect("127.0.0.4")):
        abort(connection)
        report["opened and closed"] += 1
        time.sleep(0.02)  # the kernel looks now and then for connections that are over, and takes some each time
    hold("other address, meanwhile", "127.0.0.3")
    report["rules of others"] = subprocess.check_output(["nft", "list", "tables"], text=True).count("somebody_elses")
    json.dump(report, sys.stdout)
    for each in held:
        each.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What is seen of the rules, for which time all but stands still."""
    rules = tmp_path_factory.mktemp("nftables") / "public-web-interface.nft"
    assert "20/second" in RULES
    rules.write_text(RULES.replace("20/second", "1/hour"))
    command = [*NAMESPACE, sys.executable, "-m", "tests.deploy.test_connections", str(rules)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    seen: dict[str, int] = json.loads(run.stdout)
    return seen


@pytest.mark.needs("network namespaces")
@pytest.mark.parametrize(("case", "expected"), EXPECTED.items(), ids=EXPECTED)
def test_a_client_has_its_share_of_the_connections(report: dict[str, int], case: str, expected: int) -> None:
    assert report[case] == expected


def test_a_client_may_open_twice_what_nginx_serves_it_at_a_time() -> None:
    served = re.search(r"limit_conn public_web_interface_clients (\d+);", LIMITS)

    assert served
    assert 2 * int(served[1]) == OPEN


if __name__ == "__main__":
    main(sys.argv[1])
