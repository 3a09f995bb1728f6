"""The contact view, the same under the versioned path and under its legacy alias."""

from __future__ import annotations

from collections.abc import Callable

from flask import request

from app import envelope
from app.api.body import read_fields
from app.api.framework import Response
from app.api.visit import visit_of
from app.contact.service import ContactService
from app.errors import ApiError, ErrorCode
from app.ratelimit.window import Limiter

ACCEPTED = "Hemos recibido su mensaje. Nuestro equipo comercial se pondrá en contacto con usted."

_ACCEPTED = Response(envelope.success(message=ACCEPTED))


def create_contact_view(service: ContactService, limiter: Limiter) -> Callable[[], Response]:
    """The view function; every POST counts against the quota, whatever becomes of it."""

    def submit_contact() -> Response:
        environ = request.environ
        visit = visit_of(environ)
        visit.decision = decision = limiter.hit(visit.client)
        _, allowed, _, _ = decision
        if not allowed:
            raise ApiError(ErrorCode.RATE_LIMIT)
        service.submit(read_fields(environ))
        return _ACCEPTED

    return submit_contact
