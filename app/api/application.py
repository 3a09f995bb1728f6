"""The Flask application of the service."""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import flask

from app.api.hooks import Hooks
from app.api.request import OWN_REQUEST, Request, request
from app.background import Background
from app.errors import ApiError, ErrorCode
from app.logs import drop_exception_text, log_unforeseen

logger = logging.getLogger(__name__)

Record = Callable[[Request, int], None]
"""Takes note of a request and the status of its response, in the log or in the metrics."""


class _Response(flask.Response):
    default_mimetype = "application/json"


class Application(flask.Flask):
    """A Flask application. Every response, whoever made it, has the headers of the contract and is recorded once."""

    request_class = Request
    response_class = _Response

    def __init__(self, import_name: str, *, hooks: Hooks, records: Sequence[Record], background: Background) -> None:
        super().__init__(import_name, static_folder=None)
        self.logger.addFilter(drop_exception_text)
        self.json.ensure_ascii = self.json.sort_keys = False  # type: ignore[attr-defined]  # as Flask documents it
        # Flask's automatic answer is HTML. The handler of refused methods answers OPTIONS.
        self.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
        self.url_map.merge_slashes = False
        self.background = background
        self._hooks = hooks
        self._records = records
        # Flask calls these before all before_request functions. OpenTelemetry registers one in Flask's own constructor.
        self.url_value_preprocessor(lambda _endpoint, _values: hooks.admit())

    def process_response(self, response: flask.Response) -> flask.Response:
        """Run what is registered to run after the request, then add the headers of every response."""
        try:
            response = self.make_response(super().process_response(response))  # a hook may have returned none
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

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, also when what others have put around Flask or at its end fails, and record it once."""
        self.background.start(wait=1)  # gunicorn has done so before the first request; Flask's own server has not
        held: list[Any] = []
        returned = False

        def begin(status: str, *others: Any) -> Any:
            if not returned:  # the answer may still be another one
                held[:] = [status, *others]
                return None
            write = start_response(status, *others)
            self._record(environ, int(status.partition(" ")[0]))
            return write

        try:
            body = super().__call__(environ, begin)
        except Exception as error:
            propagates = self.config["PROPAGATE_EXCEPTIONS"]
            if self.testing or self.debug if propagates is None else propagates:
                raise
            log_unforeseen(logger, error, "a function around all requests")
            body = self._refuse(environ, ApiError(ErrorCode.INTERNAL_ERROR))(environ, begin)
        returned = True
        if held:  # else a function around all requests begins later
            begin(*held)
        return body

    def refuse(self, environ: WSGIEnvironment, error: ApiError) -> flask.Response:
        """The response to a request that the server could not read; it is recorded."""
        response = self._refuse(environ, error)
        self._record(environ, response.status_code)
        return response

    def _refuse(self, environ: WSGIEnvironment, error: ApiError) -> flask.Response:
        context = self.request_context(environ)
        context.push()
        try:
            self._hooks.identify(request)
            request.failed = True
            return self.process_response(self.make_response(self.handle_user_exception(error)))
        finally:
            with suppress(Exception):  # a hook that failed before fails again
                context.pop()

    def _record(self, environ: WSGIEnvironment, status: int) -> None:
        if own := environ.pop(OWN_REQUEST, None):  # Flask has forgotten it; none, when another app has answered
            for record in self._records:
                record(own, status)
