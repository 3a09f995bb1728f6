"""Strategies for what nobody who means well would send: raw bodies and raw HTTP."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote_from_bytes

from hypothesis import strategies as st

from app.contact.submission import FORM_TYPES
from tests.factories import contact_body

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
FIELDS = sorted(contact_body())
VALID = [(name, value) for name, value in contact_body(ts=None).items() if value]

INJECTIONS = (
    "x\r\nBcc: eve@example.net",
    "x\nBcc: eve@example.net\n\nhello",
    "x\rBcc: eve@example.net",
    "x\u2028Bcc: eve@example.net\x85Bcc: eve@example.net\x0bBcc: eve@example.net\x1eBcc: eve@example.net",
    "=?utf-8?q?x=0D=0ABcc=3A_eve=40example=2Enet?=",
    "=?utf-8?b?eA0KQmNjOiBldmVAZXhhbXBsZS5uZXQ=?= =?utf-8?q?_?=",
    "=?utf-7?q?x+AA0ACg-Bcc?=",
    "\r\n.\r\nMAIL FROM:<eve@example.net>\r\n",
    "--=_\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}<b>&amp;",
    '"<eve@example.net>, x',
    "\x00\x07\x1b[31m\x7f\x9b",
    "\u202e\ufeff\u200d\U000e0041",
    "a" * 998,
    "é" * 199,
)
EMAILS = (
    "ana@example.com",
    " ana@example.com\t",
    "ñandú@example.com",
    "ana@dominio-ñ.example",
    "ana@xn--80akhbyknj4f.com",
    "a'!#$%&*+/=?^_`{|}~b@example.com",
    "=?utf-8?q?x=0ABcc=3A_eve?=@example.com",
    "a" * 64 + "@example.com",
    *(f"{injection}@example.com" for injection in INJECTIONS[:4]),
    *(f"ana@example.com{injection}" for injection in INJECTIONS[:4]),
    '"ana\r\nBcc: eve@example.net"@example.com',
    "ana@[127.0.0.1]",
    "ana@example.com, eve@example.net",
)


T = TypeVar("T")

# What does not depend on what was drawn is made here, once: to make and check a strategy takes longer than to draw.
strange = st.sampled_from([False] * 9 + [True])
"""One strange thing at a time gets further than ten: most of a case is as it should be."""


def usually(usual: T, rare: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    # hypothesis would draw from one_of without regard to repetitions.
    return strange.flatmap(lambda strange: rare if strange else st.just(usual))


line_breakers = st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Co", "Mn"])
hostile_text = st.sampled_from(INJECTIONS) | st.text(max_size=60) | st.text(line_breakers, max_size=20)
surrogates = st.text(st.characters(categories=["Cs", "Ll"]), max_size=6)
sendable_text = hostile_text.map(lambda text: text.encode(errors="replace").decode())
numbers = st.integers() | st.integers(-(1 << 80), 1 << 80) | st.floats() | st.sampled_from([0, -1, 1 << 63, -(1 << 63)])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | hostile_text | surrogates,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile_text, inner, max_size=3),
    max_leaves=6,
)
extra = hostile_text.map(lambda text: f"x{text}")
names = st.one_of(extra, extra, st.sampled_from(FIELDS), hostile_text)
emails = st.sampled_from(EMAILS) | st.emails()
submitted = usually(VALID, st.just([])) | emails.map(lambda email: [("form_type", "demo"), ("email", email)])

submissions = st.fixed_dictionaries(
    {"form_type": st.sampled_from(FORM_TYPES), "email": st.sampled_from(EMAILS[:8]) | st.emails()},
    optional={
        "nombre": sendable_text.map(lambda text: text[:200]),
        "empresa": sendable_text.map(lambda text: text[:200]),
        "telefono": sendable_text.map(lambda text: text[:40]),
        "mensaje": sendable_text,
        **dict.fromkeys(("tema", "Subject", "Bcc: x", "=?utf-8?q?=0A?=", "a\r\nBcc"), sendable_text),
    },
)
"""Bodies that are hostile in what they say and right in how they say it."""

LITERALS = (
    *("NaN", "-Infinity", "1e400", "-1e400", "1E-400", "-0", "01", "+1", "0x1", "1.", ".5", "-"),
    *("1" * 5000, "1" * 4299 + ".0", "tru", "None", "'x'", "undefined", "", "/**/1", "1,", '"\t"', '"\\x41"', '"x'),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\ud83d\\ude00"', '{"a":"\\udfff","a":1}', '{"__proto__":{}}'),
    *("[" * 40 + "]" * 40, "[" * 31 + "]" * 31, "[" * 20_000, '{"a":' * 200 + "1" + "}" * 200),
)
BULKY = (
    b"[" * 65_536,
    b'{"a":' * 12_000,
    b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}",
    b"{%s}" % b",".join(b'"k%d":1' % number for number in range(5_000)),
    b"{%s}" % b",".join(b'"":0' for _ in range(10_000)),
    b'{"%s":1}' % (b"k" * 65_000),
    b'{"email":"%s@example.com","form_type":"demo"}' % (b"a" * 65_000),
    b'{"form_type":"demo","email":"a@example.com","x":%s}' % (b"9" * 65_000),
    b'{"form_type":"demo","email":"a@example.com","x":"%s"}' % (b"\\n" * 32_000),
    b'{"form_type":"demo","email":"a@example.com","mensaje":"x"}'.ljust(65_536),
    b'{"form_type":"demo","email":"a@example.com","mensaje":"x"}'.ljust(65_537),
    b"&".join(b"k%d=" % number for number in range(10_000))[:65_536],
    b"&" * 65_536,
    b"form_type=demo&email=a@example.com&" + b"=&" * 30_000,
    b"form_type=demo&email=a@example.com&mensaje=" + b"%0A" * 5_000,
    b"form_type=demo&email=a@example.com&mensaje=" + b"%" * 65_000,
    b"a@" * 32_768,
)
CONTENT_TYPES = (
    *(f"{JSON};charset=utf-16", f"{JSON}; charset=latin-1", f"{JSON}; charset=\x00", f"{JSON};charset=base64"),
    *(f"{FORM}; charset=utf-7", f"{FORM}; charset=idna", f"{FORM};;;", JSON.upper(), f" {FORM}", f"{JSON}, {FORM}"),
    *("", "json", "text/plain", "multipart/form-data", "multipart/form-data; boundary=x", "application/xml", "\xff"),
)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-7", "latin-1", "cp037")


def _encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "surrogatepass" if encoding.startswith("utf-") else "replace")


MUTATIONS = st.sampled_from(["cut", "drop", "insert", "overwrite", "repeat"])
FEW_TIMES = st.integers(0, 3)
FEW_BYTES, ONE_BYTE = st.binary(max_size=8), st.binary(min_size=1, max_size=1)


def _mutate(draw: st.DrawFn, original: bytes) -> bytes:
    """The bytes after some cuts, splices and repetitions."""
    data = bytearray(original)
    for _ in range(draw(FEW_TIMES)):
        first, last = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        match draw(MUTATIONS):
            case "cut":
                del data[last:]
            case "drop":
                del data[first : min(last, first + 4)]
            case "insert":
                data[first:first] = draw(FEW_BYTES)
            case "overwrite":
                data[first : first + 1] = draw(ONE_BYTE)
            case _:
                data[last:last] = data[first : min(last, first + 64)]
    return bytes(data)


mutated = st.composite(_mutate)

encodings = usually("utf-8", st.sampled_from(ENCODINGS))
members = {
    escaped: st.lists(
        st.tuples(
            names, usually("null", st.sampled_from(LITERALS)) | values.map(partial(json.dumps, ensure_ascii=escaped))
        ),
        max_size=4,
    )
    for escaped in (False, True)
}
wrappings = usually("{%s}", st.sampled_from(["[{%s}]", " \r\n{%s}\n", "\ufeff{%s}", "{%s}{}", "{%s}\0"]))


@st.composite
def json_bodies(draw: st.DrawFn) -> bytes:
    """Objects whose names may repeat, in any encoding, with literals that are none."""
    escaped = draw(st.booleans())
    hostile = draw(members[escaped])
    pairs = [(name, json.dumps(value)) for name, value in draw(submitted)] + hostile
    text = ",".join(f"{json.dumps(name, ensure_ascii=escaped)}:{literal}" for name, literal in pairs)
    raw = _encode(draw(wrappings) % text, draw(encodings))
    return _mutate(draw, raw) if draw(strange) else raw


fields = st.lists(st.tuples(names, hostile_text), max_size=4)
unescaped = usually("", st.sampled_from(["@", "%", "&=;+%\r\n\x00"]))
tails = usually(b"", st.sampled_from([b"&a=%ff", b"&a=%", b"&a=%c3", b"&%ed%a0%80=1", b"&a=\xc3\xb1", b";"]))


@st.composite
def form_bodies(draw: st.DrawFn) -> bytes:
    """Forms whose names may repeat, in any encoding, with escapes that are none."""
    pairs = draw(submitted) + draw(fields)
    encoding = draw(encodings)
    safe = draw(unescaped)
    raw = b"&".join(
        b"=".join(quote_from_bytes(_encode(text, encoding), safe=safe).encode() for text in pair) for pair in pairs
    )
    raw += draw(tails)
    return _mutate(draw, raw) if draw(strange) else raw


bodies = st.one_of(
    *[st.tuples(st.just(JSON), json_bodies())] * 4,
    *[st.tuples(st.just(FORM), form_bodies())] * 4,
    st.tuples(st.sampled_from([JSON, FORM]), st.sampled_from(BULKY).flatmap(lambda raw: st.just(raw) | mutated(raw))),
    st.tuples(st.sampled_from(CONTENT_TYPES), json_bodies() | form_bodies()),
    st.tuples(st.sampled_from([JSON, FORM]), st.binary(max_size=64)),
)
"""Content type and body."""

METHODS = (b"GET", b"HEAD", b"POST", b"OPTIONS", b"PUT", b"TRACE", b"CONNECT", b"get", b"", b"G@T", b"QUERY", b"A" * 40)
TARGETS = (
    *(b"/api", b"/api/v1", b"/api/v1/contact", b"/contact.php", b"/openapi.json", b"/api/v1/health?verbose=true"),
    *(b"*", b"//api", b"/api/", b"/api//v1", b"/static/openapi.json", b"/api/../api", b"/%2e%2e/etc/passwd", b"/%00"),
    *(b"http://x/api", b"https://[::1", b"http://x:99999/api", b"x:443", b"?section=docs", b"/api?section=%ff", b"api"),
    *(b"/api?section=docs&section=%00", b"/api?%zz", b"/api#x", b"/api/v\xd9\xa3", b"/api/v%D9%A3", b"/api/v9/x"),
    *(b"/" + b"a" * 4_090, b"/" + b"%" * 3_000, b"/api/\xc3\xb1", b"/\xff", b"/a b", b"/api\x00", b"/<script>"),
)
VERSIONS = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/9", b"http/1.1", b"HTTP/1.1 x", b"", b"RTSP/1.0")
HEADERS = (
    *(b"Host: ", b"Host: a, b", b"Host: <script>", b"Host: a\r\nHost: b", b"Host: [::1]:99999", b"Host: \xff"),
    *(b"X-Forwarded-For: unknown", b"X-Forwarded-For: ,,,", b"X-Forwarded-For: 10.1.1.1\xff"),
    *(b"X-Forwarded-Proto: javascript", b"X-Forwarded-Host: evil/<x>", b"X-Forwarded-Host: " + b"a" * 300),
    *(b"Connection: close", b"Connection: keep-alive, upgrade", b"Upgrade: h2c", b"Upgrade: websocket"),
    *(b"Expect: 100-continue", b"Expect: x", b"Content-Length: 5", b"Content-Length: +5", b"Content-Length: 0x5"),
    *(b"Content-Length: 5, 5", b"Content-Length: 99999999999999999999", b"Content-Length: \xd9\xa3"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: gzip, chunked"),
    *(b"Transfer-Encoding:\x0bchunked", b"Transfer-Encoding: identity", b"Transfer_Encoding: chunked"),
    *(b"Origin: null", b"Origin: \xff", b"Origin: a\r\nOrigin: b", b"Access-Control-Request-Method: \x7f"),
    *(b"If-None-Match: *", b'If-None-Match: "\xff', b"If-Modified-Since: x", b"Range: bytes=0-0", b"Cookie: a=\x01"),
    *(b"Content-Type: application/json", b"Content-Encoding: gzip", b"Accept: text/html", b"Accept-Encoding: \x00"),
    *(b": x", b"x", b"X Y: z", b"X-A:\tb", b" folded: x", b"X-A: " + b"b" * 9_000, b"X-" + b"a" * 9_000 + b": b"),
    *(b"X-A: b\nX-B: c", b"X-A: b\rX-B: c", b"Authorization: Basic ====", b"Script_Name: /x", b"Path-Info: /x"),
    *(b"Proxy: x", b"Forwarded: for=1", b"X-Http-Method-Override: GET", b"X-Original-Url: /", b"Sec-Websocket-Key: x"),
    b"\r\n".join(b"X-%d: y" % number for number in range(120)),
)
CLIENT = b"10.0.0.0"
"""Stands for the address of a client; whoever sends the request puts one there that has sent none before."""
POST_BODY = b'{"form_type":"demo","email":"ana@example.com"}'
GARBAGE = (b"\r\n\r\n", b"GET", b"\x00" * 40, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00")


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


LENGTH, CHUNKED = b"Content-Length: %d\r\n", b"Transfer-Encoding: chunked\r\n"
FRAMINGS = [*["chunked", "mutated", "another length"] * 2, "both", "none"]
framed_bodies = usually((JSON, POST_BODY), bodies)
framings, most_framings = st.sampled_from(FRAMINGS), st.sampled_from(["length"] * 2 + FRAMINGS)
more_or_less = st.integers(-20, 20)


def _frame(draw: st.DrawFn, body: bytes) -> tuple[bytes, bytes]:
    framing = draw(most_framings)
    if framing == "length" and draw(strange):
        framing = draw(framings)
    match framing:
        case "length":
            return LENGTH % len(body), body
        case "another length":
            return LENGTH % max(len(body) + draw(more_or_less), 0), body
        case "chunked":
            return CHUNKED, _chunked(body)
        case "mutated":
            return CHUNKED, _mutate(draw, _chunked(body))
        case "both":
            return CHUNKED + LENGTH % 5, _chunked(body)
        case _:
            return b"", body


def _framed(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Header fields that frame a body, and the body."""
    content_type, body = draw(framed_bodies)
    fields, content = _frame(draw, body)
    return b"Content-Type: %s\r\n%s" % (content_type.encode("latin-1"), fields), content


posted, got = (usually(method, st.sampled_from(METHODS)) for method in (b"POST", b"GET"))
any_target, contact_target = st.sampled_from(TARGETS), st.sampled_from(TARGETS[2:4])
versions = usually(b"HTTP/1.1", st.sampled_from(VERSIONS))
more_fields = usually([], st.lists(st.sampled_from(HEADERS), max_size=2))
line_ends = usually(b"\r\n", st.sampled_from([b"\n", b"\r"]))


@st.composite
def _http_request(draw: st.DrawFn) -> bytes:
    posts = draw(st.booleans())
    method = draw(posted if posts else got)
    target = draw(contact_target if posts else any_target)
    version = draw(versions)
    fields = b"Host: a\r\nX-Forwarded-For: %s\r\n" % CLIENT
    fields += b"".join(field + b"\r\n" for field in draw(more_fields))
    framing, body = _framed(draw) if posts or draw(strange) else (b"", b"")
    request = b"%s %s %s\r\n%s%s\r\n%s" % (method, target, version, fields, framing, body)
    return request.replace(b"\r\n", draw(line_ends))


http_requests = st.lists(_http_request(), min_size=1, max_size=3)
garbage = usually(b"", st.sampled_from(GARBAGE))


@st.composite
def http(draw: st.DrawFn) -> bytes:
    """One connection's worth of requests, whole or broken."""
    raw = b"".join(draw(http_requests))
    return (_mutate(draw, raw) if draw(strange) else raw) + draw(garbage)
