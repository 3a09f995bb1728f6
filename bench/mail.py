"""POST /api/v1/contact to delivered mail: from the form to the mail server's 250, the message on disk in between.

Three mail servers in processes of their own: one that answers at once, one that answers each command after 20 ms, and
one with STARTTLS and AUTH. "Connection per message" is this same service with another mailer: smtplib connects, sends
and leaves. "Hand-over for nothing" is this service, too, which takes every message for sent: no way of sending could be
faster. The loop has no web service at all: smtplib sends one ready message over and over on one open connection.
wrk keeps 16 connections busy; each form comes from the next of 100,000 client addresses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from math import nan
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.findings import Bar, Chart, Findings, Goal, figure
from bench.machine import SERVER_CORE, pinned
from bench.rounds import interleaved
from bench.servers import ROOT, Server, service
from bench.sink import Behaviour, sink
from bench.wrk import load

OURS, FRESH, FREE = "this service", "connection per message", "hand-over for nothing"
LOOP = "smtplib loop, no web service"
PLAIN, SLOW, SECURE = "in clear", "20 ms an answer", "STARTTLS, AUTH"
MAIL_SERVERS: dict[str, Behaviour] = {PLAIN: {}, SLOW: {"milliseconds": 20}, SECURE: {"secure": True}}


class Turn(NamedTuple):
    """What one turn showed."""

    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_microseconds: float


def measure(directory: Path) -> Findings:
    """Run the section."""
    with ExitStack() as stack:
        turns: dict[tuple[str, str], Callable[[], Turn]] = {}
        for label, behaviour in MAIL_SERVERS.items():
            settings = stack.enter_context(sink(directory / label, **behaviour))
            ours = stack.enter_context(service(directory / f"{label}, ours", environ=settings))
            app = "bench.rivals.connection_per_message:app"
            fresh = stack.enter_context(service(directory / f"{label}, fresh", app=app, environ=settings))
            turns[label, OURS] = partial(_post, ours)
            turns[label, FRESH] = partial(_post, fresh)
            if label == PLAIN:
                app = "bench.rivals.no_hand_over:app"
                free = stack.enter_context(service(directory / "free", app=app, environ=settings))
                turns[label, FREE] = partial(_post, free)
            if label != SLOW:
                turns[label, LOOP] = partial(_send, settings | {"MAIL_DIR": str(directory / "loop")})
        results = interleaved(turns, rounds=4)

    def ratio(label: str, rival: str) -> float:
        rounds = zip(results[label, OURS], results[label, rival], strict=True)
        return median(ours.per_second / other.per_second for ours, other in rounds)

    figures = {
        case: Turn(*(median(column) for column in zip(*rounds, strict=True))) for case, rounds in results.items()
    }
    return Findings(
        columns=["mail server", "", "messages/s", "p50 ms", "p99 ms", "CPU us/message"],
        rows=[[label, name, *map(figure, turn)] for (label, name), turn in figures.items()],
        goals=[
            Goal("delivered forms against a connection per message", ratio(PLAIN, FRESH), 2.5, "x", True, True),
            Goal("the same with STARTTLS and AUTH", ratio(SECURE, FRESH), 5, "x", True, True),
            Goal("p50 of a form at 20 ms an answer", figures[SLOW, OURS].p50_ms, 50, "ms", headline=True),
        ],
        charts=[
            Chart(
                "Contact forms delivered per second",
                "messages/s",
                [Bar(f"{label}: {name}", turn.per_second, name == OURS) for (label, name), turn in figures.items()],
            )
        ],
    )


def _post(server: Server) -> Turn:
    before = server.cpu_seconds()
    seen = load(server.port, "/api/v1/contact", method="POST")
    cpu = (server.cpu_seconds() - before) / seen.requests
    return Turn(seen.per_second, seen.p50_ms, seen.p99_ms, cpu * 1e6)


def _send(settings: dict[str, str]) -> Turn:
    command = [*pinned(SERVER_CORE), sys.executable, "-m", "bench.rivals.smtp_loop"]
    sent = json.loads(subprocess.check_output(command, cwd=ROOT, env=os.environ | settings))
    return Turn(sent["messages"] / sent["seconds"], nan, nan, sent["cpu"] / sent["messages"] * 1e6)
