"""The contact view, the same under the versioned path and under its legacy alias."""

from collections.abc import Callable

from app import envelope
from app.api.body import read_fields
from app.api.quotas import Quotas
from app.api.request import request
from app.contact.service import ContactService
from app.contact.submission import FORM_TYPES

ACCEPTED = "Hemos recibido su mensaje. Nuestro equipo comercial se pondrá en contacto con usted."


def create_contact_view(service: ContactService, quotas: Quotas) -> Callable[[], bytes]:
    """The view function. Each POST that the contact quota lets through counts, one with a refused form too."""

    def submit_contact() -> bytes:
        quotas.count_contact(request)
        fields = read_fields(request.environ)
        if (form_type := fields.get("form_type")) in FORM_TYPES:
            request.form_type = form_type
        request.outcome = service.submit(fields, request.id, is_json=request.is_json)
        return envelope.success(message=ACCEPTED)

    return submit_contact
