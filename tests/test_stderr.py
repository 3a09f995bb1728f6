"""Standard error whose reader has stopped: lines are dropped and counted, and nobody waits."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.stderr import StandardError

CAPACITY = 16_384


@pytest.fixture
def pipe() -> Iterator[tuple[StandardError, int]]:
    """The writing end, and the descriptor of the reading end."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, CAPACITY)
    yield StandardError(writing), reading
    os.close(writing)
    os.close(reading)


def test_lines_arrive_in_their_order(pipe: tuple[StandardError, int]) -> None:
    stderr, reading = pipe

    stderr.write("uno\n")
    stderr.write("años \ud800\n")

    assert os.read(reading, 100).decode() == "uno\naños \\ud800\n"


@pytest.mark.parametrize("length", [10, 5_000, 100_000])
def test_a_full_pipe_stops_nobody(
    pipe: tuple[StandardError, int], length: int, caplog: pytest.LogCaptureFixture
) -> None:
    stderr, reading = pipe
    line = "a" * (length - 1) + "\n"

    def write_much() -> None:
        for _ in range(2 * CAPACITY // length + 2):
            stderr.write(line)

    threads = [threading.Thread(target=write_much, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    stuck = [thread for thread in threads if thread.is_alive()]
    dropped = stderr.dropped
    passed = os.read(reading, 10 * CAPACITY)
    stderr.write("back\n")

    assert stuck == []
    assert dropped == 4 * (2 * CAPACITY // length + 2) - passed.count(b"\n")
    assert os.read(reading, 100).endswith(b"back\n")
    assert [record.getMessage() for record in caplog.records] == [
        f"standard error was not read: {dropped} lines have been dropped since the start"
    ]


def test_the_count_is_said_once(pipe: tuple[StandardError, int], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    stderr, reading = pipe
    while not stderr.dropped:
        stderr.write("a" * 4_095 + "\n")
    os.read(reading, 10 * CAPACITY)

    stderr.write("back\n")
    stderr.write("and on\n")

    assert len(caplog.records) == 1


def test_the_count_is_said_again_only_later(pipe: tuple[StandardError, int], caplog: pytest.LogCaptureFixture) -> None:
    stderr, reading = pipe
    for _ in range(3):
        before = stderr.dropped
        while stderr.dropped == before:
            stderr.write("a" * 4_095 + "\n")
        os.read(reading, 10 * CAPACITY)
        stderr.write("back\n")
    at_once = len(caplog.records)
    stderr._say_from = 0.0
    stderr.write("later\n")

    assert at_once == 1
    assert caplog.records[-1].getMessage() == "standard error was not read: 3 lines have been dropped since the start"


def test_a_line_that_was_cut_off_does_not_swallow_the_next_one(pipe: tuple[StandardError, int]) -> None:
    stderr, reading = pipe
    stderr.write("a" * (2 * CAPACITY) + "\n")
    cut = os.read(reading, 10 * CAPACITY)

    stderr.write("next\n")

    assert set(cut) == {ord("a")}
    assert os.read(reading, 100) == b"\nnext\n"


def test_room_that_another_process_takes_is_not_waited_for(
    pipe: tuple[StandardError, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr, _ = pipe
    monkeypatch.setattr(stderr, "_poll", SimpleNamespace(poll=lambda _: True))

    def write_much() -> None:
        for _ in range(CAPACITY):
            stderr.write("a" * 100)

    thread = threading.Thread(target=write_much, daemon=True)
    thread.start()
    thread.join(60)

    assert not thread.is_alive()
    assert stderr.dropped > 0


def test_a_full_socket_stops_nobody() -> None:
    """systemd gives a service a socket of the journal."""
    reading, writing = socket.socketpair()
    with reading, writing:
        stderr = StandardError(writing.fileno())

        def write_until_dropped() -> None:
            while not stderr.dropped:
                stderr.write("a" * 4_095 + "\n")

        thread = threading.Thread(target=write_until_dropped, daemon=True)
        thread.start()
        thread.join(60)

        assert not thread.is_alive()


def test_the_pipe_is_left_as_it_is_for_others() -> None:
    reading, writing = os.pipe()

    StandardError(writing)

    assert os.get_blocking(writing)
    os.close(writing)
    os.close(reading)


def test_a_reader_that_has_gone_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stderr = StandardError(writing)

    stderr.write("nobody reads this\n")
    os.close(writing)

    assert stderr.dropped == 1
