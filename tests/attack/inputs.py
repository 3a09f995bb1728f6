"""What costs the service most among requests of 64 KiB, and among the heads that gunicorn admits."""

import json
import unicodedata
from collections.abc import Iterable

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


_NAMES = [b"_%x" % number for number in range(20_000)]
"""Names that no field of the form has, the shortest first."""


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
    "email: marks in 254 bytes": (JSON, _email(f"a{_marks()[::265]}@b.co")),
    "email: spaces": (JSON, _email("a" + " " * 65_000 + "b@b.co")),
    "email: escaped quotes": (JSON, _email('"' + '\\"' * 16_000 + '"@b.co')),
    "nombre: marks": (JSON, _filled(_DEMO + b',"nombre":"', _marks().encode(), b'"}')),
    "captchas: small letters": (
        JSON,
        b'%s,"captcha_expected":"%s","captcha_input":"%s"}' % (_DEMO, _FOLDING, _FOLDING),
    ),
    "ts: digits": (JSON, _DEMO + b',"ts":"' + b"9" * 65_000 + b'"}'),
    "unknown fields: dots": (JSON, _filled(_DEMO, (b',"%s.a.a":0' % name for name in _NAMES), b"}")),
    "unknown fields of a form": (FORM, _filled(_DEMO_FORM, (b"&%s=0" % name for name in _NAMES))),
    "unknown fields of a form: %": (FORM, _filled(_DEMO_FORM, (b"&%s%%=%%" % name for name in _NAMES))),
    "unknown field: quotes": (FORM, _filled(_DEMO_FORM + b"&x=", b"'")),
    "unknown field: line breaks": (FORM, _filled(_DEMO_FORM + b"&x=", b"x\n")),
    "unknown field: small letters": (FORM, _filled(_DEMO_FORM + b"&x=", "ñ".encode())),
    "form: empty pairs": (FORM, b"=&" * 32_768),
    "form: % before letters": (FORM, _filled(_DEMO_FORM + b"&x=", "%ñ".encode())),
    "numbers and an escape": (JSON, _listed(b"0", rb'"\u00f1"')),
    "lists in lists": (JSON, _listed(b"[" * 29 + b"]" * 29)),
    "lists too deep, replaced": (JSON, _filled(_DEMO, b',"x":' + b"[" * 900 + b"]" * 900, rb',"x":"\u00f1"}')),
    "objects": (JSON, _listed(b'{"":0}')),
    "floats that are long to write": (JSON, _listed(b"2e300")),
    "floats that are long to read": (JSON, _listed(b"2.2250738585072011e-308")),
    "integers of 4,300 digits": (JSON, _listed(b"9" * 4_300)),
    "escaped pairs": (JSON, _filled(_DEMO + b',"x":"', rb"\ud83d\ude00", b'"}')),
    "nesting": (JSON, b"[" * 65_536),
}
"""Content type and body of a POST."""

_POST, _GET = b"POST /contact.php", b"GET /openapi.json"
_CHUNKED = [b"Content-Type: application/json", b"Transfer-Encoding: chunked"]
_COMMAS = b"," * 8_150


def _sent(line: bytes, fields: Iterable[bytes], body: bytes = b"") -> bytes:
    head = [line + b" HTTP/1.1", b"Host: a", b"X-Forwarded-For: " + CLIENT, *fields, b"", b""]
    return b"\r\n".join(head) + body


HEADS: dict[str, bytes] = {
    "If-None-Match: 730,000 commas": _sent(_GET, [b"If-None-Match: " + _COMMAS] * 90),
    "If-None-Match: open quotes": _sent(_GET, [b"If-None-Match: " + b'"a,' * 2_700] * 8),
    "X-Forwarded-Host: 730,000 commas": _sent(_GET, [b"X-Forwarded-Host: " + _COMMAS] * 90),
    "X-Forwarded-For: 730,000 commas": _sent(_GET, [b"X-Forwarded-For: " + _COMMAS] * 90),
    "X-Forwarded-Host: digits": _sent(_GET, [b"X-Forwarded-Host: " + b"1." * 4_000 + b":"]),
    "200,000 fields with an underscore": _sent(_GET, [b"_:"] * 200_000),
    "200,000 fields": _sent(_GET, [b"a:"] * 200_000),
    "200,000 fields after the chunks": _sent(_POST, _CHUNKED, b"2\r\n{}\r\n0\r\n" + b"_:\r\n" * 200_000 + b"\r\n"),
    "chunks of one byte": _sent(_POST, _CHUNKED, b"1\r\n \r\n" * 10_900 + b"2\r\n{}\r\n0\r\n\r\n"),
    "a chunk with many extensions": _sent(_POST, _CHUNKED, b"2" + b" ;a" * 2_700 + b"\r\n{}\r\n0\r\n\r\n"),
    "a path of escapes": _sent(b"GET /api/" + b"%c3%b1" * 660, []),
    "a query of escapes": _sent(b"GET /api?" + b"%=%&" * 1_000, []),
}
"""Whole requests, of up to what gunicorn admits as a head."""

REQUESTS: dict[str, bytes] = HEADS | {
    name: _sent(_POST, [b"Content-Type: " + kind.encode(), b"Content-Length: %d" % len(body)], body)
    for name, (kind, body) in BODIES.items()
}
