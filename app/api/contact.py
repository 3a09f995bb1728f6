"""The contact view of the versions and of the legacy contact path."""

from collections.abc import Callable

from app.api import envelope
from app.api.body import read_fields
from app.api.envelope import Body
from app.api.quotas import Quotas
from app.api.request import current_request
from app.contact.service import ContactService
from app.forms import FORM_TYPES

ACCEPTED = "Hemos recibido su mensaje. Nuestro equipo comercial se pondrá en contacto con usted."


def create_contact_view(service: ContactService, quotas: Quotas) -> Callable[[], Body]:
    """The view that takes a contact form.

    Every POST within the contact quota counts, even if its form is refused.
    """

    def submit_contact() -> Body:
        request = current_request()
        quotas.count_contact(request)
        fields = read_fields(request.environ)
        if (form_type := fields.get("form_type")) in FORM_TYPES:
            request.form_type = form_type
        request.outcome = service.submit(fields, request.id, is_json=request.is_json)
        return envelope.success(message=ACCEPTED)

    return submit_contact
