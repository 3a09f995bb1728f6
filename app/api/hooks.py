"""The hooks around every view: quotas before it; header fields, log line and metrics after it."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import flask
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.http import http_date
from werkzeug.routing import RequestRedirect

from app.addresses import Addresses
from app.api.body import invalid_body
from app.api.paths import DOCUMENT, LEGACY_CONTACT, is_under_api
from app.api.request import request
from app.errors import ApiError, ErrorCode
from app.ratelimit.headers import rate_limit_headers
from app.ratelimit.window import Decision, SlidingWindow, whole_seconds
from app.settings import Settings
from app.versions import DEPRECATION, V1, Status, Versions

Record = Callable[[int], None]
"""Takes note of the current request and the status of its response, in the log or in the metrics."""


class Limits(NamedTuple):
    """The limiters of the two quotas."""

    api: SlidingWindow
    contact: SlidingWindow


class Quotas:
    """Counts requests (specification, Limits): POST /api/v1/contact against both quotas, /contact.php against one."""

    def __init__(self, limits: Limits, contact_paths: frozenset[str]) -> None:
        self._limits = limits
        self._contact_paths = contact_paths

    def count(self) -> None:
        """Count a request under /api, unless it is an OPTIONS; raises ApiError rate_limit_exceeded."""
        if request.method != "OPTIONS" and is_under_api(request.path):
            request.decision = self._limits.api.hit(request.client)
            if not request.decision.allowed:
                raise ApiError(ErrorCode.RATE_LIMIT_EXCEEDED)

    def count_contact(self) -> None:
        """Count a submission; raises ApiError rate_limit."""
        request.decision = self._limits.contact.hit(request.client)
        if not request.decision.allowed:
            raise ApiError(ErrorCode.RATE_LIMIT)

    def state_for_response(self, status: int) -> Decision:
        """The decision that refused the request, else the state of the path's quota."""
        decision = request.decision
        on_contact_path = request.path in self._contact_paths
        # A submission may have waited for the mail server: by now its state is another one.
        if decision is None or (on_contact_path and status != HTTPStatus.TOO_MANY_REQUESTS):
            return (self._limits.contact if on_contact_path else self._limits.api).peek(request.client)
        return decision

    def wait(self) -> int:
        """Seconds until every quota that a refused request counts against lets it through."""
        waits = [request.decision.reset_after] if request.decision else [0]
        if request.method == "POST" and request.path in self._contact_paths and is_under_api(request.path):
            states = [limiter.peek(request.client) for limiter in (self._limits.contact, self._limits.api)]
            waits += [state.reset_after for state in states if not state.allowed]
        return whole_seconds(max(waits))


class Hooks:
    """``admit`` runs before all views, and ``finish`` after all other functions that run after a request."""

    def __init__(
        self,
        settings: Settings,
        *,
        addresses: Addresses,
        quotas: Quotas,
        versions: Versions,
        records: Sequence[Record],
    ) -> None:
        self._addresses = addresses
        self._quotas = quotas
        self._versions = versions
        self._records = records
        base_url = settings.public_base_url
        # Without PUBLIC_BASE_URL the document names the host that the client sent: it is for that client alone.
        self._caching_of_document = f"{'public' if base_url else 'private'}, max-age=300"
        self._service_desc = f'<{urlsplit(base_url or "").path}{DOCUMENT}>; rel="service-desc"'
        """Points from the API to its description (RFC 8631, section 4)."""

    def admit(self) -> None:
        """Identify the request, then check quota, sunset and path; raises ApiError or NotFound."""
        path, environ = request.path, request.environ
        request.id = self._addresses.request_id(environ) or request.id
        request.client = self._addresses.client(environ)
        request.version = version = self._versions.at(path)
        if not path.startswith("/") or path.startswith("//"):
            request.url_rule = request.routing_exception = None  # Werkzeug has looked for the path with one slash
        if not path.startswith("/"):
            raise invalid_body("http")
        self._quotas.count()
        exists = request.url_rule is not None or isinstance(request.routing_exception, MethodNotAllowed)
        if version and version.status() is Status.SUNSET and not (exists and request.method == "OPTIONS"):
            raise ApiError(ErrorCode.API_VERSION_SUNSET)
        # A redirect would be HTML. Its path lacks the final slash.
        if path.startswith("//") or isinstance(request.routing_exception, RequestRedirect):
            raise NotFound

    def finish(self, response: flask.Response) -> flask.Response:
        """Add the header fields of every response, and record it."""
        path, status = request.path, response.status_code
        headers, version = response.headers, request.version
        outside = V1 if path == LEGACY_CONTACT else self._versions.current.name
        is_document = path == DOCUMENT and status in (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED)
        headers["API-Version"] = version.name if version else outside
        headers["Cache-Control"] = self._caching_of_document if is_document else "no-store"
        headers["Vary"] = "Accept, Accept-Encoding, Origin"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["X-Request-ID"] = request.id
        headers.update(rate_limit_headers(self._quotas.state_for_response(status)))
        if version and version.lifecycle and version.status() is not Status.CURRENT:
            headers["Deprecation"] = DEPRECATION
            headers["Sunset"] = http_date(version.lifecycle.sunset_on)  # RFC 8594
            headers.add("Link", f'<{version.lifecycle.successor}>; rel="successor-version"')  # RFC 8288
        # A malformed request has no path: it may have been under /api.
        if not path or is_under_api(path) or path == DOCUMENT:
            headers.add("Link", self._service_desc)
        for record in self._records:
            record(status)
        return response
