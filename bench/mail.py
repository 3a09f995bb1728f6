"""POST /api/v1/contact to delivered mail: from the form to the mail server's 250, with the message on disk in between.

There are three mail servers, in processes of their own: one answers at once, one answers each command after 20 ms, and
one has STARTTLS and AUTH. "Connection per message" is this service with another sender: smtplib connects, sends and
leaves. "Hand-over for nothing" is this service with a sender that only claims to have sent. No way of sending can be
faster, so the goals are stated against it. It talks to no mail server, so it runs once per round, beside all others.
The loop has no web service at all: smtplib sends one ready message over and over on one open connection. wrk keeps 16
connections busy. Each form comes from the next of 100,000 client addresses. Composing the message of such a form is
measured by itself: the processor time of thousands of calls in one process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from math import nan
from pathlib import Path
from statistics import median
from typing import NamedTuple

from app.contact.composer import Composer
from app.contact.schema import validate
from app.settings import Settings
from bench.findings import Bar, Chart, Findings, Goal, figure
from bench.machine import SERVER_CORE, pinned
from bench.rounds import SECONDS, interleaved
from bench.servers import ROOT, Server, service
from bench.sink import Behaviour, sink
from bench.wrk import load

OURS, FRESH, FREE = "this service", "connection per message", "hand-over for nothing"
LOOP = "smtplib loop, no web service"
NONE, PLAIN, SLOW, SECURE = "none", "in clear", "20 ms an answer", "STARTTLS, AUTH"
MAIL_SERVERS: dict[str, Behaviour] = {PLAIN: {}, SLOW: {"milliseconds": 20}, SECURE: {"secure": True}}
COMPOSITIONS = 2_000 * SECONDS
FORM = {
    "form_type": "ventas",
    "nombre": "María Núñez",
    "empresa": "Comercio Ejemplo S.L.",
    "email": "maria@example.com",
    "telefono": "+34 600 000 000",
    "tema": "Tarifas",
    "mensaje": "Quisiera conocer sus tarifas.\n¿Es posible hablar el jueves por la mañana?",
}
"""The form that wrk sends, without the fields that the message does not show."""


class Turn(NamedTuple):
    """The figures of one turn."""

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
                # Its settings must name a mail server, but it never connects.
                app = "bench.rivals.no_hand_over:app"
                free = stack.enter_context(service(directory / "free", app=app, environ=settings))
                turns[NONE, FREE] = partial(_post, free)
            if label != SLOW:
                turns[label, LOOP] = partial(_send, settings | {"MAIL_DIR": str(directory / "loop")})
        results = interleaved(turns, rounds=4)

    def ratio(case: tuple[str, str], rival: tuple[str, str]) -> float:
        rounds = zip(results[case], results[rival], strict=True)
        return median(turn.per_second / other.per_second for turn, other in rounds)

    figures = {
        case: Turn(*(median(column) for column in zip(*rounds, strict=True))) for case, rounds in results.items()
    }
    return Findings(
        columns=["mail server", "", "messages/s", "x a connection per message", "p50 ms", "p99 ms", "CPU us/message"],
        rows=[
            [
                label,
                name,
                figure(turn.per_second),
                figure(ratio((label, name), (label, FRESH)) if (label, FRESH) in results else nan),
                *map(figure, turn[1:]),
            ]
            for (label, name), turn in figures.items()
        ],
        goals=[
            Goal("delivered forms against a hand-over for nothing", ratio((PLAIN, OURS), (NONE, FREE)), 0.7, "x", True),
            Goal("the same with STARTTLS and AUTH", ratio((SECURE, OURS), (NONE, FREE)), 0.7, "x", True),
            Goal("p50 of a form at 20 ms an answer", figures[SLOW, OURS].p50_ms, 50, "ms"),
            Goal("composing a message", _compose(Settings.from_env({"MAIL_DIR": str(directory)})), 400, "us"),
        ],
        charts=[
            Chart(
                "Contact forms delivered per second",
                "messages/s",
                [Bar(f"{label}: {name}", turn.per_second, name == OURS) for (label, name), turn in figures.items()],
            )
        ],
    )


def _compose(settings: Settings) -> float:
    """Microseconds of processor time for a message: the median of the rounds."""
    values, _ = validate(FORM)
    composer = Composer(settings.mail_from, settings.recipients, settings.mail_timezone)

    def turn() -> float:
        begun = time.process_time()
        for _ in range(COMPOSITIONS):
            composer.compose(values, "0" * 32)
        return (time.process_time() - begun) / COMPOSITIONS * 1e6

    return median(interleaved({OURS: turn})[OURS])


def _post(server: Server) -> Turn:
    before = server.cpu_seconds()
    seen = load(server.port, "/api/v1/contact", method="POST")
    cpu = (server.cpu_seconds() - before) / seen.requests
    return Turn(seen.per_second, seen.p50_ms, seen.p99_ms, cpu * 1e6)


def _send(settings: dict[str, str]) -> Turn:
    command = [*pinned(SERVER_CORE), sys.executable, "-m", "bench.rivals.smtp_loop"]
    sent = json.loads(subprocess.check_output(command, cwd=ROOT, env=os.environ | settings))
    return Turn(sent["messages"] / sent["seconds"], nan, nan, sent["cpu"] / sent["messages"] * 1e6)
