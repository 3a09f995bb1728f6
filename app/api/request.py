"""The request, what the service knows of it, and its log line.

A client can choose no name that appears in the log or in the metrics.
"""

import logging
import time
import uuid
from functools import cached_property
from http import HTTPMethod
from typing import Any, cast

import flask
from werkzeug.exceptions import MethodNotAllowed

from app.addresses import truncated
from app.api.paths import is_under_api
from app.contact.submission import UNKNOWN_FORM_TYPE, Outcome
from app.ratelimit.window import Decision
from app.versions import Version

KNOWN_METHODS: frozenset[str] = frozenset(HTTPMethod)
"""The methods of RFC 9110, section 9, and PATCH (RFC 5789)."""

logger = logging.getLogger("app.request")


class Request(flask.Request):
    """Flask's request with the service's own attributes. Hooks, quotas, the contact view and the handlers set them."""

    id: str
    """The request's id, which its response, each of its log lines and its message carry: 32 hexadecimal digits."""
    client: bytes = b""
    """The key that the limiters count the client under."""
    version: Version | None = None
    """The version that the path belongs to, if there is one."""
    decision: Decision | None = None
    """The newest decision of a quota that the request was counted against."""
    error_code: str = "-"
    """The ``error.code`` of the answer."""
    form_type: str = UNKNOWN_FORM_TYPE
    """The kind of the form that the request sends."""
    outcome: Outcome | None = None
    """The end of the form, once it is accepted."""

    def __init__(self, environ: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(environ, *args, **kwargs)
        self.begun = time.perf_counter()
        self.id = uuid.uuid4().hex
        # Werkzeug folds slashes at the front and adds a missing one. Quotas, sunset, router, header fields and log
        # must all use the same path, exactly as it arrived.
        raw: str = environ.get("PATH_INFO", "")
        if not raw.startswith("/") or raw.startswith("//"):
            self.path = raw.encode("latin-1").decode(errors="replace")

    @property
    def method_name(self) -> str:
        """The method, or "-" for one that is not known."""
        return self.method if self.url_rule or self.method in KNOWN_METHODS else "-"

    @cached_property
    def route(self) -> str:
        """The rule of the path, also when the method is refused; of an unknown path the class."""
        rule, refusal = self.url_rule, self.routing_exception
        if isinstance(refusal, MethodNotAllowed) and refusal.valid_methods:
            adapter = flask.current_app.create_url_adapter(self)
            if adapter is not None:
                rule, _ = adapter.match(method=next(iter(refusal.valid_methods)), return_rule=True)
        return rule.rule if rule else _class_of(self.path)


request = cast("Request", flask.request)
"""The current request: Flask's own proxy, typed."""


def log_request(status: int) -> None:
    """Write the line of the current request, which is answered with that status, without personal data."""
    parts = {
        "method": request.method_name,
        "route": request.route,
        "status": status,
        "code": request.error_code,
        "duration_ms": round((time.perf_counter() - request.begun) * 1000, 1),
        "client": truncated(request.client),
    }
    logger.info("%s %s %s %s %s ms %s", *parts.values(), extra=parts)


def _class_of(path: str) -> str:
    if not path.startswith("/"):
        return "malformed"
    if is_under_api(path):
        return "api/other"
    if path.startswith("/.well-known/"):
        return "well-known"
    if "/." in path:
        return "dotfile"
    return "php" if ".php" in path.lower() else "other"
