"""The error handlers: every error becomes a response in the envelope."""

import re
from http import HTTPStatus

from flask import Flask, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, TooManyRequests

from app.api import envelope, paths
from app.api.client import Clients
from app.api.quotas import Quotas
from app.api.request import request
from app.errors import ApiError, ErrorCode
from app.versions import API_ROOT, Versions

MAX_RETRY_AFTER = 3600


def register_error_handlers(app: Flask, *, clients: Clients, quotas: Quotas, versions: Versions) -> None:
    """Register a handler for ApiError and one for HTTPException, into which Flask turns all other exceptions."""

    @app.errorhandler(ApiError)
    def refuse(error: ApiError) -> Response:
        request.error_code = error.code
        retry_after = None
        if error.code.status == HTTPStatus.TOO_MANY_REQUESTS:
            retry_after = min(max(error.retry_after or 1, quotas.wait(request)), MAX_RETRY_AFTER)
        docs = clients.base_url(request.environ) + paths.DOCUMENT
        headers = {"Retry-After": str(retry_after)} if retry_after else {}
        body = envelope.failure(error, retry_after=retry_after, docs=docs)
        return app.make_response((body, error.code.status, headers))

    @app.errorhandler(HTTPException)
    def refuse_http(error: HTTPException) -> Response:
        return refuse(_translate(error, request.path, versions))

    @app.errorhandler(MethodNotAllowed)
    def refuse_method(error: MethodNotAllowed) -> Response:
        if request.method == "OPTIONS":
            response = app.make_response(("", HTTPStatus.NO_CONTENT))
            del response.headers["Content-Type"]
        else:
            response = refuse_http(error)
        served = sorted(set(error.valid_methods or ()) - {"OPTIONS"})
        response.headers["Allow"] = ", ".join([*served, "OPTIONS"])
        return response


def _translate(error: HTTPException, path: str, versions: Versions) -> ApiError:
    """The ApiError for an exception that werkzeug or Flask raised."""
    if isinstance(error, MethodNotAllowed):
        return ApiError(ErrorCode.METHOD_NOT_ALLOWED)
    if isinstance(error, NotFound):
        return _unknown_path(path, versions)
    if isinstance(error, TooManyRequests):
        return ApiError(ErrorCode.RATE_LIMIT_EXCEEDED)
    if error.code is None or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ApiError(ErrorCode.INTERNAL_ERROR)
    return ApiError(ErrorCode.INVALID_BODY)


def _unknown_path(path: str, versions: Versions) -> ApiError:
    if not paths.is_under_api(path):
        return ApiError(ErrorCode.NOT_FOUND)
    version = re.match(rf"{API_ROOT}/(v[0-9]+)(?:/|$)", path)
    if version and version[1] not in versions:
        return ApiError(ErrorCode.UNSUPPORTED_API_VERSION, details={"supported": versions.supported})
    return ApiError(ErrorCode.ENDPOINT_NOT_FOUND)
