"""The names that all parts of the contact forms share."""

from enum import StrEnum

KINDS = {
    "demo": "Solicitud de demostración",
    "ventas": "Mensaje para el equipo de ventas",
    "onboarding": "Alta de comercio",
    "distribuidor": "Solicitud de distribuidor",
}
"""The Spanish name of each kind of form."""
SUBJECTS = {"demo": "Demo", "ventas": "Ventas", "onboarding": "Alta", "distribuidor": "Distribuidor"}
"""The word or two that name the kind in a subject, of which a phone shows some 30 characters."""
FORM_TYPES = tuple(KINDS)
UNKNOWN_FORM_TYPE = "-"
HONEYPOT = "_bp_check"
"""The field that no person sees."""


class Outcome(StrEnum):
    """The ends that a form can come to."""

    DELIVERED = "delivered"
    STORED = "stored"
    """Written to MAIL_DIR, because there is no mail server (development)."""
    DISCARDED = "discarded"
    """The honeypot was filled."""
    REFUSED = "refused"
    FAILED = "failed"
    """It was not delivered, or the service failed."""
