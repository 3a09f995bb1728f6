"""Contact forms, up to the mail server's 250, and GETs while forms wait for a mail server that hangs."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from statistics import median
from threading import Thread

from tools.bench.mail_server import HANGING, start_mail_server
from tools.bench.report import Figure
from tools.bench.rivals import gunicorn_settings
from tools.bench.rounds import interleaved
from tools.bench.servers import HEALTH, service
from tools.bench.wrk import load

FORM = "/api/v1/contact"
SLOW = 20
"""Milliseconds that the slow mail server takes for a reply."""
FEW = 4
"""Concurrent forms when a visitor's wait is measured: few arrive at the same moment."""
PAUSE = 0.5
"""Seconds between a response and the next form while the mail server hangs."""


def measure() -> list[Figure]:
    """The figures of forms that a mail server accepts."""
    fast, slow = start_mail_server(), start_mail_server(SLOW)
    many = partial(load, path=FORM, method="POST")
    few = partial(many, connections=FEW)
    servers = {
        "fast": (service(**fast), many),
        "no hand-over": (service("tools.bench.rivals.senders:no_hand_over()", **fast), many),
        "slow, kept": (service(**slow), few),
        "slow, new": (service("tools.bench.rivals.senders:new_connections()", **slow), few),
    }
    with ExitStack() as stack:
        rounds = interleaved(
            {name: partial(send, stack.enter_context(server).port) for name, (server, send) in servers.items()}
        )
    p50 = "A form with the slow mail server, p50"
    return [
        Figure(
            "Forms, against sending mail in no time",
            median(each["fast"].per_second / each["no hand-over"].per_second for each in rounds),
            "x",
            at_least=0.8,
            why_missed="the dialogue with the mail server is plain Python on the same core.",
        ),
        Figure(
            f"{p50}, on kept connections",
            median(each["slow, kept"].p50_ms for each in rounds),
            "ms",
            at_most=60,
            why_missed=f"two round trips take {2 * SLOW} ms, and {FEW} forms at once share one core for the rest.",
        ),
        Figure(f"{p50}, on a new connection", median(each["slow, new"].p50_ms for each in rounds), "ms"),
    ]


def measure_hanging() -> Figure:
    """GETs while the mail server never replies, and as many clients post as there are threads."""
    with service(**start_mail_server(HANGING)) as server:
        clients, posting = count(), gunicorn_settings.threads
        for _ in range(posting):
            Thread(target=_keep_posting, args=(server.port, clients), daemon=True).start()
            time.sleep(PAUSE / posting)  # so that they do not all post at the same moment
        rounds = interleaved({"GET": partial(load, server.port, HEALTH, connections=1, seconds=3)})
    return Figure(
        "A GET while the mail server hangs and 32 clients send forms, p99",
        median(each["GET"].p99_ms for each in rounds),
        "ms",
        at_most=15,
        why_missed="forms are read, composed and written to disk on the same core meanwhile.",
    )


def _keep_posting(port: int, clients: Iterator[int]) -> None:
    """Post forms until the service has ended, each from another client, with a pause before the next.

    wrk would open its next connection before the pause, and so occupy a thread of the service during it.
    """
    body = "form_type=ventas&email=maria@example.com&mensaje=Quisiera conocer sus tarifas."
    head = f"POST {FORM} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded"
    with suppress(ConnectionError):
        for client in clients:
            address = f"198.18.{client // 256}.{client % 256}"
            request = f"{head}\r\nX-Forwarded-For: {address}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(request)  # at once, as a proxy does
                connection.recv(65_536)
            time.sleep(PAUSE)
