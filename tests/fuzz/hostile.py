"""Strategies for what nobody who means well would send: raw bodies and raw HTTP.

Many begin with a row of a table that says what it is answered, and change it.
"""

from __future__ import annotations

import json
from typing import TypeVar
from urllib.parse import urlencode

from hypothesis import strategies as st

from tests.api.exchanges import CONTACT, FORM, GROUPS, JSON, LIMIT, Row
from tests.attack.inputs import BODIES
from tests.contact.test_composer import INJECTIONS
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


typed = st.sampled_from([*INJECTIONS.values(), "a" * 998, "é" * 199])
texts = (
    typed | st.text(max_size=60) | st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Mn", "Cs"]), max_size=20)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 80), 1 << 80) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
pairs = st.lists(st.tuples(texts | st.sampled_from(sorted(contact_body())), values), max_size=4)
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


few_bytes = st.binary(min_size=1, max_size=8)


@st.composite
def mutated(draw: Draw, original: bytes) -> bytes:
    """Cut off, or with a gap, an insertion or a repetition."""
    first, last = sorted((draw(st.integers(0, len(original))), draw(st.integers(0, len(original)))))
    before, within, after = original[:first], original[first:last], original[last:]
    pieces = [(), (within[4:], after), (draw(few_bytes), within, after), (within, within[:64], after)]
    return before + b"".join(draw(st.sampled_from(pieces)))


ROWS = [[row for row in group.values() if len(row.body or b"") <= LIMIT] for group in GROUPS.values()]
SEEDS = [
    *BODIES.values(),
    *((row.content_type or "", row.body) for rows in ROWS for row in rows if row.body is not None),
]
bodies = (composed() | st.sampled_from(SEEDS)).flatmap(
    lambda body: st.tuples(st.just(body[0]), usually(body[1], mutated(body[1])))
)
"""Content type and body."""

CLIENT = "10.0.0.0"
"""Stands for the address of a client; whoever sends the request puts one there that has sent none before."""
FIELDS = (
    *(b"Host: ", b"Host: <script>", b"Host: [::1]:99999", b"Host: \xff", b"X-Forwarded-For: ,,,", b": x"),
    *(b"X-Forwarded-For: \xff", b"X-Forwarded-Proto: javascript", b"X-Forwarded-Host: evil/<x>", b"Upgrade: h2c"),
    *(b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 99999999999999999999", b"Expect: 100-continue"),
    *(b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding:\x0bchunked", b"Origin: a\r\nOrigin: b"),
    *(b'If-None-Match: "\xff', b"X-A: b\nX-B: c", b"X-A: b\rX-B: c"),
)
LENGTH, CHUNKED = b"Content-Length: %d\r\n", b"Transfer-Encoding: chunked\r\n"
rows = st.sampled_from(ROWS).flatmap(st.sampled_from)
more_fields = usually([], st.lists(st.sampled_from(FIELDS), max_size=2))
versions = usually(b"HTTP/1.1", st.sampled_from([b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b""]))
contact = st.sampled_from(CONTACT)
line_ends = usually(b"\r\n", st.sampled_from([b"\n", b"\r"]))


@st.composite
def framed(draw: Draw, body: bytes) -> bytes:
    """The header fields that frame a body, and the body."""
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    wrong = max(len(body) + draw(st.integers(-20, 20)), 0)
    framings = [(LENGTH % len(body), body), (LENGTH % wrong, body), (CHUNKED, chunked), (CHUNKED + LENGTH % 5, chunked)]
    return b"%s\r\n%s" % draw(st.sampled_from(framings))


@st.composite
def requests(draw: Draw) -> bytes:
    row: Row = draw(rows)
    headers = {"Host": "a", "X-Forwarded-For": CLIENT} | row.sent_headers
    line = f"{row.method} {row.target or draw(contact)} ".encode(errors="surrogateescape") + draw(versions)
    fields = [line, *(f"{name}: {value}".encode() for name, value in headers.items()), *draw(more_fields)]
    rest = draw(framed(row.body)) if row.body is not None else b"\r\n"
    return (b"\r\n".join(fields) + b"\r\n" + rest).replace(b"\r\n", draw(line_ends))


malformed = st.sampled_from([sent for requests in REQUESTS.values() for sent in requests.values()])
whole = requests()
either = strange.flatmap(lambda strange: malformed if strange else whole)
connections = st.lists(either, min_size=1, max_size=2).map(b"".join)
http = connections.flatmap(lambda sent: usually(sent, mutated(sent)))
"""One connection's worth of requests, whole or broken."""
