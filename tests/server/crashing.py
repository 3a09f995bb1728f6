"""The service of the module `monitored`, in which a request with the field X-Crash fails as that says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn
from unittest.mock import patch

from flask import request
from monitored import app  # type: ignore[import-not-found]  # the test writes it

from app.api import v1
from app.api.body import read_fields

served = app.wsgi_app


def fail(error: str, word: str) -> NoReturn:
    if error == "OSError":
        raise OSError(word, word, word)
    if error == "ExceptionGroup":
        raise ExceptionGroup(word, [ValueError(word), KeyError(word)])
    if error == "ValueError":
        raise ValueError(word) from KeyError(word)
    failure = RuntimeError(word)
    failure.add_note(word)
    raise failure


def fail_or_read(environ: dict[str, Any]) -> dict[str, Any]:
    place, _, error = request.headers.get("X-Crash", "").partition(" ")
    if place == "before":
        fail(error, request.query_string.decode())
    fields = read_fields(environ)
    if place == "after":
        fail(error, f"{fields}")
    return fields


@app.before_request  # type: ignore[untyped-decorator]  # so is its module
def fail_at_once() -> None:
    if request.headers.get("X-Crash") == "anywhere RuntimeError":
        fail("RuntimeError", request.path)


def fail_around(environ: dict[str, Any], start_response: object) -> Iterable[bytes]:
    if environ.get("HTTP_X_CRASH") == "around RuntimeError":
        fail("RuntimeError", environ["QUERY_STRING"])
    return served(environ, start_response)  # type: ignore[no-any-return]  # as above


patch.object(v1, "read_fields", fail_or_read).start()
app.wsgi_app = fail_around
