"""The two bodies that the service answers with: success and error."""

import json
from typing import Any

from app.errors import ApiError

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def success(*, message: str | None = None, data: dict[str, Any] | None = None) -> bytes:
    """The body of a request that succeeded."""
    body: dict[str, Any] = {"ok": True}
    if message is not None:
        body["message"] = message
    if data is not None:
        body["data"] = data
    return to_json(body)


def failure(error: ApiError, *, retry_after: int | None, docs: str) -> bytes:
    """The body of a request that was refused; ``docs`` is the address of the OpenAPI description."""
    code = error.code
    body: dict[str, Any] = {"code": code, "message": code.message, "status": code.status, "hint": code.hint}
    if error.details is not None:
        body["details"] = error.details
    if retry_after is not None:
        body["retry_after_seconds"] = retry_after
    if error.allowed_values is not None:
        body["allowed_values"] = list(error.allowed_values)
    return to_json({"ok": False, "error": body, "docs": docs})


def to_json(value: Any) -> bytes:
    """UTF-8 JSON with readable Spanish letters, and a line break at its end for whoever uses curl."""
    return f"{_encode(value)}\n".encode()
