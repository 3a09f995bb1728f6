"""The header fields of every response."""

from __future__ import annotations

from flask import Response

from app.api.addresses import Addresses
from app.api.cors import CorsPolicy
from app.api.paths import DOCUMENT, LEGACY_CONTACT, is_under_api
from app.api.quotas import Quotas
from app.api.request import Request
from app.ratelimit.headers import rate_limit_fields
from app.versions import V1, Status, Version, Versions


class ResponseFields:
    """Version, request id, rate limits, CORS and the address of the document.

    Adds the deprecation fields when the version has an end date.
    """

    def __init__(self, *, addresses: Addresses, quotas: Quotas, versions: Versions, cors: CorsPolicy) -> None:
        self._quotas = quotas
        self._cors = cors
        self._constant = {version.name: _constant_fields(version.name) for version in versions}
        self._current = versions.current
        self._service_desc = ("Link", f'<{addresses.base_path}{DOCUMENT}>; rel="service-desc"')
        """Points from the API to its description (RFC 8631, section 4)."""

    def of(self, request: Request, response: Response) -> list[tuple[str, str]]:
        """The fields of this response to this request."""
        version, environ = request.version, request.environ
        fields = [
            *self._constant[self._served_by(version, request.path)],
            ("X-Request-ID", request.id),
            *rate_limit_fields(self._quotas.stated(request, response.status_code)),
        ]
        fields += self._cors.fields(environ.get("HTTP_ORIGIN", ""))
        if request.method == "OPTIONS" and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ and "HTTP_ORIGIN" in environ:
            fields += self._cors.preflight_fields(environ["HTTP_ORIGIN"], response.headers.get("Allow"))
        if version and version.lifecycle and version.status() is not Status.CURRENT:
            fields += version.lifecycle.headers
        # A malformed request has no path: it may have been under /api.
        if not request.path or is_under_api(request.path) or request.path == DOCUMENT:
            fields.append(self._service_desc)
        return fields

    def _served_by(self, version: Version | None, path: str) -> str:
        if version:
            return version.name
        return V1 if path == LEGACY_CONTACT else self._current.name


def _constant_fields(version: str) -> list[tuple[str, str]]:
    return [
        ("API-Version", version),
        ("Vary", "Accept, Accept-Encoding, Origin"),
        ("X-Content-Type-Options", "nosniff"),
    ]
