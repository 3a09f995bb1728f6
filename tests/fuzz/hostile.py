"""Strategies for what nobody who means well would send: raw bodies and raw HTTP.

Many begin with a row of a table that says what it is answered, and change it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

from hypothesis import strategies as st

from tests.api.exchanges import CONTACT, FORM, GROUPS, JSON, KINDS, LIMIT, Row
from tests.attack.inputs import BODIES
from tests.contact.test_composer import INJECTIONS, LONGEST
from tests.factories import contact_body
from tests.server.test_malformed import REQUESTS

T = TypeVar("T")
Draw = st.DrawFn

# What does not depend on what was drawn is made here, once: to make and check a strategy takes longer than to draw.
strange = st.sampled_from([False] * 9 + [True])
"""One strange thing at a time gets further than ten: most of a case is as it should be."""


def usually(usual: T, rare: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    # hypothesis would draw from one_of without regard to repetitions.
    return strange.flatmap(lambda strange: rare if strange else st.just(usual))


line_breakers = st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Co", "Mn"])
typed = st.sampled_from([*INJECTIONS.values(), "a" * 998, "é" * 199])
hostile_text = typed | st.text(max_size=60) | st.text(line_breakers, max_size=20)
surrogates = st.text(st.characters(categories=["Cs", "Ll"]), max_size=6)
numbers = st.integers() | st.integers(-(1 << 80), 1 << 80) | st.floats() | st.sampled_from([0, -1, 1 << 63, -(1 << 63)])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | hostile_text | surrogates,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile_text, inner, max_size=3),
    max_leaves=6,
)
names = hostile_text.map("x{}".format) | st.sampled_from(sorted(contact_body())) | hostile_text
EMAILS = ["ana@example.com", " ana@example.com\t", "ñandú@example.com", "ana@dominio-ñ.example"]
EMAILS += ["a'!#$%&*+/=?^_`{|}~b@example.com", "=?utf-8?q?x=0ABcc=3A_eve?=@example.com", "a" * 64 + "@example.com"]
emails = st.sampled_from(EMAILS) | st.emails()


def at_most(length: int) -> st.SearchStrategy[str]:
    return hostile_text.map(lambda text: text[:length])


submissions = st.fixed_dictionaries(
    {"form_type": st.sampled_from(KINDS), "email": emails},
    optional={name: at_most(length) for name, length in LONGEST.items()}
    | dict.fromkeys(("Subject", "Bcc: x", "=?utf-8?q?=0A?=", "a\r\nBcc"), hostile_text),
)
"""Bodies that are hostile in what they say and right in how they say it."""

MUTATIONS: list[Callable[[bytes, bytes, bytes, bytes], bytes]] = [
    lambda before, _within, _after, _new: before,
    lambda before, within, after, _new: before + within[4:] + after,
    lambda before, within, after, new: before + new + within + after,
    lambda before, within, after, new: before + new[:1] + within[1:] + after,
    lambda before, within, after, _new: before + within + within[:64] + after,
]
"""A cut, a gap, and something that is inserted, overwritten or repeated."""
mutations = st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=3)
few_bytes = st.binary(min_size=1, max_size=8)


@st.composite
def mutated(draw: Draw, original: bytes) -> bytes:
    for mutate in draw(mutations):
        first, last = sorted((draw(st.integers(0, len(original))), draw(st.integers(0, len(original)))))
        original = mutate(original[:first], original[first:last], original[last:], draw(few_bytes))
    return original


pairs = st.lists(st.tuples(names, values), max_size=4)
valid = usually([("form_type", "demo"), ("email", "ana@example.com")], st.just([]))


@st.composite
def composed(draw: Draw) -> tuple[str, bytes]:
    """A form whose names may repeat, with values of any kind."""
    fields = draw(valid) + draw(pairs)
    if draw(st.booleans()):
        return FORM, urlencode(fields, errors="surrogatepass").encode()
    dumps = json.JSONEncoder(ensure_ascii=draw(st.booleans())).encode
    text = ",".join(f"{dumps(name)}:{dumps(value)}" for name, value in fields)
    return JSON, b"{%s}" % text.encode(errors="surrogatepass")


SEEDS = [[(it.content_type or "", it.body) for it in rows.values() if it.body is not None] for rows in GROUPS.values()]
SEEDS += [[*BODIES.values()]]
seeds = st.sampled_from([*filter(None, SEEDS)]).flatmap(st.sampled_from)
bodies = (composed() | seeds).flatmap(lambda body: st.tuples(st.just(body[0]), usually(body[1], mutated(body[1]))))
"""Content type and body."""

CLIENT = "10.0.0.0"
"""Stands for the address of a client; whoever sends the request puts one there that has sent none before."""
FIELDS = (
    *(b"Host: ", b"Host: a, b", b"Host: <script>", b"Host: [::1]:99999", b"Host: \xff", b"X-Forwarded-For: ,,,"),
    *(b"X-Forwarded-For: 10.1.1.1\xff", b"X-Forwarded-Proto: javascript", b"X-Forwarded-Host: evil/<x>"),
    *(b"Connection: keep-alive, upgrade", b"Upgrade: h2c", b"Upgrade: websocket", b"Expect: 100-continue"),
    *(b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 99999999999999999999"),
    *(b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding:\x0bchunked"),
    *(b"Origin: \xff", b"Origin: a\r\nOrigin: b", b"Access-Control-Request-Method: \x7f", b"Cookie: a=\x01"),
    *(b'If-None-Match: "\xff', b"If-Modified-Since: x", b"Range: bytes=0-0", b"Content-Encoding: gzip"),
    *(b": x", b"X-A:\tb", b"X-A: b\nX-B: c", b"X-A: b\rX-B: c", b"X-" + b"a" * 9_000 + b": b"),
    *(b"Authorization: Basic ====", b"Path-Info: /x", b"Forwarded: for=1", b"X-Http-Method-Override: GET"),
)
LENGTH, CHUNKED = b"Content-Length: %d\r\n", b"Transfer-Encoding: chunked\r\n"
rows = st.sampled_from([[row for row in group.values() if len(row.body or b"") <= LIMIT] for group in GROUPS.values()])
more_fields = usually([], st.lists(st.sampled_from(FIELDS), max_size=2))
versions = usually(b"HTTP/1.1", st.sampled_from([b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"http/1.1", b"", b"RTSP/1.0"]))
contact = st.sampled_from(CONTACT)
methods = usually("", st.sampled_from(["G@T", "QUERY", "CONNECT", "A" * 40]))
line_ends = usually(b"\r\n", st.sampled_from([b"\n", b"\r"]))


@st.composite
def framed(draw: Draw, body: bytes) -> tuple[bytes, bytes]:
    """Header fields that frame a body, and the body."""
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    wrong = max(len(body) + draw(st.integers(-20, 20)), 0)
    framings = [(CHUNKED, chunked), (CHUNKED, draw(mutated(chunked))), (LENGTH % wrong, body)]
    framings += [(CHUNKED + LENGTH % 5, chunked), (b"", body)]
    return draw(st.sampled_from([(LENGTH % len(body), body)] * 2 + framings))


@st.composite
def requests(draw: Draw) -> bytes:
    row: Row = draw(rows.flatmap(st.sampled_from))
    headers = {"Host": "a", "X-Forwarded-For": CLIENT} | row.sent_headers
    target = row.target or draw(contact)
    line = f"{draw(methods) or row.method} {target} ".encode(errors="surrogateescape") + draw(versions)
    fields = [*(f"{name}: {value}".encode() for name, value in headers.items()), *draw(more_fields)]
    framing, body = draw(framed(row.body)) if row.body is not None else (b"", b"")
    request = b"%s\r\n%s\r\n%s\r\n%s" % (line, b"\r\n".join(fields), framing, body)
    return request.replace(b"\r\n", draw(line_ends))


MALFORMED = [
    *REQUESTS["400 http"].values(),
    *(request for name, request in REQUESTS["400 incomplete"].items() if name.startswith("broken")),
]
GARBAGE = (b"\r\n\r\n", b"GET", b"\x00" * 40, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00")
garbage = usually(b"", st.sampled_from(GARBAGE))
whole, malformed = requests(), st.sampled_from(MALFORMED)
either = strange.flatmap(lambda strange: malformed if strange else whole)
connections = st.lists(either, min_size=1, max_size=2).map(b"".join)
http = st.tuples(connections.flatmap(lambda sent: usually(sent, mutated(sent))), garbage).map(b"".join)
"""One connection's worth of requests, whole or broken."""
