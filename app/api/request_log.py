"""The log line of each request."""

from __future__ import annotations

import time

from app.api.labels import method_of
from app.api.request import Request
from app.logs import RequestLogger
from app.ratelimit.client import truncated
from app.settings import Settings

_PARTS = ("method", "route", "status", "code", "duration_ms", "client")
_MESSAGE = "%s %s %s %s %s ms %s"


class RequestLog:
    """Writes a line for each request, without personal data."""

    def __init__(self, settings: Settings) -> None:
        self._logger = RequestLogger("app.request", _MESSAGE, _PARTS, settings)

    def write(self, request: Request, status: int) -> None:
        """Write the line."""
        if not self._logger.enabled:
            return
        self._logger.write(
            request.id,
            (
                method_of(request),
                request.route,
                status,
                request.error_code,
                round((time.perf_counter() - request.begun) * 1000, 1),
                truncated(request.client),
            ),
        )
