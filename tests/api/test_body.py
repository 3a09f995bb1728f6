"""How a contact body is read: whole or not at all, then parsed strictly."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import count, islice, product
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from app.api.body import PARSERS, read_fields
from app.errors import ApiError
from tests.client import ValidatingClient
from tests.factories import contact_body
from tests.fakes import RecordingMailer

PATH = "/contact.php"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
LIMIT = 64 * 1024

REQUIRED = b'"form_type":"demo","email":"maria@example.com"'
REQUIRED_FORM = b"form_type=demo&email=maria@example.com"

CHUNKED = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
"""What a server's WSGI environ says of a body in chunks: no length, but an end of the stream."""


def with_member(member: bytes) -> bytes:
    """A valid JSON body, if the member is."""
    return b"{" + REQUIRED + b"," + member + b"}"


NAMES = map("".join, product("ABCDEFGHIJKLMNOPQRSTUVWXYZ", repeat=3))
"""Short names, of which 10,000 fit into a form of 64 KiB."""

VALID_JSON: dict[str, bytes] = {
    "required fields alone": b"{" + REQUIRED + b"}",
    "white space around it": b" \r\n\t{" + REQUIRED + b"}\n ",
    "object": with_member(b'"x":{"a":{"b":[1,{"c":null}]}}'),
    "ten levels": with_member(b'"x":' + b"[" * 10 + b"]" * 10),
    "number of 1000 digits": with_member(b'"x":' + b"9" * 1000),
    "float": with_member(b'"x":-1.5e-300'),
    "readable letters": with_member('"x":"¿Qué tal? 🏦"'.encode()),
    "escaped letters": with_member(rb'"x":"\u00bfQu\u00e9 tal?"'),
    "escaped pair of surrogates": with_member(rb'"x":"\ud83c\udfe6"'),
    "backslash before a u": with_member(rb'"x":"\\ud83c"'),
    "escaped null": with_member(rb'"x":"\u0000"'),
    "empty name": with_member(b'"":"x"'),
    "byte order mark": b"\xef\xbb\xbf" + with_member(b'"x":1'),
    "7000 members": with_member(b",".join(b'"%x":1' % number for number in range(7000))),
}

INVALID_JSON: dict[str, bytes] = {
    "nothing": b"",
    "white space alone": b" \n",
    "NaN": with_member(b'"x":NaN'),
    "Infinity": with_member(b'"x":Infinity'),
    "-Infinity": with_member(b'"x":-Infinity'),
    "1e400": with_member(b'"x":1e400'),
    "-1e400": with_member(b'"x":-1e400'),
    "NaN inside": with_member(b'"x":[{"a":NaN}]'),
    "lone high surrogate": with_member(rb'"x":"\ud83c"'),
    "lone low surrogate": with_member(rb'"x":"\udfe6"'),
    "surrogates in the wrong order": with_member(rb'"x":"\udfe6\ud83c"'),
    "lone surrogate in capitals": with_member(rb'"x":"\uD83C"'),
    "lone surrogate in a known field": with_member(rb'"nombre":"Mar\ud83c"'),
    "lone surrogate in a value that a later one replaces": with_member(rb'"x":"\ud83c","x":"y"'),
    "lone surrogate in a name": with_member(rb'"\ud83c":"x"'),
    "lone surrogate in an inner value": with_member(rb'"x":[{"a":["\ud83c"]}]'),
    "lone surrogate in an inner name": with_member(rb'"x":[{"\ud83c":1}]'),
    "surrogate in UTF-8": with_member(b'"x":"\xed\xa0\xbc"'),
    "invalid UTF-8": with_member(b'"x":"\xff"'),
    "overlong UTF-8": with_member(b'"x":"\xc0\xaf"'),
    "cut UTF-8": with_member(b'"x":"\xc3"'),
    "Latin-1": with_member('"x":"María"'.encode("latin-1")),
    "UTF-16": with_member(b'"x":1').decode().encode("utf-16"),
    "UTF-16 without a mark": with_member(b'"x":1').decode().encode("utf-16-le"),
    "UTF-32": with_member(b'"x":1').decode().encode("utf-32"),
    "two byte order marks": b"\xef\xbb\xbf" * 2 + with_member(b'"x":1'),
    "number of 5000 digits": with_member(b'"x":' + b"9" * 5000),
    "line end alone": b"\r\n",
    "trailing text": with_member(b'"x":1') + b"x",
    "second object": with_member(b'"x":1') * 2,
    "trailing null": with_member(b'"x":1') + b"\x00",
    "trailing comma": with_member(b'"x":1,'),
    "comment": with_member(b'"x":1/**/'),
    "single quotes": with_member(b"'x':1"),
    "name without quotes": with_member(b"x:1"),
    "raw line break in text": with_member(b'"x":"a\nb"'),
    "leading zero": with_member(b'"x":01'),
    "hexadecimal": with_member(b'"x":0x1'),
    "cut off": with_member(b'"x":1')[:-1],
    "1000 levels": with_member(b'"x":' + b"[" * 1000 + b"]" * 1000),
    "30,000 levels": with_member(b'"x":' + b"[" * 30_000 + b"]" * 30_000),
    "30,000 open brackets": b"[" * 30_000,
    "10,000 nested objects": with_member(b'"x":' + b'{"":' * 10_000 + b"1" + b"}" * 10_000),
    "array": b"[{" + REQUIRED + b"}]",
    "text": b'"form_type"',
    "number": b"1",
    "null": b"null",
    "true": b"true",
    "a form": REQUIRED_FORM,
}

VALID_FORMS: dict[str, bytes] = {
    "required fields alone": REQUIRED_FORM,
    "UTF-8 as it is": REQUIRED_FORM + "&nombre=María".encode(),
    "percent-encoded UTF-8": REQUIRED_FORM + b"&nombre=Mar%C3%ADa+%c3%91",
    "blank values": REQUIRED_FORM + b"&nombre=&empresa&_bp_check=&ts=",
    "empty pairs": b"&&" + REQUIRED_FORM + b"&&",
    "byte order mark": b"\xef\xbb\xbf" + REQUIRED_FORM,
    "percent sign alone": REQUIRED_FORM + b"&nombre=100%",
    "10,000 fields": REQUIRED_FORM + "".join(f"&{name}=1" for name in islice(NAMES, 10_000)).encode(),
}

INVALID_FORMS: dict[str, bytes] = {
    "nothing": b"",
    "line end alone": b"\n",
    "Latin-1 as it is": REQUIRED_FORM + "&nombre=María".encode("latin-1"),
    "percent-encoded Latin-1": REQUIRED_FORM + b"&nombre=Mar%EDa",
    "percent-encoded invalid UTF-8 in a name": REQUIRED_FORM + b"&%FF=x",
    "percent-encoded surrogate": REQUIRED_FORM + b"&nombre=%ED%A0%BC",
    "percent-encoded cut UTF-8": REQUIRED_FORM + b"&nombre=%C3",
    "UTF-16": REQUIRED_FORM.decode().encode("utf-16"),
}


def as_json(size: int) -> bytes:
    return (b"{" + REQUIRED + b"}").ljust(size)


def as_form(size: int) -> bytes:
    return (REQUIRED_FORM + b"&relleno=").ljust(size, b"x")


def error_of(response: TestResponse) -> str:
    code: str = response.get_json()["error"]["code"]
    return code


def assert_refused(response: TestResponse, mailer: RecordingMailer) -> None:
    assert response.status_code == 400
    assert error_of(response) == "invalid_body"
    assert not mailer.messages


@pytest.mark.parametrize("body", VALID_JSON.values(), ids=VALID_JSON.keys())
def test_valid_json_is_accepted(client: ValidatingClient, mailer: RecordingMailer, body: bytes) -> None:
    response = client.post(PATH, data=body, content_type=JSON)

    assert response.status_code == 200
    assert len(mailer.messages) == 1


@pytest.mark.parametrize("body", INVALID_JSON.values(), ids=INVALID_JSON.keys())
def test_what_is_no_json_object_is_refused(client: ValidatingClient, mailer: RecordingMailer, body: bytes) -> None:
    assert_refused(client.post(PATH, data=body, content_type=JSON), mailer)


@pytest.mark.parametrize("body", VALID_FORMS.values(), ids=VALID_FORMS.keys())
def test_a_valid_form_is_accepted(client: ValidatingClient, mailer: RecordingMailer, body: bytes) -> None:
    response = client.post(PATH, data=body, content_type=FORM)

    assert response.status_code == 200
    assert len(mailer.messages) == 1


@pytest.mark.parametrize("body", INVALID_FORMS.values(), ids=INVALID_FORMS.keys())
def test_a_form_that_is_not_utf_8_is_refused(client: ValidatingClient, mailer: RecordingMailer, body: bytes) -> None:
    assert_refused(client.post(PATH, data=body, content_type=FORM), mailer)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b'{"form_type":"soporte",' + REQUIRED + b"}", JSON, id="JSON"),
        pytest.param(b"form_type=soporte&" + REQUIRED_FORM, FORM, id="form"),
    ],
)
def test_the_last_of_duplicate_keys_counts(client: ValidatingClient, body: bytes, content_type: str) -> None:
    assert client.post(PATH, data=body, content_type=content_type).status_code == 200


@pytest.mark.parametrize(
    ("body", "content_type", "details"),
    [
        pytest.param(b'{"form_type":"demo","email":"a@example.com"}', FORM, {"reason": "content_type"}, id="JSON"),
        pytest.param(
            b'{"mensaje":"a=b&c","form_type":"demo"}', FORM, {"reason": "content_type"}, id="JSON with & and ="
        ),
        pytest.param(b'{ "form_type": "demo" }', FORM, {"reason": "content_type"}, id="JSON with spaces"),
        pytest.param(b"'{form_type:demo}'", FORM, {"reason": "content_type"}, id="JSON in quotes, as Windows sends it"),
        pytest.param(b'\xef\xbb\xbf{"form_type":"demo"}', FORM, {"reason": "content_type"}, id="JSON of an editor"),
        pytest.param(b"email=a@example.com&{=x", FORM, None, id="a form with another name first"),
        pytest.param(b'{"{":"x"}', JSON, None, id="JSON with its content type"),
    ],
)
def test_json_without_its_content_type_is_told_so(
    client: ValidatingClient, body: bytes, content_type: str, details: dict[str, str] | None
) -> None:
    response = client.post(PATH, data=body, content_type=content_type)

    assert error_of(response) == "invalid_form_type"
    assert response.get_json()["error"].get("details") == details


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(with_member(b'"form_type":"soporte"'), JSON, id="JSON"),
        pytest.param(REQUIRED_FORM + b"&form_type=soporte", FORM, id="form"),
        pytest.param(REQUIRED_FORM + b"&form_type=", FORM, id="form, blank"),
    ],
)
def test_an_earlier_duplicate_does_not_mend_the_last(client: ValidatingClient, body: bytes, content_type: str) -> None:
    assert error_of(client.post(PATH, data=body, content_type=content_type)) == "invalid_form_type"


@pytest.mark.parametrize(
    "content_type",
    [
        JSON,
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON",
        "application/json ; charset=utf-8",
    ],
)
def test_json_is_known_by_its_media_type(client: ValidatingClient, content_type: str) -> None:
    body = json.dumps(contact_body())

    assert client.post(PATH, data=body, content_type=content_type).status_code == 200


@pytest.mark.parametrize("content_type", [FORM, f"{FORM}; charset=UTF-8", FORM.upper()])
def test_a_form_is_known_by_its_media_type(client: ValidatingClient, content_type: str) -> None:
    body = urlencode(contact_body())

    assert client.post(PATH, data=body, content_type=content_type).status_code == 200


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        ";",
        "charset=utf-8",
        "json",
        "text/json",
        "text/plain",
        "text/html",
        "application/problem+json",
        "application/jsonp",
        "application/json, text/plain",
        "application/xml",
        "application/octet-stream",
        "*/*",
    ],
)
@pytest.mark.parametrize("body", [json.dumps(contact_body()), urlencode(contact_body())], ids=["JSON", "form"])
def test_any_other_content_type_is_refused(
    client: ValidatingClient, mailer: RecordingMailer, body: str, content_type: str | None
) -> None:
    assert_refused(client.post(PATH, data=body, content_type=content_type), mailer)


def test_a_multipart_form_is_refused(client: ValidatingClient, mailer: RecordingMailer) -> None:
    response = client.post(PATH, data=contact_body(), content_type="multipart/form-data")

    assert_refused(response, mailer)


SIZED = pytest.mark.parametrize(
    ("make", "content_type"), [pytest.param(as_json, JSON, id="JSON"), pytest.param(as_form, FORM, id="form")]
)
FRAMED = pytest.mark.parametrize("framing", [{}, CHUNKED], ids=["declared", "chunked"])


@SIZED
@FRAMED
def test_exactly_64_kib_is_accepted(
    client: ValidatingClient, make: Callable[[int], bytes], content_type: str, framing: dict[str, Any]
) -> None:
    body = io.BytesIO(make(LIMIT))

    response = client.post(PATH, input_stream=body, content_type=content_type, environ_overrides=framing)

    assert response.status_code == 200


@SIZED
@FRAMED
@pytest.mark.parametrize("size", [LIMIT + 1, 10 * LIMIT])
def test_more_than_64_kib_is_refused_and_never_cut(
    client: ValidatingClient,
    mailer: RecordingMailer,
    make: Callable[[int], bytes],
    content_type: str,
    framing: dict[str, Any],
    size: int,
) -> None:
    body = io.BytesIO(make(size))

    response = client.post(PATH, input_stream=body, content_type=content_type, environ_overrides=framing)

    assert_refused(response, mailer)


class Stream(io.BytesIO):
    """A body that records how far it was read, and comes in pieces of at most ``piece`` bytes."""

    def __init__(self, body: bytes, piece: int = LIMIT * 100) -> None:
        super().__init__(body)
        self.piece = piece
        self.bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self.piece if size is None or size < 0 else min(size, self.piece)
        piece = super().read(wanted)
        self.bytes_read += len(piece)
        return piece


class BrokenStream(Stream):
    def read(self, _size: int | None = -1, /) -> bytes:
        raise RuntimeError("the chunk sent by maria@example.com is malformed")


def test_a_body_that_declares_too_much_is_not_read(client: ValidatingClient, mailer: RecordingMailer) -> None:
    body = Stream(as_json(LIMIT + 1))

    response = client.post(PATH, input_stream=body, content_type=JSON)

    assert_refused(response, mailer)
    assert body.bytes_read == 0


def test_an_endless_body_in_chunks_is_read_no_further_than_the_limit(client: ValidatingClient) -> None:
    body = Stream(as_form(100 * LIMIT))

    client.post(PATH, input_stream=body, content_type=FORM, environ_overrides=CHUNKED)

    assert body.bytes_read <= LIMIT + 1


@FRAMED
def test_a_body_that_comes_in_pieces_is_read_whole(
    client: ValidatingClient, mailer: RecordingMailer, framing: dict[str, Any]
) -> None:
    body = Stream(with_member(b'"x":"' + b"y" * 5000 + b'"'), piece=100)

    response = client.post(PATH, input_stream=body, content_type=JSON, environ_overrides=framing)

    assert response.status_code == 200
    assert len(mailer.messages) == 1


@SIZED
def test_a_truncated_body_is_refused(
    client: ValidatingClient, mailer: RecordingMailer, make: Callable[[int], bytes], content_type: str
) -> None:
    # What has arrived would be valid by itself.
    body = io.BytesIO(make(500))

    response = client.post(
        PATH, input_stream=body, content_type=content_type, environ_overrides={"CONTENT_LENGTH": "501"}
    )

    assert_refused(response, mailer)


@FRAMED
def test_a_body_whose_framing_breaks_is_refused(
    client: ValidatingClient, mailer: RecordingMailer, caplog: pytest.LogCaptureFixture, framing: dict[str, Any]
) -> None:
    body = BrokenStream(as_json(500))

    response = client.post(PATH, input_stream=body, content_type=JSON, environ_overrides=framing)

    assert_refused(response, mailer)
    assert "maria" not in caplog.text


def test_only_the_declared_part_of_a_longer_stream_is_the_body(client: ValidatingClient) -> None:
    body = as_json(500)

    response = client.post(
        PATH, input_stream=io.BytesIO(body + b"next"), content_type=JSON, environ_overrides={"CONTENT_LENGTH": "500"}
    )

    assert response.status_code == 200


def test_a_body_without_length_and_end_counts_as_empty(client: ValidatingClient, mailer: RecordingMailer) -> None:
    body = Stream(as_json(500))

    response = client.post(
        PATH, input_stream=body, content_type=JSON, environ_overrides={"CONTENT_LENGTH": "", "wsgi.input_terminated": 0}
    )

    assert_refused(response, mailer)
    assert body.bytes_read == 0


def test_no_depth_of_nesting_is_unforeseen(client: ValidatingClient) -> None:
    # Between what the parser takes and what later steps can walk there must be no gap.
    statuses = set()
    for depth in (10, *range(800, 1000)):
        address = {"REMOTE_ADDR": f"10.0.{depth // 256}.{depth % 256}"}
        body = with_member(b'"x":' + b"[" * depth + b"]" * depth)
        statuses.add(client.post(PATH, data=body, content_type=JSON, environ_overrides=address).status_code)

    assert statuses == {200, 400}


FIELDS = [*contact_body(), "tema", ""]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(list(contact_body().values())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
CLIENTS = count(1)


@settings(max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=100)
    | st.dictionaries(st.sampled_from(FIELDS), VALUES).map(lambda body: json.dumps(body).encode()),
    content_type=st.sampled_from([JSON, FORM]),
)
def test_no_body_is_unforeseen(client: ValidatingClient, body: bytes, content_type: str) -> None:
    address = {"REMOTE_ADDR": f"198.51.100.{next(CLIENTS)}"}

    response = client.post(PATH, data=body, content_type=content_type, environ_overrides=address)

    assert response.status_code == 200 or error_of(response) in {
        "invalid_body",
        "too_fast",
        "bad_captcha",
        "invalid_form_type",
        "invalid_email",
    }


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


def outcome(content_type: str, text: str) -> Any:
    try:
        return PARSERS[content_type](text)
    except ApiError as error:
        return error.details


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


@pytest.mark.parametrize("length", ["abc", "-1", "1.5", "²", "9" * 5000], ids=ascii)
def test_a_length_that_is_no_number_is_refused(client: ValidatingClient, length: str) -> None:
    response = client.post(PATH, data=b"{}", content_type=JSON, environ_overrides={"CONTENT_LENGTH": length})

    assert json.loads(response.data)["error"]["details"] == {"reason": "http"}


@pytest.mark.parametrize("hidden", [b'{"a":' * 600 + b"1" + b"}" * 600, b"[" * 30_000 + b"]" * 30_000], ids=len)
def test_nesting_that_a_later_value_replaces_is_not_unforeseen(client: ValidatingClient, hidden: bytes) -> None:
    body = b'{"form_type":"\\u0064emo","email":"a@example.com","x":' + hidden + b',"x":1}'

    answer = json.loads(client.post(PATH, data=body, content_type=JSON).data)

    # How much Python's parser takes depends on its release.
    assert answer["ok"] or answer["error"]["details"] == {"reason": "nesting"}
