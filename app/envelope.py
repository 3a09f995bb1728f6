"""The two bodies that the service answers with: success and error."""

import json
from typing import Any

from app.errors import ApiError


def success(**members: str | dict[str, Any]) -> bytes:
    """The body of a request that succeeded: ``ok`` and these members, ``message`` or ``data``."""
    return to_json({"ok": True, **members})


def failure(error: ApiError, *, retry_after: int | None, docs: str) -> bytes:
    """The body of a request that was refused; ``docs`` is the address of the OpenAPI description."""
    code = error.code
    always = {"code": code, "message": code.message, "status": code.status, "hint": code.hint}
    extra = {"details": error.details, "retry_after_seconds": retry_after, "allowed_values": error.allowed_values}
    present = {name: value for name, value in extra.items() if value is not None}
    return to_json({"ok": False, "error": always | present, "docs": docs})


def to_json(value: Any) -> bytes:
    """UTF-8 JSON with readable Spanish letters, and a line break at its end for whoever uses curl."""
    return f"{json.dumps(value, ensure_ascii=False, separators=(',', ':'), allow_nan=False)}\n".encode()
