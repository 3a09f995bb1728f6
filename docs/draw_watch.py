"""Draws some minutes of the service: a verdict, the alerts and the figures, all on one time axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from docs.svg import box, number, picture, text

Points = Sequence[tuple[float, float]]
"""Seconds since the beginning, each with a value."""


@dataclass(frozen=True)
class Answer:
    """A question of whoever is woken, with the answer; ``good`` is whether it lets them sleep again."""

    question: str
    words: str
    good: bool


@dataclass(frozen=True)
class Span:
    """A part of the time, from second to second; ``kind`` is ok, pending or firing, and "" in an outage."""

    begin: float
    end: float
    kind: str
    name: str = ""


@dataclass(frozen=True)
class Band:
    """A state over the time: an alert or a check."""

    name: str
    words: str
    spans: Sequence[Span]


@dataclass(frozen=True)
class Curve:
    """One series; ``colour`` is one of those of the style sheet."""

    name: str
    colour: str
    points: Points
    dashed: bool = False

    @property
    def highest(self) -> float:
        """The greatest value."""
        return max((value for _, value in self.points), default=0)


@dataclass(frozen=True)
class Panel:
    """Series with a common unit, as areas on top of each other or as lines; ``seconds`` have a logarithmic axis."""

    title: str
    curves: Sequence[Curve]
    stacked: bool = False
    seconds: bool = False


@dataclass(frozen=True)
class Watch:
    """All that the picture shows."""

    title: str
    length: float
    """Seconds from the beginning to the end."""
    answers: Sequence[Answer]
    outage: Sequence[Span]
    bands: Sequence[Band]
    panels: Sequence[Panel]


WIDTH, SCALE = 480, 1.3
"""Narrow, so that a phone shows it at nearly its own size. A wide page shows it larger."""
LEFT, RIGHT, MARGIN = 52, 452, 16
"""Edges of the time axis, and the margin of the texts."""
PLOT = 70
"""Height of the curves of one panel."""
LABELS = 8
"""The most labels of the time axis, without the first."""
LINE = 19
"""Height of a line of text."""
LEGEND = 110
"""Width of an entry in a legend."""
SMALLEST, LARGEST = 1e-4, 20.0
"""Seconds at the ends of a logarithmic axis."""

STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; stroke: #d1d9e0; }
  .title { font-size: 17px; font-weight: 600; }
  .name { font-weight: 600; }
  .mark { font-size: 12px; font-weight: 700; fill: #ffffff; text-anchor: middle; }
  .note, .tick { fill: #59636e; }
  .note, .tick, .legend { font-size: 12px; }
  .tick, .end { text-anchor: end; }
  .middle { text-anchor: middle; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .track { fill: #eff2f5; }
  .outage { fill: #cf222e; fill-opacity: 0.09; }
  .edge { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 3 3; }
  .alarm { fill: #cf222e; font-weight: 600; }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
  .area { stroke: none; fill-opacity: 0.85; }
  .ok { --c: #1a7f37; } .pending { --c: #d4a72c; } .firing { --c: #cf222e; }
  .blue { --c: #0969da; } .red { --c: #cf222e; } .amber { --c: #d4a72c; } .grey { --c: #818b98; }
  .purple { --c: #8250df; }
  .fill { fill: var(--c); } .line { stroke: var(--c); }
  .dashed { stroke-width: 1.4; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; stroke: #3d444d; }
    .note, .tick { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .track { fill: #212830; }
    .outage { fill: #f85149; fill-opacity: 0.16; }
    .edge { stroke: #f85149; }
    .alarm { fill: #ff7b72; }
    .mark { fill: #0d1117; }
    .ok { --c: #3fb950; } .pending { --c: #d29922; } .firing { --c: #f85149; }
    .blue { --c: #4493f8; } .red { --c: #f85149; } .amber { --c: #d29922; } .grey { --c: #9198a1; }
    .purple { --c: #ab7df8; }
  }
  @media (max-width: 420px) {
    text { font-size: 15px; } .title { font-size: 18px; }
    .note, .tick, .legend { font-size: 14px; }
  }
"""


def draw(watch: Watch) -> str:
    """The picture as SVG; it suits light and dark pages, because it brings its own background."""
    drawing = _Drawing(watch)
    top = MARGIN + 18
    elements = [text("title", MARGIN, top, watch.title)]
    for answer in watch.answers:
        top += 26
        elements += _answer(answer, top)
        top += LINE
    top += 52
    times = top
    top += 8
    beginning = top
    figures: list[str] = []
    for band in watch.bands:
        figures += drawing.band(band, top)
        top += 36
    top += 12
    for panel in watch.panels:
        figures += drawing.panel(panel, top)
        top += 2 * LINE + PLOT + 26
    elements += drawing.outage(times - LINE - 4, beginning, top - 14)
    elements += drawing.times(times)
    elements += figures
    elements += drawing.times(top + 2)
    title = " ".join([watch.title + ".", *(f"{answer.question} {answer.words}" for answer in watch.answers)])
    return picture(title, STYLE, elements, width=WIDTH, height=top + 2 + MARGIN, scale=SCALE)


def _answer(answer: Answer, top: float) -> Iterator[str]:
    kind, mark = ("ok", "✓") if answer.good else ("firing", "!")
    yield f'<circle class="fill {kind}" cx="{MARGIN + 8}" cy="{top - 4}" r="8"/>'
    yield text("mark", MARGIN + 8, top, mark)
    yield text("name", MARGIN + 24, top, answer.question)
    yield text("", MARGIN + 24, top + LINE, answer.words)


class _Drawing:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def _x(self, second: float) -> float:
        return LEFT + (RIGHT - LEFT) * min(max(second / self._watch.length, 0), 1)

    def times(self, baseline: float) -> Iterator[str]:
        """The labels of the time axis."""
        for second in range(0, math.floor(self._watch.length) + 1, _step(self._watch.length)):
            yield text("note middle", self._x(second), baseline, clock(second))

    def outage(self, baseline: float, top: float, bottom: float) -> Iterator[str]:
        """The outage behind all figures, from the first to the last, with the name of each of its parts above."""
        yield text("legend", MARGIN, baseline, "Mail server")
        for span in self._watch.outage:
            left, right = self._x(span.begin), self._x(span.end)
            yield box("outage", left, top, right - left, bottom - top, round_by=0)
            for edge in (left, right):
                yield f'<path class="edge" d="M{number(edge)} {top}V{bottom}"/>'
            yield text("legend alarm middle", (left + right) / 2, baseline, span.name)

    def band(self, band: Band, top: float) -> Iterator[str]:
        """The name and the words of a band, and its spans below."""
        yield text("legend", MARGIN, top + 15, band.name)
        yield text("note end", RIGHT, top + 15, band.words)
        yield box("track", LEFT, top + 21, RIGHT - LEFT, 8, round_by=2)
        for span in band.spans:
            left, right = self._x(span.begin), self._x(span.end)
            yield box(f"fill {span.kind}", left, top + 21, max(right - left, 2), 8, round_by=2)

    def panel(self, panel: Panel, top: float) -> Iterator[str]:
        """The title, the legend and the curves of a panel."""
        yield text("name", MARGIN, top + 16, panel.title)
        for place, curve in enumerate(panel.curves):
            yield from self._legend(curve, MARGIN + place * LEGEND, top + LINE + 17, as_box=panel.stacked)
        first = top + 2 * LINE + 8
        scale = _Logarithmic(first) if panel.seconds else _Linear(first, _highest(panel))
        for value, label in scale.ticks():
            yield f'<path class="grid" d="M{LEFT} {number(scale.y(value))}H{RIGHT}"/>'
            yield text("tick", LEFT - 6, scale.y(value) + 4, label)
        yield from self._areas(panel, scale) if panel.stacked else self._lines(panel, scale)

    def _legend(self, curve: Curve, left: float, baseline: float, *, as_box: bool) -> Iterator[str]:
        """The colour and the name of a curve. One that is always 0 says so and is not drawn."""
        if not curve.highest:
            yield text("note", left, baseline, f"{curve.name}: {0 if curve.points else 'no data'}")
            return
        if as_box:
            yield box(f"fill {curve.colour}", left, baseline - 9, 10, 10, round_by=2)
        else:
            yield f'<path class="{_line(curve)}" d="M{number(left)} {number(baseline - 4)}h12"/>'
        yield text("legend", left + 16, baseline, curve.name)

    def _lines(self, panel: Panel, scale: _Linear | _Logarithmic) -> Iterator[str]:
        for curve in panel.curves:
            if curve.highest:
                yield f'<path class="{_line(curve)}" d="M{self._path(curve.points, scale)}"/>'

    def _areas(self, panel: Panel, scale: _Linear | _Logarithmic) -> Iterator[str]:
        """Each curve on top of those before it."""
        below: dict[float, float] = {}
        for curve in panel.curves:
            if not curve.highest:
                continue
            values = dict(curve.points)
            seconds = sorted(below.keys() | values.keys())
            above = {second: below.get(second, 0) + values.get(second, 0) for second in seconds}
            there = self._path(list(above.items()), scale)
            back = self._path([(second, below.get(second, 0)) for second in reversed(seconds)], scale)
            yield f'<path class="area fill {curve.colour}" d="M{there}L{back}z"/>'
            below = above

    def _path(self, points: Points, scale: _Linear | _Logarithmic) -> str:
        places = [(number(self._x(at)), number(scale.y(value))) for at, value in points]
        # What a straight line passes anyhow is left out.
        kept = [
            place
            for place, before, after in zip(places, [None, *places], [*places[1:], None], strict=False)
            if not (before and after and before[1] == place[1] == after[1])
        ]
        return "L".join(f"{x} {y}" for x, y in kept)


class _Linear:
    def __init__(self, top: float, highest: float) -> None:
        self._top = top
        self._highest = highest

    def y(self, value: float) -> float:
        return self._top + PLOT * (1 - value / self._highest)

    def ticks(self) -> Iterator[tuple[float, str]]:
        for value in (0, self._highest / 2, self._highest):
            yield value, f"{value:,.4g}"


class _Logarithmic:
    def __init__(self, top: float) -> None:
        self._top = top

    def y(self, value: float) -> float:
        share = math.log(min(max(value, SMALLEST), LARGEST) / SMALLEST) / math.log(LARGEST / SMALLEST)
        return self._top + PLOT * (1 - share)

    def ticks(self) -> Iterator[tuple[float, str]]:
        return iter(((0.001, "1 ms"), (0.1, "0.1 s"), (10.0, "10 s")))


def _line(curve: Curve) -> str:
    return f"line {curve.colour}" + " dashed" * curve.dashed


def clock(second: float) -> str:
    """A time since the beginning in minutes and seconds."""
    minutes, seconds = divmod(round(second), 60)
    return f"{minutes}:{seconds:02}"


def _step(length: float) -> int:
    """Seconds between two labels of the time axis."""
    return next(step for step in (5, 10, 15, 30, 60, 300, 3600) if length <= LABELS * step)


def _highest(panel: Panel) -> float:
    """The end of a linear axis: a round number that the curves do not exceed."""
    if panel.stacked:
        seconds = {at for curve in panel.curves for at, _ in curve.points}
        each = [dict(curve.points) for curve in panel.curves]
        most = max((sum(values.get(second, 0) for values in each) for second in seconds), default=0)
    else:
        most = max(curve.highest for curve in panel.curves)
    power = 10 ** math.floor(math.log10(most)) if most > 0 else 1
    return float(next(factor * power for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if factor * power >= most))
