"""The shipped rules of nftables in the real kernel: how many connections one client can have.

``python -m tests.deploy.test_connections RULES`` loads RULES (a file) twice and prints, as JSON, what becomes of the
connections of each client. The test runs it in a network namespace of its own.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.deploy.site import DEPLOY
from tests.programs import run
from tests.server.gunicorn import ROOT

NAMESPACE = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
SERVER = "2001:db8::1"
OPEN, BURST, MOST = 64, 128, 200
CLIENTS = {
    "an address": ("127.0.0.2", 443, OPEN),
    "its other port": ("127.0.0.2", 80, 0),
    "its port of another service": ("127.0.0.2", 25, MOST),
    "another address": ("127.0.0.3", 443, OPEN),
    "an address of IPv6": ("2001:db8:1:1::1", 443, OPEN),
    "another one of its /64": ("2001:db8:1:1:ffff::1", 443, 0),
    "one of another /64": ("2001:db8:1:2::1", 443, OPEN),
    "an IPv4 client behind NAT64": ("64:ff9b::198.18.5.1", 443, OPEN),
    "another one behind NAT64": ("64:ff9b::198.18.5.2", 443, OPEN),
}
"""The address and the port, and how many connections can be open."""
EXPECTED = {name: most for name, (_, _, most) in CLIENTS.items()}
EXPECTED |= {"opened and closed": BURST, "rules of others": 1}


def connections(client: str, port: int = 443) -> Iterator[socket.socket]:
    """Connections from that address, until one is reset or they are very many."""
    server = SERVER if ":" in client else "127.0.0.1"
    with suppress(ConnectionRefusedError):
        for _ in range(MOST):
            yield socket.create_connection((server, port), timeout=30, source_address=(client, 0))


def main(rules: str) -> None:
    """Print the report."""
    ipv6 = [SERVER, *(client for client, _, _ in CLIENTS.values() if ":" in client)]
    for command in (
        "ip link set lo up",
        *(f"ip address add {address}/128 dev lo nodad" for address in ipv6),
        "nft add table inet somebody_elses",
        *[f"nft -f {rules}"] * 2,
    ):
        subprocess.run(command.split(), check=True)
    with ExitStack() as stack:
        for port in (25, 80, 443):
            listener = socket.create_server(("::", port), family=socket.AF_INET6, backlog=5000, dualstack_ipv6=True)
            stack.enter_context(listener)
        held = {name: list(connections(client, port)) for name, (client, port, _) in CLIENTS.items()}
        report = {name: len(opened) for name, opened in held.items()}
        for number, connection in enumerate(connections("127.0.0.4"), 1):
            report["opened and closed"] = number
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()  # for both sides at once
            time.sleep(0.02)  # the kernel looks now and then for connections that are over, and takes some each time
    tables = subprocess.check_output(["nft", "list", "tables"], text=True)
    json.dump(report | {"rules of others": tables.count("somebody_elses")}, sys.stdout)


@pytest.mark.needs("network namespaces")
def test_a_client_has_its_share_of_the_connections(tmp_path: Path) -> None:
    rules = (DEPLOY / "nftables" / "public-web-interface.nft").read_text()
    assert "20/second" in rules
    (tmp_path / "rules").write_text(rules.replace("20/second", "1/hour"))  # time all but stands still

    ran = run(*NAMESPACE, sys.executable, "-m", "tests.deploy.test_connections", tmp_path / "rules", cwd=ROOT)

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == EXPECTED


if __name__ == "__main__":
    main(sys.argv[1])
