"""Cross-origin requests. flask-cors decides whether an origin may read a response."""

import re
from functools import lru_cache

import flask
from flask_cors import cross_origin
from werkzeug.datastructures import Headers

from app.api.request import Request
from app.settings import Settings

EXPOSED = (
    "API-Version, Deprecation, Link, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-RateLimit-Limit,"
    " X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-ID"
)
MAX_AGE_SECONDS = "86400"


class Cors:
    """The CORS headers of every response.

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
            send_wildcard=any_origin,
            always_send=any_origin,
            automatic_options=False,
            vary_header=False,
        )(flask.make_response)

        # flask-cors reads its options again each time.
        self._allowed = lru_cache(maxsize=64)(lambda _origin: decide().headers.get("Access-Control-Allow-Origin"))

    def grant(self, request: Request, headers: Headers) -> None:
        """Let the allowed origins read the response with these headers."""
        asked = request.headers
        if (allowed := self._allowed(asked.get("Origin"))) is None:
            return
        headers["Access-Control-Allow-Origin"] = allowed
        headers["Access-Control-Expose-Headers"] = EXPOSED
        # flask-cors knows one list of methods for all paths, and would grant it on paths that do not exist.
        is_preflight = request.method == "OPTIONS" and "Origin" in asked and "Access-Control-Request-Method" in asked
        if is_preflight and "Allow" in headers:
            headers["Access-Control-Allow-Methods"] = headers["Allow"]
            headers["Access-Control-Allow-Headers"] = "Content-Type"
            headers["Access-Control-Max-Age"] = MAX_AGE_SECONDS
