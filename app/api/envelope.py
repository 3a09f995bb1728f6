"""The two response bodies of the service: success and error."""

from typing import Any

from app.errors import ApiError

Body = dict[str, Any]  # the JSON object that a view returns


def success(**members: str | Body) -> Body:
    """The body of a request that succeeded: ``ok`` and these members, ``message`` or ``data``."""
    return {"ok": True, **members}


def failure(error: ApiError, *, retry_after: int | None, docs: str) -> Body:
    """The body of a request that was refused; ``docs`` is the URL of the OpenAPI document."""
    code = error.code
    always = {"code": code, "message": code.message, "status": code.status, "hint": code.hint}
    extra = {"details": error.details, "retry_after_seconds": retry_after, "allowed_values": error.allowed_values}
    present = {name: value for name, value in extra.items() if value is not None}
    return {"ok": False, "error": always | present, "docs": docs}
