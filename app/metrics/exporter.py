"""The address at which Prometheus reads the metrics. Each worker answers with the numbers of all."""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, CollectorRegistry, Metric, MetricsHandler
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from app.metrics import files

SAMPLE_SECONDS = 1.0
"""Seconds from one sample to the next. What a scrape shows of the other workers is not older."""

PATIENCE = 2.0
"""Seconds that a client may take to send its request, and then to take the answer."""

_TURN_SECONDS = 0.1
"""Seconds from one turn of the server's loop to the next. A worker that stops waits for the end of a turn."""

logger = logging.getLogger(__name__)


class Exporter:
    """Serves the metrics in threads of its own, so that it answers while all others are busy."""

    def __init__(self, sample: Callable[[], None]) -> None:
        self._sample = sample
        self._server: _Server | None = None

    def start(self, listener: socket.socket, directory: Path) -> None:
        """Answer what comes to the listener, which all workers may share.

        ``directory`` has the files of prometheus_client.
        """
        self._sample()
        registry = CollectorRegistry()
        registry.register(_Workers(self._sample, directory))
        self._server = _Server(listener, MetricsHandler.factory(registry), self._sample)
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(_TURN_SECONDS,), name="metrics", daemon=True).start()

    def stop(self) -> None:
        """Leave what comes to the other workers, and finish the answers that have begun."""
        if self._server is not None:
            self._server.shutdown()
            self._server.read_no_more(math.inf)
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close waits for them

    def __init__(self, listener: socket.socket, handler: type[MetricsHandler], sample: Callable[[], None]) -> None:
        handler.timeout = PATIENCE
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        # Another worker may take the connection first.
        listener.setblocking(False)
        self._sample = sample
        self._next_sample = 0.0
        self._deadlines: dict[Any, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a client in a thread of its own."""
        self._deadlines[request] = time.monotonic() + PATIENCE
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection to a client."""
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def read_no_more(self, now: float) -> None:
        """Take nothing more from the clients whose time to send is over. An answer that has begun goes on."""
        for request, deadline in list(self._deadlines.items()):
            if deadline <= now:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RD)

    def service_actions(self) -> None:
        """Give up the clients that are late, and sample when it is time. The server's loop calls this in each turn."""
        now = time.monotonic()
        self.read_no_more(now)
        if self._next_sample <= now:
            self._next_sample = now + SAMPLE_SECONDS
            self._sample()

    def handle_error(self, *_: Any) -> None:
        """Log the exception that ended an answer, in one line. A client that goes away is no news."""
        if not isinstance(error := sys.exception(), OSError):
            logger.warning("an answer with the metrics has failed: %s", type(error).__name__)


class _Workers(Collector):
    """The numbers of all workers, from their files, and what the kernel knows of those that live."""

    def __init__(self, sample: Callable[[], None], directory: Path) -> None:
        self._sample = sample
        self._directory = directory
        self._turn = threading.Lock()
        self._files = MultiProcessCollector(None, str(directory))  # type: ignore[no-untyped-call]

    def collect(self) -> Iterator[Metric]:
        # One after the other, so that many clients take no more of the interpreter than one.
        with self._turn:
            yield from self._collect()

    def _collect(self) -> Iterator[Metric]:
        self._sample()
        with files.reading(self._directory):
            yield from self._files.collect()  # type: ignore[no-untyped-call]
        yield from PLATFORM_COLLECTOR.collect()
        pids = sorted(map(files.process_of, self._directory.glob("gauge_liveall_*.db")))
        yield from _by_pid([(os.getpid(), GC_COLLECTOR), *((pid, _Process(pid)) for pid in pids)])


def _by_pid(collectors: Iterable[tuple[int, Collector]]) -> Iterable[Metric]:
    """The metrics of several processes, told apart by the label pid."""
    metrics: dict[str, Metric] = {}
    for pid, collector in collectors:
        for metric in collector.collect():
            samples = [sample._replace(labels=sample.labels | {"pid": str(pid)}) for sample in metric.samples]
            metric.samples = []
            metrics.setdefault(metric.name, metric).samples += samples
    return metrics.values()


class _Process(ProcessCollector):
    def __init__(self, pid: int) -> None:
        super().__init__(pid=lambda: pid, registry=None)

    def _boot_time(self) -> float:
        # Of /proc the shipped unit leaves the service no more than the processes, so /proc/stat cannot tell.
        return round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
