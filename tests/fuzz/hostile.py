"""Strategies for bodies that nobody who means well would send. Many begin with a row of the table of exchanges."""

import json
from typing import TypeVar
from urllib.parse import urlencode

from hypothesis import strategies as st

from tests.api.exchanges import FORM, GROUPS, JSON, LIMIT
from tests.attack.inputs import BODIES
from tests.contact.test_composer import INJECTIONS
from tests.factories import contact_body

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


SEEDS = [
    *BODIES.values(),
    *(
        (row.content_type or "", row.body)
        for group in GROUPS.values()
        for row in group.values()
        if row.body is not None and len(row.body) <= LIMIT
    ),
]
bodies = (composed() | st.sampled_from(SEEDS)).flatmap(
    lambda body: st.tuples(st.just(body[0]), usually(body[1], mutated(body[1])))
)
"""Content type and body."""
