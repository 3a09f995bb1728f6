"""The service of the module that MONITORED names, in which a request with the field X-Crash fails there."""

import importlib
import os
from collections.abc import Iterable
from typing import Any

import sentry_sdk
from flask import Flask, request

app: Flask = importlib.import_module(os.environ["MONITORED"]).app
served = app.wsgi_app

# Sentry's timings are of no use here, and yet some people will ask for them.
sentry_sdk.get_client().options["traces_sample_rate"] = 1.0


@app.before_request
def fail_inside() -> None:
    if request.headers.get("X-Crash") == "inside":
        failure = RuntimeError(request.url)
        failure.add_note(request.url)
        raise failure from KeyError(request.url)
    if request.headers.get("X-Crash") == "with the body":
        body = request.get_data(as_text=True)
        raise RuntimeError(body) from KeyError(body)


def fail_around(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    if environ.get("HTTP_X_CRASH") == "around":
        raise RuntimeError(environ["QUERY_STRING"])
    return served(environ, start_response)


app.wsgi_app = fail_around  # type: ignore[method-assign]
