"""Clocks that a test puts forward, so that no second of a day and of a silent server passes."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

import pytest

DAY = 86_400


class Clock:
    """``passed`` puts both clocks forward; ``wall`` is the part by which the wall clock alone was set."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.passed = self.wall = 0.0
        self.start, monotonic = float(round(time.time())), round(time.monotonic())  # sums of whole seconds are exact
        patch.setattr(time, "time", lambda: self.start + self.passed + self.wall)
        patch.setattr(time, "time_ns", lambda: round(time.time() * 1_000) * 1_000_000)
        patch.setattr(time, "monotonic", lambda: monotonic + self.passed)


def run_short_after(patch: pytest.MonkeyPatch, sent: bytes, *, allowed: float, left: float = 0.3) -> None:
    """From the moment on when a client sends such bytes, so many seconds are left of those allowed.

    So the steps before have all the time that a busy machine may need, and the wait for a silent server is short.
    """
    monotonic, begun = time.monotonic, time.monotonic()
    skipped = 0.0

    def skipping(sendall: Callable[..., None]) -> Callable[..., None]:
        def sendall_and_skip_time(connected: socket.socket, data: bytes, flags: int = 0) -> None:
            nonlocal skipped
            sendall(connected, data, flags)
            if sent in data:
                skipped = max(0.0, begun + allowed - left - monotonic())

        return sendall_and_skip_time

    patch.setattr(time, "monotonic", lambda: monotonic() + skipped)
    for kind in (socket.socket, ssl.SSLSocket):
        patch.setattr(kind, "sendall", skipping(kind.sendall))
