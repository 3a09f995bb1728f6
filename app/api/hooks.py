"""The hooks around every view: quotas before it; header fields, log line and metrics after it."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from urllib.parse import urlsplit

import flask
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.http import http_date
from werkzeug.routing import RequestRedirect

from app.api.body import invalid_body
from app.api.client import Clients
from app.api.paths import DOCUMENT, LEGACY_CONTACT, is_under_api
from app.api.quotas import Quotas
from app.api.request import Request, current_request
from app.errors import ApiError, ErrorCode
from app.settings import Settings
from app.versions import DEPRECATION, V1, Status, Versions

OnFinish = Callable[[Request, int], None]
"""Records a request and the status of its response, in the log or in the metrics."""


class Hooks:
    """``admit`` runs before all views, and ``finish`` last of all ``after_request`` functions."""

    def __init__(
        self, settings: Settings, *, clients: Clients, quotas: Quotas, versions: Versions, on_finish: Sequence[OnFinish]
    ) -> None:
        self._clients = clients
        self._quotas = quotas
        self._versions = versions
        self._on_finish = on_finish
        base_url = settings.public_base_url
        # Without PUBLIC_BASE_URL the document names the host that the client sent, so only that client may cache it.
        self._document_cache_control = f"{'public' if base_url else 'private'}, max-age=300"
        self._service_desc = f'<{urlsplit(base_url or "").path}{DOCUMENT}>; rel="service-desc"'
        """Points from the API to its description (RFC 8631, section 4)."""

    def admit(self) -> None:
        """Identify the request, then check quota, sunset and path; raises ApiError."""
        request = current_request()
        path, environ = request.path, request.environ
        request.id = self._clients.request_id(environ) or request.id
        request.client = self._clients.key(environ)
        request.version = version = self._versions.at(path)
        # Werkzeug folds leading slashes before routing, and redirects a path without its final slash.
        if path != "/" + path.lstrip("/") or isinstance(request.routing_exception, RequestRedirect):
            request.url_rule, request.routing_exception = None, NotFound()
        if request.is_malformed:
            raise invalid_body("http")
        self._quotas.count(request)
        exists = request.url_rule is not None or isinstance(request.routing_exception, MethodNotAllowed)
        if version and version.status() is Status.SUNSET and not (exists and request.method == "OPTIONS"):
            raise ApiError(ErrorCode.API_VERSION_SUNSET)

    def finish(self, response: flask.Response) -> flask.Response:
        """Add the header fields of every response, and record it."""
        request = current_request()
        path, status = request.path, response.status_code
        headers, version = response.headers, request.version
        unversioned = V1 if path == LEGACY_CONTACT else self._versions.current.name
        is_document = path == DOCUMENT and status in (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED)
        headers["API-Version"] = version.name if version else unversioned
        headers["Cache-Control"] = self._document_cache_control if is_document else "no-store"
        headers["Vary"] = "Accept, Accept-Encoding, Origin"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["X-Request-ID"] = request.id
        headers.update(self._quotas.header_fields(request, status))
        if version and version.lifecycle and version.status() is not Status.CURRENT:
            headers["Deprecation"] = DEPRECATION
            headers["Sunset"] = http_date(version.lifecycle.sunset_on)  # RFC 8594
            headers.add("Link", f'<{version.lifecycle.successor}>; rel="successor-version"')  # RFC 8288
        # A request that gunicorn could not parse has no path: it may have been under /api.
        if not path or is_under_api(path) or path == DOCUMENT:
            headers.add("Link", self._service_desc)
        for record in self._on_finish:
            record(request, status)
        return response
