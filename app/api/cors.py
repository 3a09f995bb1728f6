"""Cross-origin requests. flask-cors decides whether an origin may read a response."""

from __future__ import annotations

import re
from functools import lru_cache

import flask
from flask_cors import cross_origin
from werkzeug.datastructures import Headers

from app.api.request import request
from app.settings import Settings

EXPOSED = (
    "API-Version, Deprecation, Link, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-RateLimit-Limit,"
    " X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-ID"
)
MAX_AGE_SECONDS = "86400"
_PREFIX = "access-control-"
_OF_ANY_RESPONSE = ("Access-Control-Allow-Origin", "Access-Control-Expose-Headers")


class Cors:
    """The CORS fields of every response.

    The extension as a whole would be one more hook, which no response passes when another one fails. Its decorator
    decides the same for a single function.
    """

    def __init__(self, settings: Settings) -> None:
        any_origin = "*" in settings.cors_origins
        # Patterns, because flask-cors would take the brackets of an IPv6 address for one.
        listed = [re.compile(re.escape(origin) + r"\Z", re.IGNORECASE) for origin in settings.cors_origins]
        decide = cross_origin(
            origins="*" if any_origin else listed,
            methods=[],
            expose_headers=EXPOSED,
            send_wildcard=any_origin,
            always_send=any_origin,
            automatic_options=False,
            vary_header=False,
        )(flask.make_response)

        @lru_cache(maxsize=64)  # flask-cors reads its options again each time
        def granted_to(_origin: str | None) -> list[tuple[str, str]]:
            return [(name, value) for name, value in decide().headers if name in _OF_ANY_RESPONSE]

        self._granted_to = granted_to

    def grant(self, headers: Headers) -> None:
        """Let the allowed origins read the response to the current request."""
        for name in {name for name in headers.keys() if name.lower().startswith(_PREFIX)}:  # noqa: SIM118 - it has pairs
            del headers[name]
        asked = request.headers
        granted = self._granted_to(asked.get("Origin"))
        headers.extend(granted)
        # flask-cors knows one list of methods for all paths, and would grant it on paths that do not exist.
        is_preflight = request.method == "OPTIONS" and "Origin" in asked and "Access-Control-Request-Method" in asked
        if granted and is_preflight and "Allow" in headers:
            headers["Access-Control-Allow-Methods"] = headers["Allow"]
            headers["Access-Control-Allow-Headers"] = "Content-Type"
            headers["Access-Control-Max-Age"] = MAX_AGE_SECONDS
