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


VISIBLE = {
    **{f"seen: {name}": (text, text) for name, text in WHOLE.items()},
    **{
        f"direction {control!a} in {text}": (f"{control}{text[0]}{control}{text[1:]}{control}", text)
        for control in DIRECTION_CONTROLS
        for text in ("ab", "שלם", "👨👩")
    },
    **{f"{name} between letters": (f"{it}Pay{it}Pal{it * 2}", "PayPal") for name, it in INVISIBLE.items()},
    **{f"nothing but {name}": (f" {it}\n{it * 3}\u3000", "") for name, it in INVISIBLE.items()},
    **{
        f"shapes nothing: {text!a}": (text, left)
        for text, left in {
            "\u200d👩": "👩",
            "a\u200dש": "aש",
            "a\ufe0f\u200db": "ab",
            "\u200b\ufe0f\u200d": "",
            "🏴\U000e0061\U000e0062\U000e007f": "🏴",
            "葛\U000e0100飾区": "葛飾区",
            "1\ufe0f": "1",
        }.items()
    },
    **{f"five of {it!a}": (f"👨{it * 5}👩", f"👨{it}👩") for it in ("\u200c", "\u200d", "\ufe0f")},
    **{f"marks on {it!a}": (f"{it}\u0338\u0301b", f"{it}b") for it in ("", " ", "\n", "a\u3000")},
    **{f"line break {it!a}": (f"uno{it}{it}dos", "uno\n\ndos") for it in LINE_BREAKS},
    **{f"control {it!a}": (f"a{it}b", "a b") for it in ("\0", "\x1b", "\x7f", "\x9b", "\ufdd0", "\uffff")},
    **{f"tower of {name}": (f"a{tower}b", f"a{tower[:6]}b") for name, tower in TOWERS.items()},
}
ONE_LINE = {
    **{
        f"space {it!a}": (f"{it}uno{it}dos{it}", "uno dos")
        for it in (*LINE_BREAKS, "\t", "\0", " \n ", "\u3000\xa0", "\u200b \u200b")
    },
    **{
        f"{it!a} behind {space!a}": (f"{space}{it}{space}", "")
        for space in ("\u1680", "\u2003", "\u3000")
        for it in ("\u200c", "\u200d", "\ufe0f")
    },
    "what joins letters": ("u\u200bno", "uno"),
}
DIRECTIONS = {
    "Comercio Ejemplo": "",
    "Ñúñez 支付": "",
    "שלם": "rtl",
    "مرحبا": "rtl",
    "+٩٦٦ 5": "ltr",
    "123 (שלם)": "rtl",
    "Tienda שלם": "ltr",
    "שלם Tienda": "rtl",
    "\U0001e900\U0001e901": "rtl",
}
"""The first letter decides where a line has right-to-left text."""
OF_TEN = {
    **{text: text for text in ("", "uno dos", "x" * 10, "uno dos 10")},
    "uno dos tres": "uno dos…",
    "uno dos 10 11": "uno dos…",
    "uno dos 1 2": "uno dos 1…",
    "palabralarga": "palabrala…",
    "a palabralarga": "a…",
}
"""Texts, and what ten characters show of them."""


@pytest.mark.parametrize(("text", "left"), VISIBLE.values(), ids=VISIBLE)
def test_only_what_can_be_seen_is_left(text: str, left: str) -> None:
    assert visible(text) == left


def test_every_format_character_is_invisible_or_drawn() -> None:
    left = {it for it in range(0x110000) if unicodedata.category(chr(it)) == "Cf" and visible(chr(it))}

    # Signs of Arabic, Syriac, Kaithi and Egyptian that have a form of their own.
    assert {it >> 8 for it in left} == {0x06, 0x07, 0x08, 0x110, 0x134}


@pytest.mark.parametrize(("text", "line"), ONE_LINE.values(), ids=ONE_LINE)
def test_one_line_has_single_spaces(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(("line", "expected"), DIRECTIONS.items(), ids=DIRECTIONS)
def test_a_line_from_right_to_left_stands_apart(line: str, expected: str) -> None:
    assert direction(line) == expected
    assert isolated(line) == (f"\u2068{line}\u2069" if expected else line)


@pytest.mark.parametrize(("text", "shortened"), OF_TEN.items(), ids=OF_TEN)
def test_a_cut_is_at_a_word_if_there_is_one(text: str, shortened: str) -> None:
    assert shorten(text, 10) == shortened
