"""The server of the metrics."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app.metrics.exporter import _Workers


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
