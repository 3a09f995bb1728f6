"""Flask without what this service has no use for, and with JSON as the form of every response."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cached_property
from http import HTTPStatus
from typing import Any, cast

import flask
from flask.globals import request_ctx
from flask.sessions import NullSession, SessionInterface, SessionMixin
from werkzeug.exceptions import NotFound
from werkzeug.routing import MapAdapter, Rule

from app.api.paths import path_of
from app.api.visit import Fields, visit_of
from app.logs import log_unforeseen

logger = logging.getLogger(__name__)


class Response(flask.Response):
    """A JSON response; the fields that every response carries are its visit's.

    So a response that is the same for all is made once. And werkzeug checks and copies header by header, which for the
    fifteen of this contract takes as long as the rest of a request: what the service itself has made goes to the server
    as it is.
    """

    default_mimetype = "application/json"
    caching = "no-store"
    """The Cache-Control of this response."""
    response: Iterable[bytes]

    def get_wsgi_response(self, environ: dict[str, Any]) -> tuple[Iterable[bytes], str, Fields]:
        """The response as PEP 3333 has it."""
        if environ["REQUEST_METHOD"] == "HEAD" or self.status_code in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            body, status, own = super().get_wsgi_response(environ)  # takes away the body, or its fields too
        else:
            body, status, own = self.response, self.status, list(self.headers)
        return body, status, [*own, ("Cache-Control", self.caching), *visit_of(environ).fields]


class _NoSessions(SessionInterface):
    """No cookie is read or written, so none is looked for."""

    _session = NullSession()

    def open_session(self, *_: object) -> SessionMixin:
        return self._session


class Application(flask.Flask):
    """An application at the root of its host, without sessions, static files, coroutines and host names to match.

    It has one hook before all views and one after them, where Flask walks through several lists for each request and
    sends signals, which nobody here listens to.
    """

    response_class = Response
    session_interface = _NoSessions()

    def __init__(self, import_name: str) -> None:
        super().__init__(import_name, static_folder=None)
        self.url_map.merge_slashes = False
        self.before: Callable[[flask.Request], Response | None] = lambda _request: None
        self.after: Callable[[flask.Request, Response], Response] = lambda _request, response: response

    @cached_property
    def _rules(self) -> dict[tuple[str, str], Rule]:
        """The rules whose paths hold no parameters, by path and method."""
        rules = (rule for rule in self.url_map.iter_rules() if not rule.arguments)
        return {(rule.rule, method): rule for rule in rules for method in rule.methods or ()}

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """None for a request whose rule a look-up finds, else the router, which says what is wrong with it."""
        if request is None:
            return None
        path = path_of(request.environ)
        request.url_rule = self._rules.get((path, request.method))
        if request.url_rule is not None:
            request.view_args = {}
            return None
        if not path.startswith("/") or path.startswith("//"):
            # The router would add a slash, or fold two into one, and find a view that the hooks did not judge.
            request.routing_exception = NotFound()
            return None
        return MapAdapter(self.url_map, "", "/", "", "http", path, request.method)

    def full_dispatch_request(self) -> Response:
        """The response of the hook before all views, else of the view or of an error handler."""
        request = request_ctx.request
        response: Any
        try:
            response = self.before(request) or self.dispatch_request()
        except Exception as error:  # noqa: BLE001 - its handler is found by its class
            response = self.handle_user_exception(error)
        return self.after(request, response)

    def finalize_request(self, rv: Any, from_error_handler: bool = False) -> Response:  # noqa: ARG002, FBT001, FBT002
        """The response to what an error handler or the hook after all views made of itself."""
        try:
            return self.after(request_ctx.request, rv)
        except Exception as error:  # noqa: BLE001 - an answer without the fields of every response is better than none
            log_unforeseen(logger, error, "the hook after all views")
            return cast("Response", rv)

    def do_teardown_request(self, *_: object) -> None:
        """Nothing is left over from a request."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself: none here is a coroutine, which Flask would look into before each call."""
        return func
