"""How far a contact body is read, and what a form and JSON may hide."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.body import PARSERS, read_fields
from app.errors import ApiError
from tests.api.exchanges import CHUNKED, FORM, JSON, LIMIT, with_member
from tests.client import ValidatingClient

VALID = with_member('"x":1')
LONG = with_member(b'"x":"' + b"y" * 5000 + b'"')


class Stream(io.BytesIO):
    """A body that records how far it was read, and comes in pieces of at most ``piece`` bytes."""

    piece = LIMIT * 100
    bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        read = super().read(min(self.piece, self.piece if size is None or size < 0 else size))
        self.bytes_read += len(read)
        return read


class Slow(Stream):
    piece = 100


class Broken(Stream):
    def read(self, _size: int | None = -1, /) -> bytes:
        raise RuntimeError("the chunk sent by maria@example.com is malformed")


READS: dict[str, tuple[type[Stream], bytes, dict[str, Any], str, int]] = {
    "in pieces": (Slow, LONG, {}, "", len(LONG)),
    "in pieces and chunks": (Slow, LONG, CHUNKED, "", len(LONG)),
    "no further than it declares": (Stream, VALID + b"next", {"CONTENT_LENGTH": str(len(VALID))}, "", len(VALID)),
    "not at all when it declares too much": (Stream, VALID.ljust(LIMIT + 1), {}, "too_large", 0),
    "no further than the limit in chunks": (Stream, VALID.ljust(LIMIT * 100), CHUNKED, "too_large", LIMIT + 1),
    "not at all without length and end": (Stream, VALID, {"CONTENT_LENGTH": ""}, "empty", 0),
    "not when its framing breaks": (Broken, VALID, {}, "incomplete", 0),
    "not when its framing breaks in chunks": (Broken, VALID, CHUNKED, "incomplete", 0),
}


@pytest.mark.parametrize(("kind", "sent", "framing", "reason", "bytes_read"), READS.values(), ids=READS)
def test_a_body_is_read(kind: type[Stream], sent: bytes, framing: dict[str, Any], reason: str, bytes_read: int) -> None:
    body = kind(sent)
    environ = {"CONTENT_TYPE": JSON, "CONTENT_LENGTH": str(len(sent)), "wsgi.input": body} | framing

    try:
        said = read_fields(environ).get("reason", "")
    except ApiError as error:
        said = (error.details or {})["reason"]

    assert (said, body.bytes_read) == (reason, bytes_read)


def outcome(content_type: str, text: str) -> Any:
    try:
        return PARSERS[content_type](text)
    except ApiError as error:
        return error.details


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("a=1&b=x&a=2&a=", {"a": ["1", "2", ""], "b": "x"}, id="an own field keeps all values in order"),
        pytest.param("nombre=x&nombre=y", {"nombre": "y"}, id="of a field of the specification the last counts"),
        pytest.param("_bp_check=x&_bp_check=", {"_bp_check": ""}, id="of the honeypot as well"),
    ],
)
def test_repeated_names_of_a_form(text: str, fields: dict[str, Any]) -> None:
    assert outcome(FORM, text) == fields


@pytest.mark.parametrize(
    ("end", "left"), [(b"\n", ""), (b"\r\n", ""), (b"\n\n", "\n"), (b"\r", "\r"), (b"%0A", "\n"), (b"\n ", "\n ")]
)
@pytest.mark.parametrize("name", ["_bp_check", "mensaje"])
def test_one_line_end_behind_a_form_is_no_part_of_it(name: str, end: bytes, left: str) -> None:
    body = f"form_type=demo&{name}=".encode() + end

    fields = read_fields({"CONTENT_TYPE": FORM, "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)})

    assert fields == {"form_type": "demo", name: left}


@pytest.mark.parametrize("framing", [{}, CHUNKED], ids=["declared", "chunked"])
def test_nothing_of_a_broken_framing_is_logged(
    client: ValidatingClient, caplog: pytest.LogCaptureFixture, framing: dict[str, Any]
) -> None:
    broken = framing | {"wsgi.input": Broken(VALID)}

    response = client.post("/contact.php", data=VALID, content_type=JSON, environ_overrides=broken)

    assert response.get_json()["error"]["details"] == {"reason": "incomplete"}
    assert "maria" not in caplog.text


@pytest.mark.parametrize("hidden", [b'{"a":' * 600 + b"1" + b"}" * 600, b"[" * 30_000 + b"]" * 30_000], ids=len)
def test_nesting_that_a_later_value_replaces_is_not_unforeseen(hidden: bytes) -> None:
    read = outcome(JSON, with_member(b'"x":' + hidden + b',"x":1').decode())

    # How much Python's parser takes depends on its release.
    assert read == {"reason": "nesting"} or read["x"] == 1


ESCAPES = [*map(r"\u{}".format, ["d83d", "DE00", "DBFF", "dc00", "0041"]), r"\\", r"\"", "ud83d", "de00", "x"]


@settings(max_examples=500, derandomize=True)
@given(
    name=st.lists(st.sampled_from(ESCAPES), max_size=3).map("".join),
    value=st.lists(st.sampled_from(ESCAPES), max_size=6).map("".join),
)
def test_half_of_an_escaped_character_is_found_wherever_it_is(name: str, value: str) -> None:
    text = f'{{"{name}":"{value}","x":"{value}"}}'
    pairs: list[tuple[str, str]] = json.loads(text, object_pairs_hook=list)
    halved = any("\ud800" <= letter <= "\udfff" for pair in pairs for letter in "".join(pair))

    assert outcome(JSON, text) == ({"reason": "encoding"} if halved else dict(pairs))
