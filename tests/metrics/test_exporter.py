"""The server of the metrics."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.metrics.exporter import Exporter, _Workers
from tests.waiting import wait_until


def test_many_clients_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """Their threads would take the interpreter from the public requests in turns."""
    active = 0
    peak = 0

    def sample() -> None:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        time.sleep(0.02)
        active -= 1

    workers = _Workers(sample, tmp_path)
    with ThreadPoolExecutor(8) as clients:
        pages = list(clients.map(lambda _: list(workers.collect()), range(8)))

    assert all(pages)
    assert peak == 1


def test_a_worker_that_nobody_asks_leaves_its_numbers_for_the_others(tmp_path: Path) -> None:
    samples: list[None] = []
    exporter = Exporter(lambda: samples.append(None))
    exporter.start(socket.create_server(("127.0.0.1", 0)), tmp_path)
    try:
        wait_until(lambda: len(samples) >= 3)
    finally:
        exporter.stop()
