"""Metrics for Prometheus (extra [metrics]), collected only with METRICS_BIND."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from app.settings import Settings, missing_extra

if TYPE_CHECKING:
    from app.metrics.recorder import Recorder


def require_metrics(settings: Settings) -> None:
    """Raise SettingsError when METRICS_BIND is set and the extra [metrics] is not installed."""
    if settings.metrics_bind is not None and find_spec("prometheus_client") is None:
        raise missing_extra("METRICS_BIND", "metrics")


def create_recorder(settings: Settings, contact_paths: frozenset[str]) -> "Recorder | None":
    """The recorder of this process; None without METRICS_BIND. Raises SettingsError as ``require_metrics`` does."""
    require_metrics(settings)
    if settings.metrics_bind is None:
        return None
    from app.metrics.recorder import Recorder  # noqa: PLC0415 - needs an optional dependency

    return Recorder(contact_paths)
