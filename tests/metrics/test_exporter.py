"""The server of the metrics."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client.multiprocess import MultiProcessCollector

from app.metrics.exporter import Exporter
from tests.exposition import read
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))


@contextmanager
def exporting(sample: Callable[[], None] = lambda: None) -> Iterator[tuple[Exporter, str]]:
    """A server that has started, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    exporter = Exporter(sample)
    exporter.start(listener)
    try:
        yield exporter, f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        exporter.stop()


def test_many_clients_are_answered_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their threads would take the interpreter from the public requests in turns."""
    active = 0
    peak = 0

    def collect(_: object) -> list[object]:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        time.sleep(0.02)
        active -= 1
        return []

    monkeypatch.setattr(MultiProcessCollector, "collect", collect)
    with exporting() as (_, address), ThreadPoolExecutor(8) as clients:
        pages = list(clients.map(lambda _: read(address), range(8)))

    assert all("python_info" in page for page in pages)
    assert peak == 1


def test_a_worker_that_nobody_asks_leaves_its_numbers_for_the_others() -> None:
    samples: list[None] = []
    with exporting(lambda: samples.append(None)):
        assert samples
        wait_until(lambda: len(samples) >= 3)


def test_a_sample_that_finds_no_descriptor_ends_nothing() -> None:
    samples: list[None] = []

    def sample() -> None:
        samples.append(None)
        raise OSError(errno.EMFILE, "Too many open files")

    with exporting(sample) as (_, address):
        wait_until(lambda: len(samples) >= 3)

        assert "python_info" in read(address)


def test_a_stop_finishes_an_answer_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def collect(_: object) -> list[object]:
        begun.set()
        go_on.wait()
        return []

    monkeypatch.setattr(MultiProcessCollector, "collect", collect)
    with exporting() as (exporter, address), ThreadPoolExecutor(2) as pool:
        page = pool.submit(read, address)
        begun.wait()
        stop = pool.submit(exporter.stop)
        with pytest.raises(TimeoutError):
            stop.result(1)
        go_on.set()

        assert "python_info" in page.result()
        stop.result()


def test_a_stop_does_not_wait_for_a_client_that_sends_byte_by_byte() -> None:
    with exporting() as (exporter, address), ThreadPoolExecutor(1) as pool:
        host, _, port = address.partition(":")
        others = threading.active_count()
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
            wait_until(lambda: threading.active_count() > others + 1)  # the client's, and its deadline
            stop = pool.submit(exporter.stop)

            def send_and_see() -> bool:
                with suppress(OSError):
                    client.sendall(b"x")
                return stop.done()

            wait_until(send_and_see)


def test_what_fails_is_logged_in_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def collect(_: object) -> list[object]:
        raise ValueError("secret")

    monkeypatch.setattr(MultiProcessCollector, "collect", collect)
    with exporting() as (_, address), pytest.raises(OSError, match="closed connection"):
        read(address)

    assert [record.getMessage() for record in caplog.records] == ["an answer with the metrics has failed: ValueError"]
