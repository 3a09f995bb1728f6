"""The contact forms: their types, the field that only bots fill in, and the outcomes of a submission."""

from enum import StrEnum
from typing import NamedTuple


class FormTitle(NamedTuple):
    """The Spanish title of a form type, and a short one for the subject: a phone shows 30 characters of it."""

    full: str
    short: str


FORM_TITLES = {
    "demo": FormTitle("Solicitud de demostración", "Demo"),
    "ventas": FormTitle("Mensaje para el equipo de ventas", "Ventas"),
    "onboarding": FormTitle("Alta de comercio", "Alta"),
    "distribuidor": FormTitle("Solicitud de distribuidor", "Distribuidor"),
}
"""The titles by form_type. Each has a setting SALES_EMAIL_<FORM_TYPE>."""
FORM_TYPES = tuple(FORM_TITLES)
UNKNOWN_FORM_TYPE = "-"

HONEYPOT = "_bp_check"  # the hidden field that only bots fill in


class Outcome(StrEnum):
    """The outcomes of a submission."""

    DELIVERED = "delivered"
    STORED = "stored"  # written to MAIL_DIR, because there is no mail server (development)
    DISCARDED = "discarded"  # the honeypot was filled in
    REFUSED = "refused"
    FAILED = "failed"  # it was not delivered, or the service failed
