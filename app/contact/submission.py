"""The names that all parts of the contact forms share."""

from __future__ import annotations

from typing import NamedTuple

FORM_TYPES = ("demo", "ventas", "onboarding", "distribuidor")
HONEYPOT = "_bp_check"
"""The field that no person sees."""


class Address(NamedTuple):
    """An e-mail address; ``ascii`` is None when its local part has letters that only SMTPUTF8 (RFC 6531) carries."""

    normalized: str
    ascii: str | None
