"""Every error, from whichever layer, as a response in the envelope."""

from __future__ import annotations

import logging
from http import HTTPStatus

from flask import Flask, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from app import envelope
from app.api.addresses import Addresses
from app.api.framework import Response
from app.api.hooks import API_PREFIX, DOCUMENT_PATH, allow
from app.api.paths import path_of
from app.api.visit import visit_of
from app.errors import ApiError, ErrorCode
from app.logs import log_unforeseen
from app.ratelimit.window import whole_seconds
from app.versions import Versions

MAX_RETRY_AFTER = 3600

logger = logging.getLogger(__name__)


def register_error_handlers(app: Flask, *, addresses: Addresses, versions: Versions) -> None:
    """Put one handler each for ApiError, for werkzeug's HTTP exceptions and for anything unforeseen."""

    @app.errorhandler(ApiError)
    def refuse(error: ApiError) -> Response:
        visit = visit_of(request.environ)
        visit.error_code = error.code.code
        retry_after = None
        if error.code.status == HTTPStatus.TOO_MANY_REQUESTS and visit.decision is not None:
            _, _, _, reset_after = visit.decision
            retry_after = min(max(error.retry_after or 1, whole_seconds(reset_after), visit.wait), MAX_RETRY_AFTER)
        docs = addresses.base_url(request.environ) + DOCUMENT_PATH
        body = envelope.failure(error, retry_after=retry_after, docs=docs)
        response = Response(body, error.code.status)
        if retry_after is not None:
            response.headers["Retry-After"] = str(retry_after)
        return response

    @app.errorhandler(HTTPException)
    def refuse_http(error: HTTPException) -> Response:
        response = refuse(_translate(error, path_of(request.environ), versions))
        if isinstance(error, MethodNotAllowed):
            response.headers["Allow"] = allow(frozenset(error.valid_methods or ()))
        return response

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        log_unforeseen(logger, error, request.endpoint)
        return refuse(ApiError(ErrorCode.INTERNAL_ERROR))


def _translate(error: HTTPException, path: str, versions: Versions) -> ApiError:
    """The catalogue's row for an exception that werkzeug or Flask raised."""
    if isinstance(error, MethodNotAllowed):
        return ApiError(ErrorCode.METHOD_NOT_ALLOWED)
    if isinstance(error, NotFound):
        return _unknown_path(path, versions)
    if error.code is None or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ApiError(ErrorCode.INTERNAL_ERROR)
    return ApiError(ErrorCode.INVALID_BODY)


def _unknown_path(path: str, versions: Versions) -> ApiError:
    if not path.startswith(API_PREFIX):
        return ApiError(ErrorCode.NOT_FOUND)
    segment = path.removeprefix(API_PREFIX).partition("/")[0]
    number = segment.removeprefix("v")
    if segment.startswith("v") and number.isascii() and number.isdigit() and segment not in versions.names:
        return ApiError(ErrorCode.UNSUPPORTED_API_VERSION, details={"supported": versions.supported})
    return ApiError(ErrorCode.ENDPOINT_NOT_FOUND)
