"""The admission of a request: its id, its client, the /api quota and the sunset of its version."""

from __future__ import annotations

from app.api.addresses import Addresses
from app.api.body import invalid_body
from app.api.quotas import Quotas
from app.api.request import Request
from app.errors import ApiError, ErrorCode
from app.versions import Status, Versions

REFUSED_BY_SERVER = "app.refused_by_server"
"""WSGI environ key under which the worker class passes the ApiError of a request that it could not parse."""


class Admission:
    """Decides whether a request goes on to its view."""

    def __init__(self, *, addresses: Addresses, quotas: Quotas, versions: Versions) -> None:
        self._addresses = addresses
        self._quotas = quotas
        self._versions = versions

    def admit(self, request: Request) -> None:
        """Identify the request, then check quota and sunset; raises ApiError when it goes no further."""
        environ = request.environ
        request.id = self._addresses.request_id(environ) or request.id
        request.client = self._addresses.client(environ)
        request.version = version = self._versions.at(request.path)
        if REFUSED_BY_SERVER in environ:
            raise environ[REFUSED_BY_SERVER]
        if not request.path.startswith("/"):
            raise invalid_body("http")
        self._quotas.count(request)
        asks_for_options = request.method == "OPTIONS" and request.url_rule is not None
        if version and version.status() is Status.SUNSET and not asks_for_options:
            raise ApiError(ErrorCode.API_VERSION_SUNSET)
