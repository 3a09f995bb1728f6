"""The Flask application of the service and its responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, cast

import flask
from flask.ctx import RequestContext
from flask.globals import request_ctx
from flask.json.provider import DefaultJSONProvider
from flask.signals import request_tearing_down
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import NotFound
from werkzeug.routing import Map, MapAdapter, RequestRedirect, Rule

from app.api.addresses import Addresses
from app.api.paths import allow
from app.api.request import Request, request
from app.background import Background
from app.errors import ErrorCode
from app.logs import drop_exception_text, log_unforeseen

logger = logging.getLogger(__name__)


class Response(flask.Response):
    """A JSON response that carries the fields of every response.

    They are added when the server asks for the response, so no hook and no extension can change or remove them. They do
    not go through werkzeug's Headers, which check and copy each field: that takes as long as the rest of a request.
    """

    default_mimetype = "application/json"
    caching = "no-store"
    """The Cache-Control of this response, which a view may set."""
    fields_of_every_response: Sequence[tuple[str, str]] = ()

    def get_wsgi_response(self, environ: dict[str, Any]) -> tuple[Iterable[bytes], str, list[tuple[str, str]]]:
        """Body, status and fields for PEP 3333. A field of every response replaces one of the same name."""
        own = list(self.headers)
        body, status = cast("Iterable[bytes]", self.response), self.status
        fields = self.fields_of_every_response
        if environ["REQUEST_METHOD"] == "HEAD" or not self._is_as_made(own):
            body, status, own = super().get_wsgi_response(environ)
            names = {name.lower() for name, _ in fields} - {"link"}  # a response may have several
            own = [(name, value) for name, value in own if name.lower() not in names]
        return body, status, [*own, *fields]

    def _is_as_made(self, own: list[tuple[str, str]]) -> bool:
        """True for plain bytes to which nobody has added anything, so that werkzeug would change nothing."""
        return (
            self.status_code == HTTPStatus.OK
            and [name for name, _ in own] == ["Content-Type", "Content-Length"]
            and not self._on_close
        )


class _Json(DefaultJSONProvider):
    ensure_ascii = False
    sort_keys = False


class _Adapter(MapAdapter):
    """The router of one request. Rules that it finds for paths without parameters are remembered by all of them."""

    def __init__(self, url_map: Map, found: dict[tuple[str, str], Rule], addresses: Addresses, of: Request) -> None:
        super().__init__(url_map, "", "/", "", "http", of.path, of.method)
        self._found = found
        self._addresses = addresses
        self._environ = of.environ

    def match(
        self,
        path_info: str | None = None,
        method: str | None = None,
        return_rule: bool = False,  # noqa: FBT001, FBT002 - werkzeug's signature
        *_: Any,
        **__: Any,
    ) -> tuple[Any, Mapping[str, Any]]:
        """The rule, or its endpoint, and the arguments of the view.

        Raises MethodNotAllowed and NotFound. A path with a slash too many or too few is not found: werkzeug would
        redirect it or serve it.
        """
        path, verb = path_info or self.path_info, method or self.default_method
        rule = self._found.get((path, verb))
        arguments: Mapping[str, Any] = {}
        if rule is None:
            if not path.startswith("/") or path.startswith("//"):
                raise NotFound
            try:
                rule, arguments = super().match(path, verb, return_rule=True)
            except RequestRedirect as error:
                raise NotFound from error
            if not rule.arguments:
                self._found[path, verb] = rule
        return rule if return_rule else rule.endpoint, arguments

    def build(self, *args: Any, **kwargs: Any) -> str:
        """The address of an endpoint. Its host and prefix are those of the base address."""
        self.url_scheme, _, rest = self._addresses.base_url(self._environ).partition("://")
        self.server_name, _, prefix = rest.partition("/")
        self.script_name = f"/{prefix}/" if prefix else "/"
        return super().build(*args, **kwargs)


class Application(flask.Flask):
    """A Flask application with two steps of its own for each request.

    The first step is the admission, before all ``before_request`` functions. The last step adds the fields of every
    response and writes the log line, after all ``after_request`` functions. Hooks, signals, sessions and extensions
    work as in any Flask application. Flask walks through its lists only when something is registered in them.
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
        log: Callable[[Request, flask.Response], None],
        background: Background,
    ) -> None:
        super().__init__(import_name, static_folder=None)
        self.logger.addFilter(drop_exception_text)
        self.url_map.merge_slashes = False
        self.background = background
        self._addresses = addresses
        self._admit = admit
        self._fields = fields
        self._log = log
        self._found: dict[tuple[str, str], Rule] = {}

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """The router of a request; outside of one, Flask's own."""
        if request is None:
            return super().create_url_adapter(None)
        return _Adapter(self.url_map, self._found, self._addresses, cast("Request", request))

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
        """Run what is registered to run after the request, then add the fields of every response and log it."""
        context: RequestContext = request_ctx._get_current_object()  # type: ignore[attr-defined]  # noqa: SLF001
        current = cast("Request", context.request)
        try:
            if self._has_work_after(context):
                response = super().process_response(response)
        except Exception as error:
            if current.error_code != ErrorCode.INTERNAL_ERROR:
                raise  # the error handlers answer it, and their response passes here again
            log_unforeseen(logger, error, "a function that runs after each request")
        final = cast("Response", Response.force_type(response, current.environ))
        final.fields_of_every_response = [("Cache-Control", final.caching), *self._fields(current, final)]
        self._log(current, final)
        return final

    def _has_work_after(self, context: RequestContext) -> bool:
        """True when Flask's process_response would do anything: it has functions to call or a session to save."""
        functions, session = context._after_request_functions, context._session  # noqa: SLF001
        return bool(self.after_request_funcs or functions or not self.session_interface.is_null_session(session))

    def do_teardown_request(self, *args: Any, **kwargs: Any) -> None:
        """Run what is registered to run at the end of the request."""
        if self.teardown_request_funcs or request_tearing_down.receivers:
            super().do_teardown_request(*args, **kwargs)

    def log_exception(self, exc_info: tuple[type, BaseException, TracebackType] | tuple[None, None, None]) -> None:
        """Log an exception without its text and the path, which can quote what a visitor has typed."""
        if exc_info[1] is not None:
            log_unforeseen(logger, exc_info[1], request.endpoint)
