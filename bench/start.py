"""From the start of gunicorn to the first answer, and the memory of its worker.

Both run under gunicorn on one core, in turns. "Import" is the time from the start of Python until it has imported the
application, without gunicorn. The first form and the next one are timed, too. The memory is measured after both.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from http import HTTPStatus
from math import nan
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.findings import Bar, Chart, Findings, Goal, figure
from bench.machine import SERVER_CORE, children, memory_mb, pinned
from bench.rounds import interleaved
from bench.servers import ROOT, Server, gunicorn, service

OURS, BARE = "this service", "bare Flask"
SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    OURS: service,
    BARE: partial(gunicorn, "bench.rivals.bare_flask:app"),
}
MODULES = {OURS: "wsgi", BARE: "bench.rivals.bare_flask"}


class Turn(NamedTuple):
    """The figures of one start."""

    first_answer_ms: float
    import_ms: float
    memory_mb: float
    first_form_ms: float = nan
    next_form_ms: float = nan


def measure(directory: Path) -> Findings:
    """Run the section."""
    results = interleaved({name: partial(_start, name, directory / name) for name in SERVERS})
    figures = {name: Turn(*(median(column) for column in zip(*turns, strict=True))) for name, turns in results.items()}
    ours, bare = figures[OURS], figures[BARE]
    return Findings(
        columns=["", "first answer ms", "import ms", "memory MB", "first form ms", "next form ms"],
        rows=[[name, *map(figure, turn)] for name, turn in figures.items()],
        goals=[
            Goal(
                "time to the first answer against bare Flask",
                ours.first_answer_ms / bare.first_answer_ms,
                1.5,
                "x",
            ),
            Goal("memory on top of bare Flask's", ours.memory_mb - bare.memory_mb, 3, "MB"),
        ],
        charts=[
            Chart(
                "Start to the first answer",
                "ms",
                [Bar(name, turn.first_answer_ms, name == OURS) for name, turn in figures.items()],
            )
        ],
    )


def _start(name: str, directory: Path) -> Turn:
    begun = time.perf_counter()
    with SERVERS[name](directory) as server:
        first_answer = time.perf_counter() - begun
        (worker,) = children(server.pid)
        forms = [_post_form(server, client) for client in ("10.0.0.1", "10.0.0.2")] if name == OURS else []
        memory = memory_mb(worker)
    begun = time.perf_counter()
    command = [*pinned(SERVER_CORE), sys.executable, "-c", f"import os, {MODULES[name]}; os._exit(0)"]
    subprocess.run(
        command, cwd=ROOT, env=os.environ | {"MAIL_DIR": str(directory)}, stderr=subprocess.DEVNULL, check=True
    )
    return Turn(first_answer * 1e3, (time.perf_counter() - begun) * 1e3, memory, *forms)


def _post_form(server: Server, client: str) -> float:
    """Send the form of a client; returns the milliseconds until its answer."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"Content-Type": "application/json", "X-Forwarded-For": client}
    connection.request("POST", "/api/v1/contact", '{"form_type":"demo","email":"maria@example.com"}', headers)
    with connection.getresponse() as response:
        response.read()
    connection.close()
    if response.status != HTTPStatus.OK:
        raise RuntimeError(f"a form was answered {response.status}")
    return (time.perf_counter() - begun) * 1e3
