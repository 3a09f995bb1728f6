"""The hooks around every view: the admission of a request, and the headers of every response."""

from http import HTTPStatus
from urllib.parse import urlsplit

import flask
from werkzeug.exceptions import MethodNotAllowed, NotFound
from werkzeug.http import http_date
from werkzeug.routing import RequestRedirect

from app.api.addresses import Addresses
from app.api.body import invalid_body
from app.api.cors import Cors
from app.api.paths import DOCUMENT, LEGACY_CONTACT, is_under_api
from app.api.quotas import Quotas
from app.api.request import OWN_REQUEST, Request
from app.api.request_log import route_of
from app.errors import ApiError, ErrorCode
from app.ratelimit.headers import rate_limit_headers
from app.settings import Settings
from app.versions import DEPRECATION, V1, Status, Versions


class Hooks:
    """The first hook before all views, and what follows the last hook after them."""

    def __init__(self, settings: Settings, *, addresses: Addresses, quotas: Quotas, versions: Versions) -> None:
        self._addresses = addresses
        self._quotas = quotas
        self._versions = versions
        self._cors = Cors(settings)
        base_url = settings.public_base_url
        # Without PUBLIC_BASE_URL the document names the host that the client sent: it is for that client alone.
        self._caching_of_document = f"{'public' if base_url else 'private'}, max-age=300"
        self._service_desc = f'<{urlsplit(base_url or "").path}{DOCUMENT}>; rel="service-desc"'
        """Points from the API to its description (RFC 8631, section 4)."""

    def admit(self) -> None:
        """Identify the request, then check quota, sunset and path; raises ApiError or NotFound."""
        request: Request = flask.request.environ[OWN_REQUEST]  # a look through Flask's proxy takes time
        self.identify(request)
        if not request.path.startswith("/"):
            raise invalid_body("http")
        self._quotas.count(request)
        exists = request.url_rule is not None or isinstance(request.routing_exception, MethodNotAllowed)
        version = request.version
        if version and version.status() is Status.SUNSET and not (exists and request.method == "OPTIONS"):
            raise ApiError(ErrorCode.API_VERSION_SUNSET)
        # A redirect would be HTML. Its path has a slash too few.
        if request.path.startswith("//") or isinstance(request.routing_exception, RequestRedirect):
            raise NotFound

    def identify(self, request: Request) -> None:
        """Set the request's id, client and version."""
        environ = request.environ
        request.id = self._addresses.request_id(environ) or request.id
        request.client = self._addresses.client(environ)
        request.version = self._versions.at(request.path)
        if not request.path.startswith("/") or request.path.startswith("//"):
            # Werkzeug has looked for the path with one slash.
            request.url_rule = request.routing_exception = None

    def finish(self, response: flask.Response) -> flask.Response:
        """Add the headers of every response. One of the same name that a hook has set gives way, Link excepted."""
        request: Request = flask.request.environ[OWN_REQUEST]
        if not request.client:  # it has failed before it was admitted
            self.identify(request)
        path, status = request.path, response.status_code
        request.route = route_of(request)
        headers, version = response.headers, request.version
        self._cors.grant(headers)
        outside = V1 if path == LEGACY_CONTACT else self._versions.current.name
        headers["API-Version"] = version.name if version else outside
        headers["Vary"] = "Accept, Accept-Encoding, Origin"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["X-Request-ID"] = request.id
        is_document = path == DOCUMENT and status in (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED)
        headers["Cache-Control"] = self._caching_of_document if is_document else "no-store"
        headers.update(rate_limit_headers(self._quotas.stated(request, status)))
        if version and version.lifecycle and version.status() is not Status.CURRENT:
            headers["Deprecation"] = DEPRECATION
            headers["Sunset"] = http_date(version.lifecycle.sunset_on)  # RFC 8594
            headers.add("Link", f'<{version.lifecycle.successor}>; rel="successor-version"')  # RFC 8288
        # A malformed request has no path: it may have been under /api.
        if not path or is_under_api(path) or path == DOCUMENT:
            headers.add("Link", self._service_desc)
        return response
