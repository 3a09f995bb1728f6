"""The log line of each request, and the names that log and metrics give a request: a client can choose none of them."""

import logging
import time
from http import HTTPMethod

from flask import current_app
from werkzeug.exceptions import MethodNotAllowed

from app.api.paths import is_under_api
from app.api.request import Request
from app.ratelimit.client import truncated

logger = logging.getLogger("app.request")

KNOWN_METHODS: frozenset[str] = frozenset(HTTPMethod)
"""The methods of RFC 9110, section 9, and PATCH (RFC 5789)."""


def method_of(request: Request) -> str:
    """The method, or "-" for one that is not known."""
    return request.method if request.url_rule or request.method in KNOWN_METHODS else "-"


def route_of(request: Request) -> str:
    """The rule of the path of the current request, also when the method is refused; of an unknown path the class."""
    rule = request.url_rule
    refusal = request.routing_exception
    if isinstance(refusal, MethodNotAllowed) and refusal.valid_methods:
        adapter = current_app.create_url_adapter(request)
        if adapter is not None:
            rule, _ = adapter.match(method=next(iter(refusal.valid_methods)), return_rule=True)
    return rule.rule if rule else class_of(request.path)


def class_of(path: str) -> str:
    """The class of an unknown path."""
    if not path.startswith("/"):
        return "malformed"
    if is_under_api(path):
        return "api/other"
    if path.startswith("/.well-known/"):
        return "well-known"
    if "/." in path:
        return "dotfile"
    return "php" if ".php" in path.lower() else "other"


def log_request(request: Request, status: int) -> None:
    """Write the line of a request that is answered with that status, without personal data."""
    parts = {
        "method": method_of(request),
        "route": request.route,
        "status": status,
        "code": request.error_code,
        "duration_ms": round((time.perf_counter() - request.begun) * 1000, 1),
        "client": truncated(request.client),
    }
    logger.info("%s %s %s %s %s ms %s", *parts.values(), extra=parts | {"request_id": request.id})
