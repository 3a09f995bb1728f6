"""GET /api/v1/health while every contact client waits on a mail server that never answers.

For each number of threads there are two services. One gets GETs alone. The other one also gets contact forms: twice as
many clients as it has threads post without end, half a second after each answer. The GETs come over 4 connections with
5 ms between them. Each service is behind nginx over a unix socket, as it is shipped. "Slowest" is the slowest GET of
all rounds. Without forms it shows the pauses of the machine itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from bench.findings import Bar, Chart, Findings, Goal, figure
from bench.http import HEALTH
from bench.machine import LOAD_CORE
from bench.rounds import interleaved
from bench.servers import nginx, process, proxy, service
from bench.sink import sink
from bench.wrk import Load, command, load

THREADS = (16, 32)
ALONE, HANGING = "GETs alone", "mail hanging"


def measure(directory: Path) -> Findings:
    """Run the section."""
    with ExitStack() as stack:
        settings = stack.enter_context(sink(directory / "sink", silent=True))
        turns: dict[tuple[int, str], Callable[[], Load]] = {}
        for threads in THREADS:
            for state in (ALONE, HANGING):
                name = f"{threads} threads, {state}"
                socket_file = directory / f"{threads}-{len(turns)}.sock"
                stack.enter_context(service(directory / name, unix=socket_file, threads=threads, environ=settings))
                front = stack.enter_context(nginx(proxy(socket_file), socket_file.with_suffix(".nginx")))
                if state == HANGING:
                    posts = command(
                        front.port, "/contact.php", method="POST", seconds=600, connections=2 * threads, pause_ms=500
                    )
                    stack.enter_context(process(posts, directory / f"{name}, posts", LOAD_CORE, ready=lambda: True))
                turns[threads, state] = partial(load, front.port, HEALTH, connections=4, pause_ms=5)
        results = interleaved(turns)
    p50, p99, slowest = (
        {case: summary(getattr(seen, name) for seen in rounds) for case, rounds in results.items()}
        for name, summary in (("p50_ms", median), ("p99_ms", median), ("max_ms", max))
    )
    goals = []
    for threads in THREADS:
        case = (threads, HANGING)
        goals.append(Goal(f"p99 of a GET, mail hanging, {threads} threads", p99[case], 50, "ms"))
        goals.append(Goal(f"the slowest GET, mail hanging, {threads} threads", slowest[case], 100, "ms"))
    return Findings(
        columns=["threads", "", "p50 ms", "p99 ms", "slowest ms"],
        rows=[
            [str(threads), state, *(figure(times[threads, state]) for times in (p50, p99, slowest))]
            for threads, state in results
        ],
        goals=goals,
        charts=[
            Chart(
                "GET while the mail server hangs, p99",
                "ms",
                [
                    Bar(f"{threads} threads, {state}", value, state == HANGING)
                    for (threads, state), value in p99.items()
                ],
            )
        ],
    )
