"""The response of the service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, cast

import flask


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
            and isinstance(self.response, list)
            and [*map(type, self.response)] == [bytes]
            and not self._on_close
        )
