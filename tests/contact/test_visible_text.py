"""The text of a visitor: everything that can be seen is left in it, and nothing invisible."""

from __future__ import annotations

import unicodedata

import pytest

from app.contact.visible_text import direction, isolated, one_line, shorten, visible

LINE_BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]

DIRECTION_CONTROLS = [*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u200e", "\u200f", "\u061c"]

INVISIBLE = {
    "soft hyphen": "\xad",
    "combining grapheme joiner": "\u034f",
    "Hangul filler": "\u3164",
    "half-width Hangul filler": "\uffa0",
    "initial consonant filler": "\u115f",
    "Khmer vowel": "\u17b4",
    "Mongolian vowel separator": "\u180e",
    "Mongolian variation selector": "\u180f",
    "zero-width space": "\u200b",
    "zero-width non-joiner": "\u200c",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "invisible separator": "\u2063",
    "Braille blank": "\u2800",
    "variation selector": "\ufe0f",
    "byte order mark": "\ufeff",
    "interlinear annotation": "\ufff9",
    "object replacement character": "\ufffc",
    "musical null notehead": "\U0001d159",
    "language tag": "\U000e0001",
    "tag letter": "\U000e0041",
    "ideographic variation selector": "\U000e0100",
    "Khitan filler": "\U00016fe4",
    "full blank of hieroglyphs": "\U00013441",
    "half blank of hieroglyphs": "\U00013442",
}

WHOLE = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! «señal» €",
    "letters of two code points": "n\u0303 a\u0301",
    "Arabic": "مرحبا، أريد عرضًا توضيحيًا",
    "Hebrew with points": "שָׁלוֹם",
    "Persian with a non-joiner": "می\u200cخواهم",  # noqa: RUF001 - no Latin letters
    "Hindi with a joiner": "क्\u200dष",
    "a family": "👨\u200d👩\u200d👧",
    "an arrow": "↔\ufe0f",
    "a heart on fire": "❤\ufe0f\u200d🔥",
    "a person with a skin": "👩🏽\u200d💻",
    "a flag of letters": "🇺🇾",
    "Malayalam": "അവന്\u200d",
    "Malayalam in parentheses": "(മോഹന്\u200d)",
    "Kurdish": "کوردستانه\u200c له",
    "a Persian abbreviation": "۱۴۴۵ ه\u200d. ق.",  # noqa: RUF001 - no Latin letters
    "Bengali": "হঠাত্\u200c করে",
    "spaces": " a  b   c  ",
    "tabs": "a\t\tb",
}
MARKS = "\u0301\u0489\u05b0\u0610\u064e\u06d6\u0e34\u0e48\u1ab0\u1dc0\u20dd\ua66f\ua674\ufe20"
"""One of each range of marks."""
TOWERS = {
    **{ascii(mark): mark * 500 for mark in MARKS},
    "different marks": "\u0301\u0489\u20dd\u0e48" * 125,
    "marks with invisible characters between them": ("\u0301" * 6 + "\u200b\u200d") * 80,
}


class TestVisible:
    @pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
    def test_what_can_be_seen_stays_as_it_is(self, text: str) -> None:
        assert visible(text) == text

    @pytest.mark.parametrize("control", DIRECTION_CONTROLS, ids=ascii)
    @pytest.mark.parametrize("text", ["ab", "שלם", "👨👩"])
    def test_controls_of_the_direction_go(self, text: str, control: str) -> None:
        assert visible(f"{control}{text[0]}{control}{text[1:]}{control}") == text

    @pytest.mark.parametrize("character", INVISIBLE.values(), ids=INVISIBLE)
    def test_what_is_invisible_between_letters_goes(self, character: str) -> None:
        assert visible(f"{character}Pay{character}Pal{character * 2}") == "PayPal"

    @pytest.mark.parametrize("character", INVISIBLE.values(), ids=INVISIBLE)
    def test_text_of_nothing_visible_is_empty(self, character: str) -> None:
        assert visible(f" {character}\n{character * 3}\u3000") == ""

    def test_every_format_character_is_invisible_or_drawn(self) -> None:
        left = [
            character
            for character in map(chr, range(0x110000))
            if unicodedata.category(character) == "Cf" and visible(character)
        ]

        # Signs of Arabic, Syriac, Kaithi and Egyptian that have a form of their own.
        assert {ord(character) >> 8 for character in left} == {0x06, 0x07, 0x08, 0x110, 0x134}

    @pytest.mark.parametrize(
        ("text", "left"),
        [
            ("\u200d👩", "👩"),
            ("a\u200dש", "aש"),
            ("a\ufe0f\u200db", "ab"),
            ("\u200b\ufe0f\u200d", ""),
            ("🏴\U000e0061\U000e0062\U000e007f", "🏴"),
            ("葛\U000e0100飾区", "葛飾区"),
            ("1\ufe0f", "1"),
        ],
        ids=ascii,
    )
    def test_joiners_and_selectors_that_shape_nothing_go(self, text: str, left: str) -> None:
        assert visible(text) == left

    @pytest.mark.parametrize("character", ["\u200c", "\u200d", "\ufe0f"], ids=ascii)
    def test_of_several_joiners_or_selectors_one_stays(self, character: str) -> None:
        assert visible(f"👨{character * 5}👩") == f"👨{character}👩"

    @pytest.mark.parametrize("before", ["", " ", "\n", "a\u3000"], ids=ascii)
    def test_marks_on_no_letter_go(self, before: str) -> None:
        assert visible(f"{before}\u0338\u0301b") == f"{before}b"

    @pytest.mark.parametrize("line_break", LINE_BREAKS, ids=ascii)
    def test_the_line_breaks_of_any_system_become_one(self, line_break: str) -> None:
        assert visible(f"uno{line_break}{line_break}dos") == "uno\n\ndos"

    @pytest.mark.parametrize("control", ["\0", "\x1b", "\x7f", "\x9b", "\ufdd0", "\uffff"], ids=ascii)
    def test_other_controls_become_spaces(self, control: str) -> None:
        assert visible(f"a{control}b") == "a b"

    @pytest.mark.parametrize("tower", TOWERS.values(), ids=TOWERS)
    def test_a_tower_of_marks_does_not_reach_other_lines(self, tower: str) -> None:
        assert visible(f"a{tower}b") == f"a{tower[:6]}b"


class TestOneLine:
    @pytest.mark.parametrize("space", [*LINE_BREAKS, "\t", "\0", " \n ", "\u3000\xa0", "\u200b \u200b"], ids=ascii)
    def test_white_space_becomes_one_space(self, space: str) -> None:
        assert one_line(f"{space}uno{space}dos{space}") == "uno dos"

    @pytest.mark.parametrize("space", ["\u1680", "\u2003", "\u3000"], ids=ascii)
    @pytest.mark.parametrize("follower", ["\u200c", "\u200d", "\ufe0f"], ids=ascii)
    def test_a_joiner_or_selector_behind_a_space_is_invisible(self, space: str, follower: str) -> None:
        assert one_line(f"{space}{follower}{space}") == ""

    def test_what_joins_letters_leaves_no_space(self) -> None:
        assert one_line("u\u200bno") == "uno"


class TestDirection:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("Comercio Ejemplo", ""),
            ("Ñúñez 支付", ""),
            ("שלם", "rtl"),
            ("مرحبا", "rtl"),
            ("+٩٦٦ 5", "ltr"),
            ("123 (שלם)", "rtl"),
            ("Tienda שלם", "ltr"),
            ("שלם Tienda", "rtl"),
            ("\U0001e900\U0001e901", "rtl"),
        ],
    )
    def test_the_first_letter_decides_where_a_line_has_right_to_left_text(self, line: str, expected: str) -> None:
        assert direction(line) == expected
        assert isolated(line) == (f"\u2068{line}\u2069" if expected else line)


class TestShorten:
    @pytest.mark.parametrize("text", ["", "uno dos", "x" * 10, "uno dos 10"])
    def test_what_fits_stays_whole(self, text: str) -> None:
        assert shorten(text, 10) == text

    @pytest.mark.parametrize(
        ("text", "shortened"),
        [
            ("uno dos tres", "uno dos…"),
            ("uno dos 10 11", "uno dos…"),
            ("uno dos 1 2", "uno dos 1…"),
            ("palabralarga", "palabrala…"),
            ("a palabralarga", "a…"),
        ],
    )
    def test_the_cut_is_at_a_word_if_there_is_one(self, text: str, shortened: str) -> None:
        assert shorten(text, 10) == shortened
