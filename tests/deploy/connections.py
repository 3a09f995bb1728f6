"""Connections to a machine with the shipped rules of nftables, run in a network namespace of its own.

``python -m tests.deploy.connections RULES`` loads RULES (a file) twice and prints, as JSON, what became of the
connections of each client.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time

NAMESPACE = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
"""Before a command: it runs in a network namespace of its own."""

NAT64 = ("64:ff9b::198.18.5.1", "64:ff9b::198.18.5.2")
CLIENTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "2001:db8:1:1::1", "2001:db8:1:1:ffff::1", "2001:db8:1:2::1", *NAT64)
SERVER = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "2001:db8::1"}
MOST = 1000
PATIENCE_SECONDS = 30


def connect(client: str, port: int = 443) -> socket.socket | None:
    """A connection from that address, or None when it is reset."""
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    connection = socket.socket(family)
    connection.bind((client, 0))
    connection.settimeout(PATIENCE_SECONDS)
    try:
        connection.connect((SERVER[family], port))
    except ConnectionRefusedError:
        connection.close()
        return None
    return connection


def open_all(client: str, port: int = 443) -> list[socket.socket]:
    """Connections, until one is reset."""
    opened: list[socket.socket] = []
    while len(opened) < MOST and (connection := connect(client, port)):
        opened.append(connection)
    return opened


def abort(connection: socket.socket) -> None:
    """End a connection for both sides at once."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def main(rules: str) -> None:
    """Print the report."""
    for command in (
        "ip link set lo up",
        *(f"ip address add {address}/128 dev lo nodad" for address in (*CLIENTS, *SERVER.values()) if ":" in address),
        "nft add table inet somebody_elses",
        f"nft -f {rules}",
        f"nft -f {rules}",
    ):
        subprocess.run(command.split(), check=True)
    listeners = [
        socket.create_server(("::", port), family=socket.AF_INET6, backlog=MOST, dualstack_ipv6=True)
        for port in (80, 443, 25)
    ]
    report: dict[str, object] = {}

    held = open_all("127.0.0.2")
    report["open"] = len(held)
    report["same address, other port"] = len(open_all("127.0.0.2", 80))
    report["same address, port of another service"] = connect("127.0.0.2", 25) is not None
    report["other address"] = connect("127.0.0.3") is not None
    held_over_ipv6 = open_all("2001:db8:1:1::1")
    report["open over IPv6"] = len(held_over_ipv6)
    report["same /64"] = connect("2001:db8:1:1:ffff::1") is not None
    report["other /64"] = connect("2001:db8:1:2::1") is not None
    held_over_nat64 = open_all(NAT64[0])
    report["open over NAT64"] = len(held_over_nat64)
    report["other address of NAT64"] = connect(NAT64[1]) is not None
    abort(held.pop())
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (again := connect("127.0.0.2")) and time.monotonic() < deadline:
        time.sleep(1)
    report["after one was closed"] = again is not None
    opened = 0
    while opened < MOST and (connection := connect("127.0.0.4")):
        abort(connection)
        opened += 1
        time.sleep(
            0.02
        )  # The kernel looks now and then for connections that are over, and takes some of them each time.
    report["opened and closed"] = opened
    report["other address, meanwhile"] = connect("127.0.0.3") is not None
    report["rules of others"] = "somebody_elses" in subprocess.check_output(["nft", "list", "tables"], text=True)
    json.dump(report, sys.stdout)
    for connection in (*listeners, *held, *held_over_ipv6, *held_over_nat64):
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
