"""The calls that every generated client makes, and what its typed answers must say."""

from __future__ import annotations

from typing import Any, NamedTuple

from app.api.contact import ACCEPTED
from app.errors import ErrorCode

REFUSED = "refused by the client"
"""The outcome of a call that the client refuses before it asks the service."""


class UpTo:
    """Equal to every whole number from 1 to the one that it is made with."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __eq__(self, other: object) -> bool:
        return type(other) is int and 1 <= other <= self.most

    def __hash__(self) -> int:
        return hash(self.most)

    def __repr__(self) -> str:
        return f"UpTo({self.most})"


class Call(NamedTuple):
    operation: str
    """The operationId in the document."""
    outcome: dict[str, Any]


def failing(operation: str, code: str, **more: Any) -> Call:
    """A call that is answered with that error, read as an ErrorResponse. Its outcome has these of its values:

    code, status, retry_after_seconds, allowed_values, and of the details reason, fields (the names alone), kept,
    parameter and supported; each only where it is there.
    """
    return Call(operation, {"code": code, "status": ErrorCode[code.upper()].status} | more)


# A form is {"form_type": "demo", "email": "maria@example.com"}, with what the comment adds.
CALLS = {
    # As JSON; nombre is "Ñandú".
    "form": Call("submitContact", {"message": ACCEPTED}),
    # As a form where the client can; form_type is "ventas".
    "legacy form": Call("submitContactLegacy", {"message": ACCEPTED}),
    "options": Call("getContactOptions", {"status": 204, "allow": "POST, OPTIONS"}),
    "legacy options": Call("getContactLegacyOptions", {"status": 204, "allow": "POST, OPTIONS"}),
    "index": Call("getApiIndex", {"name": "Public API", "current_version": "v1", "limit": 60}),
    # The section "contact".
    "section": Call("getApiIndex", {"form_types": ["demo", "ventas", "onboarding", "distribuidor"]}),
    "policy": Call("getVersioning", {"notice_period_days": 180}),
    # The version "v1".
    "version": Call("getVersioning", {"version": "v1", "status": "current", "sunset_on": None}),
    # The same of the retired service; the date is one of the language where the client has dates.
    "retired version": Call("getVersioning", {"version": "v1", "status": "sunset", "sunset_on": "2021-01-01"}),
    # The method "POST"; each as "METHOD path".
    "endpoints": Call("getV1Index", {"endpoints": ["POST /api/v1/contact"]}),
    # Verbose; the transport is in the details.
    "health": Call("getHealth", {"status": "ok", "transport": "maildir"}),
    "document": Call("getOpenApiDocument", {"title": "API pública"}),
    # The email is "maria".
    "invalid_email": failing("submitContact", "invalid_email"),
    # captcha_expected is "aB3dE" and captcha_input "xxxxx".
    "bad_captcha": failing("submitContactLegacy", "bad_captcha"),
    # ts is 1.
    "too_fast": failing("submitContact", "too_fast", retry_after_seconds=UpTo(30), reason="expired"),
    # nombre has 201 letters.
    "invalid_body": failing("submitContact", "invalid_body", fields=["nombre"]),
    # The section "newer", where the types let it be sent.
    "invalid_parameter": failing(
        "getApiIndex",
        "invalid_parameter",
        parameter="section",
        allowed_values=["versions", "rate_limit", "versioning", "contact", "docs"],
    ),
    # Of a client whose base address is that of the live service and /api/nowhere.
    "endpoint_not_found": failing("getHealth", "endpoint_not_found"),
    # Of a client whose base address is that of the live service and /api/v9.
    "unsupported_api_version": failing("getApiIndex", "unsupported_api_version", supported=["v1"]),
    # The second form from one address.
    "rate_limit": failing("submitContact", "rate_limit", retry_after_seconds=UpTo(30)),
    # The 61st from one address.
    "rate_limit_exceeded": failing("getVersioning", "rate_limit_exceeded", retry_after_seconds=UpTo(60)),
    # Of the retired service.
    "api_version_sunset": failing("getV1Index", "api_version_sunset"),
    # Of the mailless service.
    "mail_delivery_failed": failing("submitContact", "mail_delivery_failed", kept=True),
}
