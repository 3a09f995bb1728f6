"""How long another client waits while the service works on one hostile request.

The service must run with TRUSTED_PROXIES=1, as every request comes from an address of its own that no quota refuses.
Without SMTP_HOST it stores the forms that are valid.
"""

from __future__ import annotations

import http.client
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address
from typing import NamedTuple, Self

from tests.attack.inputs import CLIENT, REQUESTS

REPETITIONS = 7
CUT_OFF = 0
"""The status of a request whose connection was closed before its answer came."""

_PLAIN = b"GET /api/versioning HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\n\r\n" % CLIENT
_PAUSE_SECONDS = 0.0005
_clients = map(str, map(IPv4Address, itertools.count(int(IPv4Address("10.0.0.0")))))

Connect = Callable[[], socket.socket]


class Measurement(NamedTuple):
    """Of one input; the times are in seconds."""

    name: str
    status: int
    delays: list[float]
    """The longest wait of the other client during each repetition."""
    took: float
    """Until the answer to the input came, at best."""


def connector(path: str) -> Connect:
    """Connects to the socket there."""

    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(path)
        return connection

    return connect


def exchange(connection: socket.socket, request: bytes) -> int:
    """The status of the answer to the request, which comes from a new address."""
    # The server may answer and close before it has read all.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(request.replace(CLIENT, next(_clients).encode()))
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
        response.read()
    except (ConnectionResetError, http.client.HTTPException):
        return CUT_OFF
    return response.status


def ask(connect: Connect, request: bytes) -> int:
    """The status of the answer to the request, on a connection of its own, as a proxy sends it."""
    with connect() as connection:
        return exchange(connection, request)


class Neighbour:
    """Another client, which asks again and again."""

    def __init__(self, connect: Connect) -> None:
        self.longest = 0.0
        """Seconds that it has waited for an answer since this was last set."""
        self._connect = connect
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stopped.wait(_PAUSE_SECONDS):
            asked = time.perf_counter()
            status = ask(self._connect, _PLAIN)
            waited = time.perf_counter() - asked
            # An answer that failed must not look like a fast one.
            self.longest = max(self.longest, waited if status == http.HTTPStatus.OK else float("inf"))


def measure(
    connect: Connect, requests: Mapping[str, bytes] = REQUESTS, repetitions: int = REPETITIONS
) -> Iterator[Measurement]:
    """Send each request so many times, one after the other, beside another client."""
    with Neighbour(connect) as neighbour:
        for name, request in requests.items():
            status = CUT_OFF
            delays: list[float] = []
            times: list[float] = []
            for _ in range(repetitions):
                with connect() as connection:
                    time.sleep(_PAUSE_SECONDS * 20)
                    neighbour.longest = 0
                    sent = time.perf_counter()
                    status = exchange(connection, request)
                    times.append(time.perf_counter() - sent)
                    time.sleep(_PAUSE_SECONDS * 10)  # The answer that the neighbour waits for counts, too.
                    delays.append(neighbour.longest)
            yield Measurement(name, status, delays, min(times))
