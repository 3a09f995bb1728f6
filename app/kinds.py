"""The kinds of contact form."""

from typing import NamedTuple


class Kind(NamedTuple):
    """The Spanish names of a kind of form: the title of its letter, and a short one."""

    name: str
    subject: str
    """A word or two for the subject, of which a phone shows some 30 characters."""


KINDS = {
    "demo": Kind("Solicitud de demostración", "Demo"),
    "ventas": Kind("Mensaje para el equipo de ventas", "Ventas"),
    "onboarding": Kind("Alta de comercio", "Alta"),
    "distribuidor": Kind("Solicitud de distribuidor", "Distribuidor"),
}
"""By the value of form_type. Each has a setting SALES_EMAIL_<KIND>."""
FORM_TYPES = tuple(KINDS)
