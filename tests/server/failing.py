"""The service with hooks of others, which fail where the field X-Fail says and quote what the visitor sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flask import request

from wsgi import app


def fail(place: str, environ: dict[str, Any]) -> None:
    if environ.get("HTTP_X_FAIL") == place:
        raise ConnectionResetError(environ["RAW_URI"])  # gunicorn takes an OSError for one of the connection


app.before_request(lambda: fail("before_request", request.environ))
app.teardown_request(lambda _error: fail("teardown_request", request.environ))


@app.after_request
def fail_after(response: Any) -> Any:
    fail("after_request", request.environ)
    return response


inner = app.wsgi_app


def middleware(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    fail("middleware before", environ)
    body = inner(environ, start_response)
    fail("middleware after", environ)
    return body


app.wsgi_app = middleware  # type: ignore[method-assign]  # as Flask documents it
