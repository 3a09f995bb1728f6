"""Cross-origin requests, by flask-cors."""

import re

from flask import Flask
from flask_cors import CORS

EXPOSED = (
    "API-Version, Deprecation, Link, RateLimit, RateLimit-Policy, Retry-After, Sunset, X-RateLimit-Limit,"
    " X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-ID"
)


def allow_origins(app: Flask, origins: tuple[str, ...], contact_paths: frozenset[str]) -> None:
    """Let pages of these origins (``*``: all) send forms, GET the other paths and see EXPOSED header fields."""
    sending = {"methods": ["OPTIONS", "POST"]}
    CORS(
        app,
        resources={**dict.fromkeys(contact_paths, sending), "/*": {"methods": ["GET", "HEAD", "OPTIONS"]}},
        # Patterns, because flask-cors would read an IPv6 address's brackets as a regular expression.
        origins="*" if "*" in origins else [re.compile(re.escape(origin) + r"\Z") for origin in origins],
        expose_headers=EXPOSED,
        max_age="86400",
        send_wildcard=True,
    )
