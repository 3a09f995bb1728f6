"""Cross-origin requests. flask-cors decides whether an origin may read a response."""

import re
from functools import partial

import flask
from flask_cors import cross_origin
from werkzeug.datastructures import Headers

from app.settings import Settings

EXPOSED = (
    "API-Version, Deprecation, Link, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-RateLimit-Limit,"
    " X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-ID"
)
MAX_AGE_SECONDS = "86400"


class Cors:
    """The CORS headers of every response, by flask-cors's decorator: its hook is skipped when another one fails."""

    def __init__(self, settings: Settings) -> None:
        any_origin = "*" in settings.cors_origins
        # Patterns, because flask-cors would take the brackets of an IPv6 address for one.
        listed = [re.compile(re.escape(origin) + r"\Z", re.IGNORECASE) for origin in settings.cors_origins]
        self._cross_origin = partial(
            cross_origin,
            origins="*" if any_origin else listed,
            expose_headers=EXPOSED,
            max_age=MAX_AGE_SECONDS,
            send_wildcard=any_origin,
            always_send=any_origin,
            automatic_options=False,
            vary_header=False,
        )

    def grant(self, headers: Headers) -> None:
        """Let the allowed origins read the response with these headers, and send the fields that a preflight names."""
        decide = self._cross_origin(methods=headers.get("Allow", "").split(", "))(flask.make_response)
        headers.update({name: value for name, value in decide().headers if name.startswith("Access-Control-")})
