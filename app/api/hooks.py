"""What every request meets before its view and every response after it."""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from flask import Request

from app.api.addresses import Addresses
from app.api.body import invalid_body
from app.api.cors import CorsPolicy
from app.api.framework import Application, Response
from app.api.paths import path_of
from app.api.visit import Fields, Visit, visit_of
from app.errors import ApiError, ErrorCode
from app.logs import RequestLog, request_id
from app.ratelimit.client import truncated
from app.ratelimit.headers import rate_limit_fields
from app.ratelimit.window import Decision, Limiter, whole_seconds
from app.versions import API_ROOT, CURRENT, Status, Versions

API_PREFIX = API_ROOT + "/"
METHOD_ORDER = ("GET", "HEAD", "POST", "OPTIONS")

REFUSED_BY_SERVER = "app.refused_by_server"
"""WSGI environ key under which the worker class passes the ApiError of a request that never became one."""

DOCUMENT_PATH = "/openapi.json"

_FIELDS_OF_EVERY_RESPONSE: Fields = [
    ("API-Version", CURRENT),
    ("Vary", "Accept, Accept-Encoding, Origin"),
    ("X-Content-Type-Options", "nosniff"),
]


@dataclass(frozen=True, slots=True)
class Limits:
    """The two quotas of a client."""

    api: Limiter
    contact: Limiter


def allow(methods: Collection[str]) -> str:
    """The value of an Allow field (RFC 9110, section 10.2.1), in a stable order."""
    return ", ".join(method for method in METHOD_ORDER if method in methods)


def _new_request_id() -> str:
    # No secret: os.urandom would hand the interpreter's lock to another thread in every request.
    return f"{random.getrandbits(128):032x}"


class Hooks:
    """The one hook before all views and the one after them."""

    def __init__(
        self,
        *,
        addresses: Addresses,
        limits: Limits,
        versions: Versions,
        cors: CorsPolicy,
        contact_paths: frozenset[str],
        request_log: RequestLog,
    ) -> None:
        self._addresses = addresses
        self._limits = limits
        self._versions = versions
        self._cors = cors
        self._contact_paths = contact_paths
        self._request_log = request_log

    def register(self, app: Application) -> None:
        """Put both hooks into the app."""
        app.before = self.admit
        app.after = self.state

    def admit(self, request: Request) -> Response | None:
        """OPTIONS has the same answer on all paths that exist; else quota and sunset, in this order.

        Raises ApiError when the request goes no further.
        """
        environ = request.environ
        request_id.set(self._addresses.request_id(environ) or _new_request_id())
        visit = Visit(self._addresses.client(environ), time.perf_counter())
        visit.begin(environ)
        if REFUSED_BY_SERVER in environ:
            raise environ[REFUSED_BY_SERVER]
        path = path_of(environ)
        if not path.startswith("/"):
            raise invalid_body("http")
        if request.method == "OPTIONS":
            if request.url_rule is not None:
                return self._answer_options(environ, allow(request.url_rule.methods or ()))
        elif path.startswith(API_PREFIX) or path == API_ROOT:
            visit.decision = decision = self._limits.api.hit(visit.client)
            _, allowed, remaining, _ = decision
            if not remaining:
                visit.wait = self._wait(visit, decision, environ)
            if not allowed:
                raise ApiError(ErrorCode.RATE_LIMIT_EXCEEDED)
        version = self._versions.ending_at(path)
        if version and version.status() is Status.SUNSET:
            raise ApiError(ErrorCode.API_VERSION_SUNSET)
        return None

    def _wait(self, visit: Visit, decision: Decision, environ: dict[str, Any]) -> int:
        """Seconds until both quotas of a contact request let it through again, the /api quota being spent."""
        _, allowed, _, reset_after = decision
        contact_post = environ["REQUEST_METHOD"] == "POST" and path_of(environ) in self._contact_paths
        if contact_post and not allowed:
            _, contact_allowed, _, contact_reset_after = self._limits.contact.peek(visit.client)
            if not contact_allowed:
                reset_after = max(reset_after, contact_reset_after)
        return whole_seconds(reset_after)

    def _answer_options(self, environ: dict[str, Any], methods: str) -> Response:
        fields = [("Allow", methods)]
        if "HTTP_ORIGIN" in environ and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ:
            fields += self._cors.preflight_fields(environ["HTTP_ORIGIN"].lower(), methods)
        response = Response(status=HTTPStatus.NO_CONTENT, headers=fields)
        del response.headers["Content-Type"]
        return response

    def state(self, request: Request, response: Response) -> Response:
        """Add the fields that every response carries: version, limits, CORS and, near its end, the version's."""
        environ = request.environ
        path = path_of(environ)
        visit = visit_of(environ)
        fields = _FIELDS_OF_EVERY_RESPONSE + rate_limit_fields(self._decision(visit, path, response.status_code))
        cors = self._cors.fields_of_any
        fields += self._cors.fields(environ.get("HTTP_ORIGIN", "").lower()) if cors is None else cors
        version = self._versions.ending_at(path)
        if version and version.lifecycle and version.status() is not Status.CURRENT:
            fields += version.lifecycle.headers
        visit.fields = fields
        if self._request_log.enabled:
            self._log(visit, request, response.status_code)
        request_id.set("-")
        return response

    def _log(self, visit: Visit, request: Request, status: int) -> None:
        """One line per request; a path that is not ours is not shown, for it can hold anything."""
        rule = request.url_rule
        method = request.method if request.method in METHOD_ORDER else "-"
        route = rule.rule if rule else "-"
        duration_ms = round((time.perf_counter() - visit.started) * 1000, 1)
        client = truncated(visit.client)
        self._request_log.write(
            f"{method} {route} {status} {visit.error_code} {duration_ms} ms {client}",
            {
                "method": method,
                "route": route,
                "status": status,
                "code": visit.error_code,
                "duration_ms": duration_ms,
                "client": client,
            },
        )

    def _decision(self, visit: Visit, path: str, status: int) -> Decision:
        """What the response states: the decision that refused the request, else the state of the path's policy."""
        decision = visit.decision
        on_contact_path = path in self._contact_paths
        # A contact request may have waited for the mail server, and its state is that of now.
        if decision is None or (on_contact_path and status != HTTPStatus.TOO_MANY_REQUESTS):
            return (self._limits.contact if on_contact_path else self._limits.api).peek(visit.client)
        return decision
