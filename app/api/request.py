"""The request with its attributes, its query parameters and its log line.

Clients choose no method or route name in the log or the metrics.
"""

import logging
import time
import uuid
from dataclasses import dataclass
from functools import cached_property
from http import HTTPMethod
from typing import Any, cast

import flask
from werkzeug.exceptions import MethodNotAllowed
from werkzeug.local import LocalProxy

from app.api.client import network_of
from app.api.paths import is_under_api
from app.errors import ApiError, ErrorCode
from app.forms import UNKNOWN_FORM_TYPE, Outcome
from app.ratelimit.window import Decision
from app.versions import Version

KNOWN_METHODS: frozenset[str] = frozenset(HTTPMethod)  # the methods of RFC 9110, section 9, and PATCH (RFC 5789)

logger = logging.getLogger("app.request")


class Request(flask.Request):
    """Flask's request with the service's own attributes. Hooks, quotas, the contact view and the handlers set them."""

    id: str  # the request's id, which its response, each of its log lines and its message carry: 32 hexadecimal digits
    client: bytes = b""  # the key that the limiters count the client under
    version: Version | None = None  # the version that the path belongs to, if there is one
    decision: Decision | None = None  # the latest rate-limit decision on this request
    error_code: str = "-"  # the ``error.code`` of the response
    form_type: str = UNKNOWN_FORM_TYPE  # the type of the form that the request sends
    outcome: Outcome | None = None  # what became of the form, once it is accepted

    def __init__(self, environ: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(environ, *args, **kwargs)
        self.started_at = time.perf_counter()
        self.id = uuid.uuid4().hex
        # Werkzeug folds leading slashes and adds a missing one. Quotas, sunset, header fields and log use the path
        # exactly as it arrived.
        self.path = environ.get("PATH_INFO", "").encode("latin-1").decode(errors="replace")

    @property
    def is_malformed(self) -> bool:
        """True when the path does not begin with a slash, as for a request that gunicorn could not parse."""
        return not self.path.startswith("/")

    @property
    def method_name(self) -> str:
        """The method, or "-" for one that is not known."""
        return self.method if self.url_rule or self.method in KNOWN_METHODS else "-"

    @cached_property
    def route(self) -> str:
        """The path's URL rule, even if the method is refused; a word for an unknown path."""
        rule, refusal = self.url_rule, self.routing_exception
        if isinstance(refusal, MethodNotAllowed) and refusal.valid_methods:
            adapter = flask.current_app.create_url_adapter(self)
            if adapter is not None:
                rule, _ = adapter.match(method=next(iter(refusal.valid_methods)), return_rule=True)
        if rule:
            return rule.rule
        return "malformed" if self.is_malformed else "api/other" if is_under_api(self.path) else "other"


request = cast("Request", flask.request)  # Flask's proxy of the current request, typed


def current_request() -> Request:
    """The current request itself, for code that reads it often: the proxy looks it up each time."""
    return cast("LocalProxy[Request]", flask.request)._get_current_object()  # noqa: SLF001 - Werkzeug documents it


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """An optional query parameter and the values it takes."""

    name: str
    allowed_values: tuple[str, ...]

    def read(self) -> str | None:
        """The last of the values in the current request; raises ApiError invalid_parameter if one is not allowed."""
        values = request.args.getlist(self.name)
        if not all(value in self.allowed_values for value in values):
            details = {"parameter": self.name}
            raise ApiError(ErrorCode.INVALID_PARAMETER, details=details, allowed_values=self.allowed_values)
        return values[-1] if values else None


def log_request(request: Request, status: int) -> None:
    """Log one line for a request and the status of its response, without personal data."""
    parts = {
        "method": request.method_name,
        "route": request.route,
        "status": status,
        "code": request.error_code,
        "duration_ms": round((time.perf_counter() - request.started_at) * 1000, 1),
        "client": network_of(request.client),
    }
    logger.info("%s %s %s %s %s ms %s", *parts.values(), extra=parts)
