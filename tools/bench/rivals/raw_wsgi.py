"""A WSGI callable with no framework at all."""

import json
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from tools.bench.rivals import DOCUMENT


def app(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer every request with the document."""
    body = json.dumps(DOCUMENT).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
