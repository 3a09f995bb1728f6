"""Waits for what another thread or process does."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], *, seconds: float = 30) -> None:
    """Return once the condition holds; fail when it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
