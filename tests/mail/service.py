"""The clocks of a service, which a test alone puts forward, so that no second of its days passes."""

from __future__ import annotations

import time

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
