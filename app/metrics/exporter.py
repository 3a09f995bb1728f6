"""The address at which Prometheus reads the metrics. Each worker answers with the numbers of all."""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import ThreadingHTTPServer

from prometheus_client import PLATFORM_COLLECTOR, CollectorRegistry, Info, Metric, MetricsHandler
from prometheus_client.multiprocess import MultiProcessCollector

from app.release import RELEASE

SAMPLE_SECONDS = 0.25
"""Seconds from one sample to the next. A stop waits for the end of such a pause."""

PATIENCE = 2.0
"""Seconds that a client may take to send its request, and then to take the answer."""

logger = logging.getLogger(__name__)


class Exporter(ThreadingHTTPServer):
    """Serves the metrics in threads of its own, so that it answers while all others are busy."""

    daemon_threads = False  # so that server_close waits for them

    def __init__(self, sample: Callable[[], None]) -> None:
        super().__init__(("", 0), MetricsHandler, bind_and_activate=False)
        self.socket.close()
        self._sample = sample
        self._thread = threading.Thread(target=self.serve_forever, args=(SAMPLE_SECONDS,), name="metrics", daemon=True)

    def start(self, listener: socket.socket) -> None:
        """Answer what comes to the listener, which all workers share."""
        listener.setblocking(False)  # another worker may take the connection first
        self.socket = listener
        registry = CollectorRegistry()
        registry.register(PLATFORM_COLLECTOR)
        # The same in each worker, so it needs no files. (Among the files prometheus_client can keep no Info.)
        Info("service", "The release that the service runs.", registry=registry).info({"version": RELEASE})
        registry.register(_Workers(None))  # type: ignore[no-untyped-call]
        self.RequestHandlerClass = _Handler.factory(registry)
        self.service_actions()
        self._thread.start()

    def stop(self) -> None:
        """Leave what comes to the other workers, and finish the answers that have begun."""
        if self._thread.is_alive():
            self.shutdown()
            self.server_close()

    def service_actions(self) -> None:
        """Sample, whoever is going to answer. The server's loop calls this in each turn."""
        with suppress(OSError):  # no descriptor is left
            self._sample()

    def handle_error(self, *_: object) -> None:
        """Log the exception that ended an answer, in one line. A client that goes away is no news."""
        if not isinstance(error := sys.exception(), OSError):
            logger.warning("an answer with the metrics has failed: %s", type(error).__name__)


class _Handler(MetricsHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        """Answer a client. One that sends byte by byte has a deadline, too, because a stop waits for it."""
        deadline = threading.Timer(PATIENCE, self._read_no_more)
        deadline.start()
        try:
            super().handle()
        finally:
            deadline.cancel()

    def _read_no_more(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)


class _Workers(MultiProcessCollector):
    _turn = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """The numbers of all workers, read in turn. So many clients take no more of the interpreter than one."""
        with self._turn:
            yield from super().collect()  # type: ignore[no-untyped-call]
