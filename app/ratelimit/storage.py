"""The storage of the windows: the memory of the process, or a server that several processes share."""

from collections.abc import Sequence

from app.loop import Loop
from app.ratelimit.window import Policy, SlidingWindow
from app.settings import Settings, missing_extra


class Storage:
    """Keeps the windows of any number of policies: this one in the memory of the process."""

    name = "memory"
    """The value of ``details.rate_limit.storage`` in the health endpoint."""

    loops: Sequence[Loop] = ()
    """The threads that look after the storage, which somebody else starts and stops."""

    in_reach = True
    """True while the storage makes the decisions; else the process makes them by itself."""

    def limiter(self, policy: Policy) -> SlidingWindow:
        """A limiter whose windows are kept here."""
        return SlidingWindow(policy)

    def close(self) -> None:
        """Close the connections; here there are none."""


def create_storage(settings: Settings) -> Storage:
    """The storage that RATE_LIMIT_STORAGE names, not connected yet; raises SettingsError when it cannot be used."""
    if settings.rate_limit_storage is None:
        return Storage()
    try:
        # redis is an optional dependency: only shared limits need it.
        from app.ratelimit.shared import SharedStorage  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra("RATE_LIMIT_STORAGE", "redis") from error
    return SharedStorage(settings.rate_limit_storage, connections=settings.threads)
