"""The names that all parts of the contact forms share."""

from enum import StrEnum

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
