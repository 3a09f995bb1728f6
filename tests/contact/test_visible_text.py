"""The text of a visitor: everything that can be seen is left in it, and nothing invisible."""

import unicodedata

import pytest

from app.contact.visible_text import direction, isolated, one_line, shorten, visible

LINE_BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
DIRECTIONS = [*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A)), "\u200e", "\u200f", "\u061c"]
INVISIBLE = "\xad\u034f\u3164\uffa0\u115f\u17b4\u180e\u200b\u200c\u200d\u2060\u2063\u2800\ufe0f\ufeff\ufff9\ufffc"
INVISIBLE += "\U0001d159\U000e0001\U000e0041\U000e0100\U00016fe4\U00013441"
MARKS = "\u0301\u0489\u05b0\u0610\u064e\u06d6\u0e34\u0e48\u1ab0\u1dc0\u20dd\ua66f\ua674\ufe20"
"""One of each range of marks."""
WHOLE = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! «señal» €",
    "letters of two code points": "n\u0303 a\u0301",
    "Arabic": "مرحبا، أريد عرضًا توضيحيًا",
    "Hebrew with points": "שָׁלוֹם",
    "Persian with a non-joiner": "می\u200cخواهم",  # noqa: RUF001 - no Latin letters
    "Hindi with a joiner": "क्\u200dष",
    "a family": "👨\u200d👩\u200d👧",
    "a heart on fire": "❤\ufe0f\u200d🔥",
    "a person with a skin": "👩🏽\u200d💻",
    "a flag of letters": "🇺🇾",
    "Malayalam": "(മോഹന്\u200d)",
    "a Persian abbreviation": "۱۴۴۵ ه\u200d. ق.",  # noqa: RUF001 - no Latin letters
    "spaces and tabs": " a  b\t\tc  ",
}
SHAPES_NOTHING = {
    "\u200d👩": "👩",
    "a\u200dש": "aש",
    "a\ufe0f\u200db": "ab",
    "🏴\U000e0061\U000e0062\U000e007f": "🏴",
    "葛\U000e0100飾区": "葛飾区",
    "1\ufe0f": "1",
    "👨\u200d\u200d\u200d👩": "👨\u200d👩",
}
VISIBLE = {
    **{f"seen: {name}": (text, text) for name, text in WHOLE.items()},
    **{f"direction {it!a}": (f"{it}a{it}ש{it}👩{it}", "aש👩") for it in DIRECTIONS},
    **{f"{it!a} between letters": (f"{it}Pay{it}Pal{it * 2}", "PayPal") for it in INVISIBLE},
    **{f"nothing but {it!a}": (f" {it}\n{it * 3}\u3000", "") for it in INVISIBLE},
    **{f"shapes nothing: {text!a}": (text, left) for text, left in SHAPES_NOTHING.items()},
    **{f"marks on {it!a}": (f"{it}\u0338\u0301b", f"{it}b") for it in ("", " ", "\n", "a\u3000")},
    **{f"line break {it!a}": (f"uno{it}{it}dos", "uno\n\ndos") for it in LINE_BREAKS},
    **{f"control {it!a}": (f"a{it}b", "a b") for it in ("\0", "\x1b", "\x7f", "\x9b", "\ufdd0", "\uffff")},
    **{f"tower of {it!a}": (f"a{it * 500}b", f"a{it * 6}b") for it in MARKS},
    "tower of different marks": ("a" + "\u0301\u200b\u0489\u20dd" * 125 + "b", "a" + "\u0301\u0489\u20dd" * 2 + "b"),
}
ONE_LINE = {
    **dict.fromkeys(("\nuno \n dos\n", "\tuno\x00dos", "\u3000uno\xa0dos\u2028", "uno\u200b \u200bdos"), "uno dos"),
    "\u1680\u200c\u1680": "",
    "u\u200bno": "uno",
}
WRITTEN = {
    "Comercio Ñúñez 支付": "",
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
    **{text: text for text in ("", "x" * 10, "uno dos 10")},
    "uno dos tres": "uno dos…",
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


@pytest.mark.parametrize(("text", "line"), ONE_LINE.items(), ids=map(ascii, ONE_LINE))
def test_one_line_has_single_spaces(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(("line", "expected"), WRITTEN.items(), ids=WRITTEN)
def test_a_line_from_right_to_left_stands_apart(line: str, expected: str) -> None:
    assert direction(line) == expected
    assert isolated(line) == (f"\u2068{line}\u2069" if expected else line)


@pytest.mark.parametrize(("text", "shortened"), OF_TEN.items(), ids=OF_TEN)
def test_a_cut_is_at_a_word_if_there_is_one(text: str, shortened: str) -> None:
    assert shorten(text, 10) == shortened
