"""The CORS policy, decided by flask-cors once per allowed origin and set of methods."""

from __future__ import annotations

import re
from functools import cache

from flask import Flask
from flask_cors.core import get_cors_headers, get_cors_options
from werkzeug.datastructures import Headers

from app.api.visit import Fields
from app.settings import Settings

EXPOSED = (
    "RateLimit",
    "RateLimit-Policy",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "Retry-After",
    "API-Version",
    "Deprecation",
    "Sunset",
    "Link",
)
MAX_AGE_SECONDS = 86_400


class CorsPolicy:
    """Answers for an Origin from what was computed for it before.

    flask-cors on every response would decide the same thing anew each time, and leave a Vary line of its own.
    """

    def __init__(self, app: Flask, settings: Settings) -> None:
        self._app = app
        self._origins = settings.cors_origins
        self._decide = cache(self._ask_flask_cors)
        self.fields_of_any = self._decide("*", None) if "*" in self._origins else None
        """The fields of every response when all origins are allowed, else None."""

    def fields(self, origin: str) -> Fields:
        """What a response to this Origin carries; nothing for one that is not allowed."""
        return self._decide(origin, None) if origin in self._origins else []

    def preflight_fields(self, origin: str, methods: str) -> Fields:
        """What the answer to a preflight carries besides, ``methods`` being those of the path."""
        if self.fields_of_any is not None:
            origin = "*"
        return self._decide(origin, methods) if origin in self._origins else []

    def _ask_flask_cors(self, origin: str, methods: str | None) -> Fields:
        options = get_cors_options(
            self._app,
            {
                # A pattern, for flask-cors would take the brackets of an IPv6 address for one of its own making.
                "origins": origin if origin == "*" else re.compile(re.escape(origin) + r"\Z"),
                "send_wildcard": origin == "*",
                "methods": methods.split(", ") if methods else [],
                "allow_headers": ["Content-Type"],
                "expose_headers": list(EXPOSED),
                "max_age": MAX_AGE_SECONDS,
                "vary_header": False,
            },
        )
        asked = Headers({"Origin": origin})
        if methods:
            asked["Access-Control-Request-Method"] = methods.split(", ")[0]
            asked["Access-Control-Request-Headers"] = "Content-Type"
        headers = get_cors_headers(options, asked, "OPTIONS" if methods else "GET")
        plain = {"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
        return [(name, str(value)) for name, value in headers.items() if not methods or name not in plain]
