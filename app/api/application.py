"""The Flask application of the service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import flask
from flask.json.provider import DefaultJSONProvider

from app.api.hooks import Hooks
from app.api.request import OWN_REQUEST, Request, request
from app.background import Background
from app.errors import ApiError
from app.logs import drop_exception_text, log_unforeseen

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)

Record = Callable[[Request, int], None]
"""Takes note of a request and the status of its response, in the log or in the metrics."""


class _Json(DefaultJSONProvider):
    ensure_ascii = False
    sort_keys = False


class _Response(flask.Response):
    default_mimetype = "application/json"


class Application(flask.Flask):
    """A Flask application. Every response, whoever made it, has the fields of the contract and is recorded once."""

    request_class = Request
    response_class = _Response
    json_provider_class = _Json

    def __init__(self, import_name: str, *, hooks: Hooks, records: Sequence[Record], background: Background) -> None:
        super().__init__(import_name, static_folder=None)
        self.logger.addFilter(drop_exception_text)
        # Flask's automatic answer is HTML. The handler of refused methods answers OPTIONS.
        self.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
        self.url_map.merge_slashes = False
        self.background = background
        self._hooks = hooks
        self._records = records
        # Flask calls these before all before_request functions. OpenTelemetry registers one in Flask's own constructor.
        self.url_value_preprocessor(lambda _endpoint, _values: hooks.admit())
        self.wsgi_app = self._recording(self.wsgi_app)  # type: ignore[assignment,method-assign]  # as Flask documents it

    def process_response(self, response: flask.Response) -> flask.Response:
        """Run what is registered to run after the request, then add the fields of every response."""
        try:
            response = super().process_response(response)
        except Exception as error:
            if not request.failed:
                raise  # the error handlers answer it, and their response passes here again
            log_unforeseen(logger, error, "a function that runs after each request")
        return self._hooks.finish(response)

    def log_exception(self, exc_info: tuple[type, BaseException, TracebackType] | tuple[None, None, None]) -> None:
        """Log an exception without its text and the path, which can quote what a visitor has typed."""
        request.failed = True
        if exc_info[1] is not None:
            log_unforeseen(logger, exc_info[1], request.endpoint)

    def refuse(self, environ: WSGIEnvironment, error: ApiError) -> flask.Response:
        """The response to a request that the server could not read, or that failed late."""
        context = self.request_context(environ)
        context.push()
        try:
            self._hooks.identify(request)
            response = self._hooks.finish(self.make_response(self.handle_user_exception(error)))
            self._record(environ, response.status_code)
            return response
        finally:
            with suppress(Exception):  # a hook that failed before fails again
                context.pop()

    def _recording(self, wsgi_app: WSGIApplication) -> WSGIApplication:
        """The app, which records a request once nothing can change its answer any more."""

        def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            statuses: list[str] = []

            def begin(status: str, *others: Any) -> Any:
                statuses.append(status)
                return start_response(status, *others)

            body = wsgi_app(environ, begin)
            self._record(environ, int(statuses[-1].partition(" ")[0]))
            return body

        return serve

    def _record(self, environ: WSGIEnvironment, status: int) -> None:
        request = environ.pop(OWN_REQUEST)  # Flask has forgotten it by now
        for record in self._records:
            record(request, status)
