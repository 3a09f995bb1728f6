"""The choice of a storage: the memory of the process, or a server that several processes share."""

from app.ratelimit.window import Storage
from app.settings import Settings, missing_extra


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
