"""The CORS policy. flask-cors decides once for each allowed origin and set of methods."""

from __future__ import annotations

import re
from functools import cache

from flask_cors.core import DEFAULT_OPTIONS, get_cors_headers, serialize_options
from werkzeug.datastructures import Headers

from app.settings import Settings

EXPOSED = (
    "RateLimit",
    "RateLimit-Policy",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Request-ID",
    "Retry-After",
    "API-Version",
    "Deprecation",
    "Sunset",
    "Link",
)
MAX_AGE_SECONDS = 86_400


class CorsPolicy:
    """The CORS fields for each allowed Origin.

    flask-cors as an extension would decide again for each response, and add a second Vary line.
    """

    def __init__(self, settings: Settings) -> None:
        self._origins = settings.cors_origins
        self._decide = cache(_ask_flask_cors)
        self._of_any = self._decide("*", None) if "*" in self._origins else None

    def fields(self, origin: str) -> list[tuple[str, str]]:
        """The fields of a response to this Origin; none for one that is not allowed."""
        return self._fields(origin, None) if self._of_any is None else self._of_any

    def preflight_fields(self, origin: str, methods: str | None) -> list[tuple[str, str]]:
        """The further fields of the answer to a preflight; ``methods`` is the Allow field of the path, if it exists."""
        return self._fields(origin if self._of_any is None else "*", methods) if methods else []

    def _fields(self, origin: str, methods: str | None) -> list[tuple[str, str]]:
        origin = origin.lower()
        return self._decide(origin, methods) if origin in self._origins else []


def _ask_flask_cors(origin: str, methods: str | None) -> list[tuple[str, str]]:
    options = serialize_options(
        {
            **DEFAULT_OPTIONS,
            # A pattern, because flask-cors would take the brackets of an IPv6 address for one.
            "origins": origin if origin == "*" else re.compile(re.escape(origin) + r"\Z"),
            "send_wildcard": origin == "*",
            "methods": methods.split(", ") if methods else [],
            "allow_headers": ["Content-Type"],
            "expose_headers": list(EXPOSED),
            "max_age": MAX_AGE_SECONDS,
            "vary_header": False,
        }
    )
    asked = Headers({"Origin": origin})
    if methods:
        asked["Access-Control-Request-Method"] = methods.split(", ")[0]
        asked["Access-Control-Request-Headers"] = "Content-Type"
    headers = get_cors_headers(options, asked, "OPTIONS" if methods else "GET")
    plain = {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
    return [(name, str(value)) for name, value in headers.items() if not methods or name not in plain]
