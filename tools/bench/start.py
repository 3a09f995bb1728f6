"""The time from gunicorn's start to the first response, and the memory of its worker after that."""

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tools.bench.report import Figure
from tools.bench.rounds import interleaved
from tools.bench.servers import Server, gunicorn, service


class Start(NamedTuple):
    """The time and the memory of one start."""

    seconds: float
    memory_mb: float


def measure() -> list[Figure]:
    """The figures of the start."""
    rounds = interleaved(
        {
            "ours": partial(_start, service),
            "bare": partial(_start, partial(gunicorn, "tools.bench.rivals.bare_flask:app")),
        }
    )
    return [
        Figure(
            "First response after the start, against bare Flask",
            median(each["ours"].seconds / each["bare"].seconds for each in rounds),
            "x",
            at_most=2,
            why_missed="the service imports its libraries and checks MAIL_DIR before it responds.",
        ),
        Figure(
            "Memory at rest over bare Flask",
            median(each["ours"].memory_mb - each["bare"].memory_mb for each in rounds),
            "MB",
            at_most=3,
            why_missed="the libraries of the service stay in memory.",
        ),
    ]


def _start(serve: Callable[[], AbstractContextManager[Server]]) -> Start:
    begun = time.perf_counter()
    with serve() as server:
        seconds = time.perf_counter() - begun
        worker = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().strip()
        resident = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())
        return Start(seconds, int(resident[0]) / 1024)
