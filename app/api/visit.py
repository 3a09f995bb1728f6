"""What the service knows of the request that it is serving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.ratelimit.window import Decision

Fields = list[tuple[str, str]]

_KEY = "app.visit"


@dataclass(slots=True)
class Visit:
    """One request on its way; kept in the WSGI environ, for Flask's g costs a look-up at every touch."""

    client: bytes
    """The key that the limiter counts it under."""
    started: float
    """When it came, by time.perf_counter()."""
    decision: Decision | None = None
    """The newest decision of a quota that it consumed."""
    wait: int = 0
    """Seconds that it must wait besides what the decision says."""
    error_code: str = "-"
    """The error.code that it was answered."""
    fields: Sequence[tuple[str, str]] = ()
    """What its response carries, as every response does."""

    def begin(self, environ: dict[str, Any]) -> None:
        """Let the rest of the request find it."""
        environ[_KEY] = self


def visit_of(environ: dict[str, Any]) -> Visit:
    """The visit of the request with this environ."""
    visit: Visit = environ[_KEY]
    return visit
