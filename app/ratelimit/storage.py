"""The storage of the windows: the memory of the process, or a server that several processes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from app.loop import Loop
from app.ratelimit.window import Policy, SlidingWindow, Window
from app.settings import Settings, missing_extra


class Storage(Protocol):
    """Keeps the windows of any number of policies."""

    name: str
    """The value of ``details.rate_limit.storage`` in the health endpoint."""

    @property
    def in_reach(self) -> bool:
        """True while the storage makes the decisions; else the process makes them by itself."""

    def limiter(self, policy: Policy) -> Window:
        """A limiter whose windows are kept here."""

    @property
    def loops(self) -> Sequence[Loop]:
        """The threads that look after the storage, which somebody else starts and stops."""

    def close(self) -> None:
        """Close the connections."""


class ProcessMemory:
    """The memory of this process; it is always in reach."""

    name = "memory"
    in_reach = True
    loops = ()

    def limiter(self, policy: Policy) -> Window:
        """A limiter of this process alone."""
        return SlidingWindow(policy)

    def close(self) -> None:
        """Do nothing: there are none."""


def create_storage(settings: Settings) -> Storage:
    """The storage that RATE_LIMIT_STORAGE names; it connects when it is started.

    Raises SettingsError when the extra [redis] is not installed or the address cannot be used.
    """
    if settings.rate_limit_storage is None:
        return ProcessMemory()
    try:
        # redis is an optional dependency: only shared limits need it.
        from app.ratelimit.shared import SharedStorage  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra("RATE_LIMIT_STORAGE", "redis") from error
    return SharedStorage(settings.rate_limit_storage, connections=settings.threads)
