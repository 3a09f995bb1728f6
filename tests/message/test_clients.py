"""The message as mail clients show it: what a reader needs is there in each of them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from tests.message.clients import CLIENTS, NO_MEDIA_QUERIES, NO_STYLE
from tests.message.pages import ARABIC, HEBREW, LINES, LONG_WORDS, RICH, html_of
from tests.message.reader import VIEWPORTS, VIEWS, Place, Reader

FIELDS = {
    "Nombre": HEBREW,
    "Empresa": ARABIC,
    "Correo electrónico": RICH["email"],
    "Teléfono": RICH["telefono"],
    "Tema": RICH["tema"],
    "Tipo de colaboración": RICH["tipo_de_partner"],
}


def ends(line: str) -> list[str]:
    """The first and the last word of a line, if there is any."""
    words = re.findall(r"\w{4,}", line)
    return words[:1] + words[-1:]


def are_aligned(places: list[Place]) -> bool:
    return max(place.left for place in places) - min(place.left for place in places) <= 1


class TestEveryClient:
    def test_each_line_of_the_message_stands_on_a_line_of_its_own(self, letter: Reader) -> None:
        lines = [[letter.place(word) for word in ends(line)] for line in LINES if ends(line)]

        for (_, end), (beginning, _) in pairwise(lines):
            assert beginning.is_below(end)

    def test_the_lines_of_the_message_begin_below_each_other(self, letter: Reader) -> None:
        beginnings = [letter.place(line.split()[0]) for line in LINES if re.match(r"\w{4}", line)]

        assert len(beginnings) > 5
        assert are_aligned(beginnings)

    def test_paragraphs_stand_apart(self, letter: Reader) -> None:
        line = letter.place("Cuota").top - letter.place("Plan").top

        assert letter.place("Somos").top - letter.place("días").top > 1.5 * line
        assert letter.place("Quedo").top - letter.place("9731").top > 2.5 * line

    def test_spaces_keep_their_width(self, letter: Reader) -> None:
        space = letter.place("anual").left - letter.place("Cuota").right

        assert letter.place("básico").left - letter.place("Plan").right == pytest.approx(5 * space, abs=1)
        assert letter.place("también").left - letter.place("cuánto").left == pytest.approx(4 * space, abs=1)
        assert letter.place("cuánto").left - letter.place("Querríamos").left > 3 * space

    def test_a_label_stands_beside_or_above_its_value(self, letter: Reader) -> None:
        labels = [letter.places(label)[0] for label in FIELDS]
        values = [letter.places(value)[0] for value in FIELDS.values()]

        for label, value in zip(labels, values, strict=True):
            assert is_beside(label, value) or is_above(label, value)
        assert are_aligned(labels)
        assert are_aligned(values)

    def test_no_text_is_in_the_font_of_a_message_without_styles(self, letter: Reader) -> None:
        assert [font for font in letter.fonts() if "Times" in font or "sans-serif" not in font] == []

    def test_the_address_and_the_telephone_number_are_links(self, letter: Reader) -> None:
        links = letter.links()

        assert links[RICH["email"]].startswith(f"mailto:{RICH['email'].replace('+', '%2B')}?subject=Re")
        assert links[RICH["telefono"]] == "tel:+59829000000"


def is_beside(label: Place, value: Place) -> bool:
    return label.right < value.left and abs(label.top - value.top) < 0.5 * label.height


def is_above(label: Place, value: Place) -> bool:
    return value.is_below(label) and value.top - label.bottom < label.height


@pytest.mark.parametrize("client", [name for name, client in CLIENTS.items() if client.knows_dark_query])
def test_page_card_and_message_each_have_a_light_and_a_dark_colour(reader: Reader, client: str) -> None:
    reader.open(html_of(RICH), CLIENTS[client])

    reader.choose_theme("light", CLIENTS[client])
    light = reader.backgrounds()
    reader.choose_theme("dark", CLIENTS[client])
    dark = reader.backgrounds()

    assert (len(light), len(dark)) == (3, 3)
    assert min(map(min, light)) > 200
    assert max(map(max, dark)) < 80


@pytest.mark.parametrize(
    "client",
    [
        name
        for name, client in CLIENTS.items()
        if NO_STYLE not in client.losses and NO_MEDIA_QUERIES not in client.losses
    ],
)
def test_a_phone_that_knows_media_queries_shows_a_label_above_its_value(reader: Reader, client: str) -> None:
    reader.open(html_of(RICH), CLIENTS[client], "phone")

    assert is_above(reader.place("Teléfono"), reader.place(RICH["telefono"]))


@pytest.mark.parametrize(("client", "layout"), [view for view in VIEWS if CLIENTS[view[0]].breaks_words])
@pytest.mark.parametrize("changes", [RICH, LONG_WORDS], ids=["rich", "long words"])
def test_nothing_goes_past_the_edge_of_the_screen(
    reader: Reader, changes: dict[str, Any], client: str, layout: str
) -> None:
    reader.open(html_of(changes), CLIENTS[client], layout)

    assert reader.rightmost() <= VIEWPORTS[layout]["width"]
