"""Submissions that were checked, and the letters that they become."""

from __future__ import annotations

from typing import Any

from app.contact.letter import EmailView
from app.contact.schema import validate
from tests.factories import REFERENCE, contact_body

RECEIVED_AT = "2030-02-01 19:30:00+00:00"
RECEIVED = "Recibido el 01/02/2030 a las 16:30 (Montevideo, UTC-3) desde el formulario de la web."
"""The line for that time in Montevideo."""


def checked(**changes: Any) -> dict[str, Any]:
    """The values of a valid body with these changes."""
    values, faults = validate(contact_body(**changes))
    assert not faults
    return values


def letter_of(**changes: Any) -> EmailView:
    """The letter of a valid body with these changes."""
    return EmailView(checked(**changes), received=RECEIVED, reference=REFERENCE)
