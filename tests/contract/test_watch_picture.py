"""The picture of `make watch-demo`: what it is given can be seen in it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from docs import draw_watch
from docs.draw_watch import LEFT, RIGHT, Answer, Band, Curve, Panel, Span, Watch, draw
from examples.watch_demo import shorten

COMMITTED = Path(draw_watch.__file__).with_name("watch.svg")

RISING = Curve("rising", "blue", [(0, 0), (50, 3), (100, 6)])
FALLING = Curve("falling", "red", [(0, 4), (100, 0)])
NEVER = Curve("never", "amber", [(0, 0), (100, 0)])
WATCH = Watch(
    title="An outage",
    length=100,
    answers=[Answer("Is it over?", "Yes & no", good=True), Answer("Lost?", "Two", good=False)],
    outage=[Span(25, 50, "", "hangs"), Span(50, 75, "", "is gone")],
    bands=[Band("Mail check", "fails 0:30 to 1:00", [Span(30, 60, "firing")])],
    panels=[Panel("Forms", [RISING, FALLING, NEVER], stacked=True), Panel("Seconds", [RISING, NEVER], seconds=True)],
)


def drawn(watch: Watch, name: str, kind: str = "") -> Iterator[ET.Element]:
    """The elements of that name with that class."""
    for element in ET.fromstring(draw(watch)).iter(f"{{http://www.w3.org/2000/svg}}{name}"):  # noqa: S314 - it is ours
        if not kind or kind in element.get("class", "").split():
            yield element


def texts(watch: Watch) -> list[str | None]:
    return [element.text for element in drawn(watch, "text")]


def places(path: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path.get("d", ""))]


def x(second: float) -> float:
    return LEFT + (RIGHT - LEFT) * second / WATCH.length


def test_every_title_answer_and_name_can_be_read() -> None:
    assert {
        *("An outage", "Is it over?", "Yes & no", "Lost?", "Two", "Mail check", "fails 0:30 to 1:00"),
        *("hangs", "is gone", "Forms", "Seconds", "rising", "falling", "0:15", "1:30"),
    } <= set(texts(WATCH))


def test_a_screen_reader_says_the_answers() -> None:
    (title,) = drawn(WATCH, "title")

    assert title.text == "An outage. Is it over? Yes & no Lost? Two"


def test_the_outage_lies_behind_all_figures_at_its_time() -> None:
    shades = [
        {name: float(box.get(name, "")) for name in ("x", "y", "width", "height")}
        for box in drawn(WATCH, "rect", "outage")
    ]
    (bar,) = drawn(WATCH, "rect", "firing")
    lowest = max(y for path in drawn(WATCH, "path", "line") for _, y in places(path))

    assert [(shade["x"], shade["width"]) for shade in shades] == [(x(25), x(50) - x(25)), (x(50), x(75) - x(50))]
    for shade in shades:
        assert shade["y"] < float(bar.get("y", ""))
        assert shade["y"] + shade["height"] > lowest


def test_a_state_has_its_time_and_its_colour() -> None:
    (bar,) = drawn(WATCH, "rect", "firing")

    assert (float(bar.get("x", "")), float(bar.get("width", ""))) == (x(30), x(60) - x(30))


def test_a_line_rises_with_its_values_and_seconds_by_their_order() -> None:
    linear = replace(WATCH, panels=[Panel("Lines", [RISING])])
    logarithmic = replace(
        WATCH, panels=[Panel("Seconds", [replace(RISING, points=[(0, 0.01), (50, 0.1), (100, 1)])], seconds=True)]
    )

    for watch in (linear, logarithmic):
        *_, line = drawn(watch, "path", "line")
        assert [place[0] for place in places(line)] == [x(0), x(50), x(100)]
        first, second = (before[1] - after[1] for before, after in pairwise(places(line)))
        assert first > 0
        assert first == pytest.approx(second, abs=0.11)  # the coordinates are rounded


def test_an_area_stands_on_those_before_it() -> None:
    lower, upper = (places(path) for path in drawn(WATCH, "path", "area"))
    rising = lower[: len(RISING.points)]

    assert [place[0] for place in rising] == [x(0), x(50), x(100)]
    assert upper[len(rising) :] == rising[::-1]
    assert upper[0][1] < rising[0][1]


def test_what_is_always_zero_is_said_and_not_drawn() -> None:
    assert texts(WATCH).count("never: 0") == 2
    assert not list(drawn(WATCH, "path", "amber"))


def test_a_figure_that_prometheus_does_not_have_is_no_zero() -> None:
    assert texts(replace(WATCH, panels=[Panel("Empty", [Curve("none", "blue", [])])])).count("none: no data") == 1


def test_a_straight_line_keeps_its_ends_only() -> None:
    level = Curve("level", "blue", [(second, 2) for second in range(101)])

    (*_, line) = drawn(replace(WATCH, panels=[Panel("Lines", [level])]), "path", "line")

    assert len(places(line)) == 2


def test_the_committed_picture_is_of_this_drawing() -> None:
    root = ET.fromstring(COMMITTED.read_text())  # noqa: S314
    style = root.find("{http://www.w3.org/2000/svg}style")

    assert style is not None
    assert style.text == draw_watch.STYLE, "make watch-demo; cp build/watch-demo.svg docs/watch.svg"


def test_minutes_of_the_rules_become_seconds_and_names_stay() -> None:
    rules = "      - record: a:b:increase5m\n        expr: increase(a[10m] offset 5m) > 15 * 60\n        for: 5m\n"

    assert shorten(rules) == (
        "      - record: a:b:increase5m\n        expr: increase(a[10s] offset 5s) > 15 * 1\n        for: 5s\n"
    )
