"""Flask without what this service has no use for, and with JSON as the form of every response."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

import flask
from flask.sessions import NullSession, SessionInterface, SessionMixin
from werkzeug.routing import MapAdapter

Fields = list[tuple[str, str]]


class Response(flask.Response):
    """A JSON response; the fields that every response carries travel beside its own.

    werkzeug checks and copies header by header, which for the fifteen of this contract takes as long as the rest of a
    request: what the service itself has made goes to the server as it is.
    """

    default_mimetype = "application/json"
    caching = "no-store"
    """The Cache-Control of this response."""
    response: Iterable[bytes]
    common_fields: Fields = []  # noqa: RUF012 - replaced as a whole, never changed

    def get_wsgi_response(self, environ: dict[str, Any]) -> tuple[Iterable[bytes], str, Fields]:
        """The response as PEP 3333 has it."""
        if environ["REQUEST_METHOD"] == "HEAD" or self.status_code in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            body, status, own = super().get_wsgi_response(environ)  # takes away the body, or its fields too
        else:
            body, status, own = self.response, self.status, list(self.headers)
        return body, status, [*own, ("Cache-Control", self.caching), *self.common_fields]


class _NoSessions(SessionInterface):
    """No cookie is read or written, so none is looked for."""

    _session = NullSession()

    def open_session(self, *_: object) -> SessionMixin:
        return self._session


class Application(flask.Flask):
    """An application at the root of its host, without sessions, static files, coroutines and host names to match.

    It has one hook before all views and one after them, where Flask walks through several lists for each request.
    """

    response_class = Response
    session_interface = _NoSessions()

    def __init__(self, import_name: str) -> None:
        super().__init__(import_name, static_folder=None)
        self.url_map.merge_slashes = False
        self.before: Callable[[], Response | None] = lambda: None
        self.after: Callable[[Response], Response] = lambda response: response

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """The router's view of a request, of which only path and method matter here."""
        if request is None:
            return None
        return MapAdapter(self.url_map, "", "/", "", "http", request.path, request.method)

    def preprocess_request(self) -> Response | None:
        """What the hook before all views answers in place of one, if anything."""
        return self.before()

    def process_response(self, response: Any) -> Response:
        """The response as the hook after all views leaves it."""
        return self.after(response)

    def do_teardown_request(self, *_: object) -> None:
        """Nothing is left over from a request."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself: none here is a coroutine, which Flask would look into before each call."""
        return func
