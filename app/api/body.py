"""The body of a contact request: read whole or not at all, then parsed strictly."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import parse_qs

from app.contact.schema import FIELDS
from app.errors import ApiError, ErrorCode

MAX_BODY_BYTES = 64 * 1024  # the longest body of a request; the hint of invalid_body names it
MAX_NESTING = 32  # levels of arrays and objects in a JSON body; deeper ones could exhaust the stack

Reason = Literal[
    "content_type", "empty", "too_large", "incomplete", "encoding", "syntax", "nesting", "not_an_object", "http"
]
"""``error.details.reason`` of an invalid_body that concerns the body as a whole."""


def invalid_body(reason: Reason) -> ApiError:
    """The error for a body, or a whole request, that cannot be read."""
    return ApiError(ErrorCode.INVALID_BODY, details={"reason": reason})


def read_fields(environ: dict[str, Any]) -> dict[str, Any]:
    """The fields of a JSON or form body of at most MAX_BODY_BYTES; raises ApiError invalid_body for any other body."""
    content_type = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    parse = PARSERS.get(content_type)
    if parse is None:
        raise invalid_body("content_type")
    raw = _read(environ)
    try:
        # Neither a byte order mark (RFC 8259, section 8.1) nor the line end of a file is part of the text.
        text = re.sub(r"\r?\n\Z", "", raw.decode("utf-8-sig"))
        if not text:
            raise invalid_body("empty")
        return parse(text)
    except UnicodeDecodeError as error:
        raise invalid_body("encoding") from error


def _read(environ: dict[str, Any]) -> bytes:
    length = environ.get("CONTENT_LENGTH", "")
    if length and not re.fullmatch("[0-9]{1,20}", length):
        raise invalid_body("http")
    if not length and not environ.get("wsgi.input_terminated"):
        return b""  # PEP 3333: without a length, the end of such a stream is unknown
    wanted = int(length) if length else MAX_BODY_BYTES + 1
    if length and wanted > MAX_BODY_BYTES:
        raise invalid_body("too_large")
    raw = b""
    try:
        while len(raw) < wanted and (chunk := environ["wsgi.input"].read(wanted - len(raw))):
            raw += chunk
    except Exception as error:
        # The framing of the body is broken. Each server has its own exceptions for that.
        raise invalid_body("incomplete") from error
    if len(raw) > MAX_BODY_BYTES:
        raise invalid_body("too_large")
    if length and len(raw) < wanted:
        raise invalid_body("incomplete")
    return raw


def _parse_json(text: str) -> dict[str, Any]:
    try:
        # RFC 8259 has no NaN and no Infinity; numbers that overflow to infinity are refused, too.
        body = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise invalid_body("nesting") from error
    except ValueError as error:
        raise invalid_body("syntax") from error
    if not isinstance(body, dict):
        raise invalid_body("not_an_object")
    if _is_nested_too_deep(body):
        raise invalid_body("nesting")
    if _has_lone_surrogate(text):
        raise invalid_body("encoding")
    return body


def _parse_form(text: str) -> dict[str, Any]:
    # A repeated name (ticked boxes) keeps all its values; for a field of the specification the last one counts.
    fields = parse_qs(text, keep_blank_values=True, errors="strict")
    return {name: values if values[1:] and name not in FIELDS else values[-1] for name, values in fields.items()}


PARSERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "application/json": _parse_json,
    "application/x-www-form-urlencoded": _parse_form,
}
"""The content types that a contact request may have."""


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError(literal)
    return number


def _is_nested_too_deep(container: Any, levels_left: int = MAX_NESTING - 1) -> bool:
    """True when arrays and objects nest more than ``levels_left`` levels below it."""
    children = container.values() if isinstance(container, dict) else container
    nested = (child for child in children if isinstance(child, (dict, list)))
    return any(levels_left == 0 or _is_nested_too_deep(child, levels_left - 1) for child in nested)


def _has_lone_surrogate(text: str) -> bool:
    """True when a JSON text has an unpaired surrogate escape, which could not be encoded later."""
    # Encoding the parsed body would miss a value that a later duplicate key has replaced.
    without_pairs = re.sub(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..", "_", text.replace("\\\\", "_"))
    return re.search(r"\\u[dD][89a-fA-F]", without_pairs) is not None
