"""The log line of each request."""

from __future__ import annotations

import time

from flask import Response

from app.api.paths import METHOD_ORDER
from app.api.request import Request
from app.logs import RequestLogger
from app.ratelimit.client import truncated
from app.settings import Settings


class RequestLog:
    """Writes a line for each request, without personal data."""

    def __init__(self, settings: Settings) -> None:
        self._logger = RequestLogger("app.request", settings)

    def write(self, request: Request, response: Response) -> None:
        """Write the line. An unknown path is not shown, because it can hold anything."""
        if not self._logger.enabled:
            return
        route = request.url_rule.rule if request.url_rule else "-"
        method = request.method if request.url_rule or request.method in METHOD_ORDER else "-"
        duration_ms = round((time.perf_counter() - request.begun) * 1000, 1)
        client = truncated(request.client)
        self._logger.write(
            request.id,
            f"{method} {route} {response.status_code} {request.error_code} {duration_ms} ms {client}",
            {
                "method": method,
                "route": route,
                "status": response.status_code,
                "code": request.error_code,
                "duration_ms": duration_ms,
                "client": client,
            },
        )
