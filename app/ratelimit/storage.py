"""Where the windows are kept: in the process, or on a server that several processes share."""

from __future__ import annotations

from typing import Protocol

from app.ratelimit.window import Limiter, Policy, SlidingWindow
from app.settings import Settings, SettingsError


class Storage(Protocol):
    """Keeps the windows of any number of policies."""

    name: str
    """What ``details.rate_limit.storage`` of the health endpoint shows."""

    @property
    def in_reach(self) -> bool:
        """Whether decisions are made there; if not, the process makes them by itself."""

    def limiter(self, policy: Policy) -> Limiter:
        """A limiter whose windows are kept here."""

    def start(self, *, wait: float = 0) -> None:
        """Begin to work, once per process; wait for the first result, so many seconds at most."""

    def stop(self) -> None:
        """End what ``start`` began."""


class ProcessMemory:
    """The memory of this process, which is always in reach."""

    name = "memory"
    in_reach = True

    def limiter(self, policy: Policy) -> Limiter:
        """A limiter of this process alone."""
        return SlidingWindow(policy)

    def start(self, *, wait: float = 0) -> None:
        """Nothing has to be begun."""

    def stop(self) -> None:
        """Nothing has to be ended."""


def create_storage(settings: Settings) -> Storage:
    """The storage that RATE_LIMIT_STORAGE names; nothing is connected before its start.

    Raises SettingsError when the extra [redis] is not installed or the address cannot be used.
    """
    if settings.rate_limit_storage is None:
        return ProcessMemory()
    try:
        # Whoever shares no limits needs none of what this imports.
        from app.ratelimit.shared import SharedStorage  # noqa: PLC0415
    except ModuleNotFoundError as error:
        install = ".venv/bin/pip install --require-hashes -r requirements-redis.txt"
        raise SettingsError([f"RATE_LIMIT_STORAGE is set: requires the extra [redis], {install}"]) from error
    return SharedStorage(settings.rate_limit_storage, connections=settings.threads)
