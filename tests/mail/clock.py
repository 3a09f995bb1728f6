"""A clock that leaps, so that nobody waits for a silent server."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

import pytest


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
