"""The Flask application of the service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, cast

import flask
from flask.ctx import RequestContext
from flask.globals import request_ctx
from flask.json.provider import DefaultJSONProvider
from flask.signals import request_tearing_down
from flask.typing import ResponseReturnValue
from werkzeug.routing import MapAdapter, Rule

from app.api.addresses import Addresses
from app.api.paths import allow
from app.api.request import Request, request
from app.api.response import Response
from app.api.router import Router
from app.background import Background
from app.logs import drop_exception_text, log_unforeseen

logger = logging.getLogger(__name__)

Record = Callable[[Request, flask.Response], None]
"""Takes note of a request and its response, in the log or in the metrics."""


class _Json(DefaultJSONProvider):
    ensure_ascii = False
    sort_keys = False


class Application(flask.Flask):
    """A Flask application with two steps of its own for each request.

    The first step is the admission, before all ``before_request`` functions. The last step adds the fields of every
    response and records it in log and metrics, after all ``after_request`` functions. Hooks, signals, sessions and
    extensions work as in any Flask application. Flask walks through its lists only when something is registered there.
    """

    request_class = Request
    response_class = Response
    json_provider_class = _Json

    def __init__(
        self,
        import_name: str,
        *,
        addresses: Addresses,
        admit: Callable[[Request], None],
        fields: Callable[[Request, flask.Response], Sequence[tuple[str, str]]],
        records: Sequence[Record],
        background: Background,
    ) -> None:
        super().__init__(import_name, static_folder=None)
        self.logger.addFilter(drop_exception_text)
        self.url_map.merge_slashes = False
        self.background = background
        self._addresses = addresses
        self._admit = admit
        self._fields = fields
        self._records = records
        self._found: dict[tuple[str, str], Rule] = {}

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """The router of a request; outside of one, Flask's own."""
        if request is None:
            return super().create_url_adapter(None)
        return Router(self.url_map, self._found, self._addresses, cast("Request", request))

    def preprocess_request(self) -> ResponseReturnValue | None:
        """Admit the request, then run what is registered to run before it; raises ApiError."""
        self._admit(cast("Request", request_ctx.request))
        if self.before_request_funcs or self.url_value_preprocessors:
            return super().preprocess_request()
        return None

    def make_default_options_response(self) -> flask.Response:
        """The answer to OPTIONS, which has no body."""
        adapter = cast("MapAdapter", request_ctx.url_adapter)
        response = Response(status=HTTPStatus.NO_CONTENT, headers=[("Allow", allow(adapter.allowed_methods()))])
        del response.headers["Content-Type"]
        return response

    def make_response(self, rv: ResponseReturnValue) -> flask.Response:
        """The response made from the return value of a view; bytes are JSON that is ready to be sent."""
        if isinstance(rv, bytes):
            return Response(rv, content_type=Response.default_mimetype)
        return super().make_response(rv)

    def process_response(self, response: flask.Response) -> Response:
        """Run what is registered to run after the request, then add the fields of every response and record it."""
        context: RequestContext = request_ctx._get_current_object()  # type: ignore[attr-defined]  # noqa: SLF001
        current = cast("Request", context.request)
        try:
            if self._has_work_after(context):
                response = super().process_response(response)
        except Exception as error:
            if not current.failed:
                raise  # the error handlers answer it, and their response passes here again
            log_unforeseen(logger, error, "a function that runs after each request")
        final = cast("Response", Response.force_type(response, current.environ))
        final.fields_of_every_response = [("Cache-Control", final.caching), *self._fields(current, final)]
        for record in self._records:
            record(current, final)
        return final

    def _has_work_after(self, context: RequestContext) -> bool:
        """True when Flask's process_response would do anything: it has functions to call or a session to save."""
        functions, session = context._after_request_functions, context._session  # noqa: SLF001
        return bool(self.after_request_funcs or functions or not self.session_interface.is_null_session(session))

    def do_teardown_request(self, *args: Any, **kwargs: Any) -> None:
        """Run what is registered to run at the end of the request."""
        if self.teardown_request_funcs or request_tearing_down.receivers:
            super().do_teardown_request(*args, **kwargs)

    def handle_exception(self, e: Exception) -> flask.Response:
        """The response to an exception that has no handler of its own."""
        cast("Request", request_ctx.request).failed = True
        return super().handle_exception(e)

    def log_exception(self, exc_info: tuple[type, BaseException, TracebackType] | tuple[None, None, None]) -> None:
        """Log an exception without its text and the path, which can quote what a visitor has typed."""
        if exc_info[1] is not None:
            log_unforeseen(logger, exc_info[1], request.endpoint)
