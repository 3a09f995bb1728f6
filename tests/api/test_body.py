"""How far a contact body is read, and what becomes of repeated names and of line ends."""

import io
from typing import Any

import pytest

from app.api.body import read_fields
from app.errors import ApiError
from tests.api.exchanges import CHUNKED, FORM, JSON, LIMIT, with_member

VALID = with_member('"x":1')


class Stream(io.BytesIO):
    """A body that comes in pieces of at most 40,000 bytes, and records how far it was read."""

    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        read = super().read(min(40_000, 40_000 if size is None or size < 0 else size))
        self.bytes_read += len(read)
        return read


class Broken(Stream):
    def read(self, _size: int | None = -1, /) -> bytes:
        raise RuntimeError("the chunk sent by maria@example.com is malformed")


READS: dict[str, tuple[Stream, dict[str, Any], str, int]] = {
    "in pieces": (Stream(VALID.ljust(LIMIT)), {"CONTENT_LENGTH": str(LIMIT)}, "", LIMIT),
    "in pieces and chunks": (Stream(VALID.ljust(LIMIT)), CHUNKED, "", LIMIT),
    "no further than it declares": (Stream(VALID + b"next"), {"CONTENT_LENGTH": str(len(VALID))}, "", len(VALID)),
    "not at all when it declares too much": (Stream(VALID), {"CONTENT_LENGTH": str(LIMIT + 1)}, "too_large", 0),
    "no further than the limit in chunks": (Stream(VALID.ljust(LIMIT * 100)), CHUNKED, "too_large", LIMIT + 1),
    "not at all without length and end": (Stream(VALID), {"CONTENT_LENGTH": ""}, "empty", 0),
    "not when its framing breaks": (Broken(VALID), CHUNKED, "incomplete", 0),
}


def read(body: Stream | bytes, content_type: str, framing: dict[str, Any]) -> dict[str, Any]:
    """The fields, or the details of the refusal."""
    stream = Stream(body) if isinstance(body, bytes) else body
    try:
        return read_fields({"CONTENT_TYPE": content_type, "wsgi.input": stream} | framing)
    except ApiError as error:
        return error.details or {}


@pytest.mark.parametrize(("body", "framing", "reason", "bytes_read"), READS.values(), ids=READS)
def test_a_body_is_read(body: Stream, framing: dict[str, Any], reason: str, bytes_read: int) -> None:
    assert (read(body, JSON, framing).get("reason", ""), body.bytes_read) == (reason, bytes_read)


FORMS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "all values of an own field count": (b"a=1&b=x&a=2&a=", {"a": ["1", "2", ""], "b": "x"}),
    "the last of a field of the specification": (b"nombre=x&nombre=y", {"nombre": "y"}),
    "the last of the honeypot as well": (b"_bp_check=x&_bp_check=", {"_bp_check": ""}),
    "one line end behind it is no part of it": (b"_bp_check=\n", {"_bp_check": ""}),
    "nor that of Windows": (b"mensaje=x\r\n", {"mensaje": "x"}),
    "a second one is": (b"mensaje=\n\n", {"mensaje": "\n"}),
    "so is one that was encoded": (b"_bp_check=%0A", {"_bp_check": "\n"}),
    "and one before a space": (b"_bp_check=\n ", {"_bp_check": "\n "}),
}


@pytest.mark.parametrize(("body", "fields"), FORMS.values(), ids=FORMS)
def test_a_form_says(body: bytes, fields: dict[str, Any]) -> None:
    assert read(body, FORM, {"CONTENT_LENGTH": str(len(body))}) == fields
