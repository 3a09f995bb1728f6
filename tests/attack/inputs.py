"""What costs the service most among requests of 64 KiB, and among the heads that gunicorn admits."""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections.abc import Iterable, Iterator

from app.api.body import MAX_BODY_BYTES

CLIENT = b"203.0.113.7"
"""Stands in each request for the address that it comes from: put another one there each time."""

JSON, FORM = "application/json", "application/x-www-form-urlencoded"

_DEMO = b'{"form_type":"demo","email":"ana@example.com"'
_DEMO_FORM = b"form_type=demo&email=ana@example.com"


def _filled(start: bytes, pieces: bytes | Iterable[bytes], end: bytes = b"") -> bytes:
    """As many of the pieces between start and end as 64 KiB hold."""
    if isinstance(pieces, bytes):
        return start + pieces * ((MAX_BODY_BYTES - len(start) - len(end)) // len(pieces)) + end
    body = bytearray(start)
    for piece in pieces:
        if len(body) + len(piece) + len(end) > MAX_BODY_BYTES:
            break
        body += piece
    return bytes(body) + end


def _listed(piece: bytes, first: bytes = b"0") -> bytes:
    return _filled(_DEMO + b',"x":[' + first, b"," + piece, b"]}")


def _names() -> Iterator[bytes]:
    """Names that no field of the form has, the shortest first."""
    letters = [bytes([letter]) for letter in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"]
    for length in itertools.count(1):
        for name in itertools.product(letters, repeat=length):
            yield b"_" + b"".join(name)


def _marks() -> str:
    """32,600 combining marks of two bytes each, those of the highest class first: what normalisation sorts slowest."""
    marks = [chr(code) for code in range(0x300, 0x700) if unicodedata.combining(chr(code))]
    marks.sort(key=unicodedata.combining, reverse=True)
    return "".join(mark * (32_600 // len(marks) + 1) for mark in marks)[:32_600]


def _email(address: str) -> bytes:
    return json.dumps({"form_type": "demo", "email": address}, ensure_ascii=False).encode()


_FOLDING = ("\u0390" * 16_000).encode()
"""A letter that case folding makes three of."""

BODIES: dict[str, tuple[str, bytes]] = {
    "email: marks in descending class": (JSON, _email(f"a{_marks()}@b.co")),
    "email: marks of two classes": (JSON, _email("a" + "\u0301" * 16_300 + "\u0323" * 16_300 + "@b.co")),
    "email: marks in 254 bytes": (JSON, _email(f"a{_marks()[::265]}@b.co")),
    "email: spaces": (JSON, _email("a" + " " * 65_000 + "b@b.co")),
    "email: a long local part": (JSON, _email("a" * 65_000 + "@b.co")),
    "email: escaped quotes": (JSON, _email('"' + '\\"' * 16_000 + '"@b.co')),
    "nombre: marks": (JSON, _filled(_DEMO + b',"nombre":"', _marks().encode(), b'"}')),
    "captchas: small letters": (
        JSON,
        b'%s,"captcha_expected":"%s","captcha_input":"%s"}' % (_DEMO, _FOLDING, _FOLDING),
    ),
    "ts: digits": (JSON, _DEMO + b',"ts":"' + b"9" * 65_000 + b'"}'),
    "unknown fields: numbers": (JSON, _filled(_DEMO, (b',"%s":0' % name for name in _names()), b"}")),
    "unknown fields: objects": (JSON, _filled(_DEMO, (b',"%s":{}' % name for name in _names()), b"}")),
    "unknown fields: dots": (JSON, _filled(_DEMO, (b',"%s.a.a":0' % name for name in _names()), b"}")),
    "unknown fields of a form": (FORM, _filled(_DEMO_FORM, (b"&%s=0" % name for name in _names()))),
    "unknown fields of a form: %": (FORM, _filled(_DEMO_FORM, (b"&%s%%=%%" % name for name in _names()))),
    "unknown field: quotes": (FORM, _filled(_DEMO_FORM + b"&x=", b"'")),
    "unknown field: quotes in its name": (FORM, _filled(_DEMO_FORM + b"&x", b"'", b"=1")),
    "unknown field: line breaks": (FORM, _filled(_DEMO_FORM + b"&x=", b"x\n")),
    "unknown field: small letters": (FORM, _filled(_DEMO_FORM + b"&x=", "ñ".encode())),
    "form: empty pairs": (FORM, b"=&" * 32_768),
    "form: % as names": (FORM, b"%=&" * 21_845),
    "form: % everywhere": (FORM, b"%=%&" * 16_384),
    "form: % before letters": (FORM, _filled(_DEMO_FORM + b"&x=", "%ñ".encode())),
    "numbers": (JSON, _listed(b"0")),
    "numbers and an escape": (JSON, _listed(b"0", rb'"\u00f1"')),
    "lists": (JSON, _listed(b"[]")),
    "lists and an escape": (JSON, _listed(b"[]", rb'"\u00f1"')),
    "lists in lists": (JSON, _listed(b"[" * 29 + b"]" * 29)),
    "lists too deep, replaced": (
        JSON,
        _filled(_DEMO, b',"x":' + b"[" * 900 + b"]" * 900, rb',"x":"\u00f1"}'),
    ),
    "objects": (JSON, _listed(b'{"":0}')),
    "floats that are long to write": (JSON, _listed(b"2e300")),
    "floats that are long to read": (JSON, _listed(b"2.2250738585072011e-308")),
    "integers of 4,300 digits": (JSON, _listed(b"9" * 4_300)),
    "an integer of 65,000 digits": (JSON, _DEMO + b',"x":' + b"9" * 65_000 + b"}"),
    "escaped pairs": (JSON, _filled(_DEMO + b',"x":"', rb"\ud83d\ude00", b'"}')),
    "nesting": (JSON, b"[" * 65_536),
}
"""Content type and body of a POST."""

_FIELD = b"," * 8_150


def _get(*fields: bytes, target: bytes = b"/openapi.json") -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\n%s\r\n" % (
        target,
        CLIENT,
        b"".join(field + b"\r\n" for field in fields),
    )


def post(content_type: str, body: bytes, *, framing: bytes | None = None) -> bytes:
    """The whole request that carries a body."""
    return b"POST /contact.php HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\nContent-Type: %s\r\n%s\r\n\r\n%s" % (
        CLIENT,
        content_type.encode(),
        framing or b"Content-Length: %d" % len(body),
        body,
    )


_CHUNKED = b"Transfer-Encoding: chunked"
_CHUNKS = b"".join(b"1\r\n%c\r\n" % byte for byte in (_DEMO + b"}").ljust(10_900)) + b"0\r\n\r\n"

HEADS: dict[str, bytes] = {
    "If-None-Match: 65,000 commas": _get(*[b"If-None-Match: " + _FIELD] * 8),
    "If-None-Match: 730,000 commas": _get(*[b"If-None-Match: " + _FIELD] * 90),
    "If-None-Match: open quotes": _get(*[b"If-None-Match: " + b'"a,' * 2_700] * 8),
    "X-Forwarded-Host: 730,000 commas": _get(*[b"X-Forwarded-Host: " + _FIELD] * 90),
    "X-Forwarded-For: 730,000 commas": _get(*[b"X-Forwarded-For: " + _FIELD] * 90),
    "X-Forwarded-Host: digits": _get(b"X-Forwarded-Host: " + b"1." * 4_000 + b":"),
    "16,000 fields with an underscore": _get(*[b"_:"] * 16_000),
    "200,000 fields with an underscore": _get(*[b"_:"] * 200_000),
    "200,000 fields": _get(*[b"a:"] * 200_000),
    "200,000 fields after the chunks": post(
        JSON, b"2\r\n{}\r\n0\r\n" + b"_:\r\n" * 200_000 + b"\r\n", framing=_CHUNKED
    ),
    "chunks of one byte": post(JSON, _CHUNKS, framing=_CHUNKED),
    "a chunk with many extensions": post(JSON, b"2" + b" ;a" * 2_700 + b"\r\n{}\r\n0\r\n\r\n", framing=_CHUNKED),
    "a path of escapes": _get(target=b"/api/" + b"%c3%b1" * 660),
    "a path of slashes": _get(target=b"/api" + b"/" * 4_000),
    "a query of escapes": _get(target=b"/api?" + b"%=%&" * 1_000),
}
"""Whole requests, of up to what gunicorn admits as a head."""

REQUESTS: dict[str, bytes] = {name: post(*body) for name, body in BODIES.items()} | HEADS
