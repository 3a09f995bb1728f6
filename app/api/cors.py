"""Cross-origin requests. flask-cors decides whether an origin may read a response."""

from __future__ import annotations

import re

import flask
from flask_cors import cross_origin

from app.api.request import request
from app.settings import Settings

EXPOSED = (
    "API-Version, Deprecation, Link, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-RateLimit-Limit,"
    " X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-ID"
)
MAX_AGE_SECONDS = "86400"


class Cors:
    """The CORS fields of every response.

    The extension as a whole would be one more hook, which no response passes when another one fails. Its decorator is
    the same for a single function.
    """

    def __init__(self, settings: Settings) -> None:
        any_origin = "*" in settings.cors_origins
        # Patterns, because flask-cors would take the brackets of an IPv6 address for one.
        listed = [re.compile(re.escape(origin) + r"\Z", re.IGNORECASE) for origin in settings.cors_origins]
        self._decide = cross_origin(
            origins="*" if any_origin else listed,
            methods=[],
            expose_headers=EXPOSED,
            send_wildcard=any_origin,
            always_send=any_origin,
            automatic_options=False,
            vary_header=False,
        )(_itself)

    def grant(self, response: flask.Response) -> flask.Response:
        """Let the allowed origins read the response to the current request."""
        for name in [name for name in response.headers.keys() if name.lower().startswith("access-control-")]:  # noqa: SIM118
            del response.headers[name]
        response = self._decide(response)
        headers, asked = response.headers, request.headers
        is_preflight = "Origin" in asked and "Access-Control-Request-Method" in asked and request.method == "OPTIONS"
        # flask-cors knows one list of methods for all paths, and grants it on paths that do not exist.
        if is_preflight and "Access-Control-Allow-Origin" in headers and "Allow" in headers:
            headers["Access-Control-Allow-Methods"] = headers["Allow"]
            headers["Access-Control-Allow-Headers"] = "Content-Type"
            headers["Access-Control-Max-Age"] = MAX_AGE_SECONDS
        return response


def _itself(response: flask.Response) -> flask.Response:
    return response
