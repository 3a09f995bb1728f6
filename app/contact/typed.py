"""The text that a visitor typed, made fit to be shown: no control characters, no disguise, nothing invisible."""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"
_FIRST_STRONG_ISOLATE, _POP_DIRECTIONAL_ISOLATE = "\u2068", "\u2069"

_NONCHARACTERS = [
    *range(0xFDD0, 0xFDF0),
    *(plane + low for plane in range(0, 0x110000, 0x10000) for low in (0xFFFE, 0xFFFF)),
]
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *_NONCHARACTERS]
_BREAKS = "\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_TO_LINES = dict.fromkeys(_CONTROLS, " ") | dict.fromkeys(map(ord, _BREAKS), "\n") | {ord("\t"): "\t"}

# Default_Ignorable_Code_Point (Unicode Standard Annex 44), and what is drawn as nothing without being in it: a Braille
# cell without a dot, annotation controls, the object replacement character, and blanks of old scripts and of music.
_INVISIBLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U00013441\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ANY_INVISIBLE = re.compile(f"[{_INVISIBLE}]")

# Scripts and emoji that need joiners and variation selectors come after Latin, Greek and Cyrillic in Unicode.
_SPACES = "\u1680\u2000-\u200a\u202f\u205f\u3000"
_SHAPED = rf"[^\x00-\u058f{_SPACES}{_INVISIBLE}]"
# A joiner shapes an Arabic letter and a virama of India also at the end of a word.
_ENDING = (
    "\u0620-\u064a\u066e-\u06d3\u06d5\u06fa-\u06fc\u0750-\u077f\u08a0-\u08c9"
    "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
)
# The flags of England, Scotland and Wales.
_NATIONS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in nation) for nation in ("gbeng", "gbsct", "gbwls"))
_KEPT = "|".join(
    (
        rf"(?<=[{_ENDING}])[\u200c\u200d]",
        rf"(?<={_SHAPED}|\ufe0f)[\u200c\u200d](?={_SHAPED})",
        rf"(?<={_SHAPED}|[\xa9\xae])[\ufe00-\ufe0f\u180b-\u180d\u180f\U000e0100-\U000e01ef]",
        r"(?<=[0-9#*])\ufe0f(?=\u20e3)",
        rf"(?<=\U0001f3f4)(?:{_NATIONS})\U000e007f",
    )
)
_INVISIBLE_OR_KEPT = re.compile(rf"({_KEPT})|[{_INVISIBLE}]")

_MOST_MARKS = 6
"""The most combining marks on one letter. More of them would cover what stands above and below."""

_PERHAPS_MARKS = re.compile("[\u0300-\u1fff\u20d0-\u20ff\u2ce0-\U0010ffff]")
"""The blocks in which combining marks stand, and many letters. Spanish text has none of them."""

_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Two of them make a flag."""

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""The blocks of the scripts that are written from right to left."""


def with_lf(text: str) -> str:
    """The text with LF in place of CRLF and CR: a form in a browser sends CRLF for each line break."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def visible(text: str) -> str:
    """The text with LF for each line break and without what cannot be seen; empty when nothing is left to see.

    Joiners and variation selectors stay where emoji, Arabic, the scripts of India and the like need them. Every control
    of the direction of writing goes: ``isolated`` takes its place.
    """
    if not text.isprintable():
        text = with_lf(text)
        if not text.replace("\n", "").isprintable():  # which is so for few messages, and slow
            text = text.translate(_TO_LINES)
    if not text.isascii():
        if _ANY_INVISIBLE.search(text):
            text = _INVISIBLE_OR_KEPT.sub(r"\1", text)
        if _PERHAPS_MARKS.search(text):
            text = _without_towers(text)
    return "" if text.isspace() else text


def _without_towers(text: str) -> str:
    """The text without combining marks that stand on no letter, or on too many others."""
    kept, marks = [], _MOST_MARKS
    for character in text:
        if unicodedata.category(character) in ("Mn", "Me"):
            marks += 1
        else:
            marks = _MOST_MARKS if character.isspace() else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def one_line(text: str) -> str:
    """The visible text with one space for any white space, so that it cannot start a line of its own."""
    return " ".join(visible(text).split())


def direction(line: str) -> str:
    """The direction in which the line is written, ``ltr`` or ``rtl``; empty for one without right-to-left characters.

    The first letter decides (Unicode Standard Annex 9, rules P2 and P3).
    """
    if line.isascii() or not _RIGHT_TO_LEFT.search(line):
        return ""
    strong = next((kind for kind in map(unicodedata.bidirectional, line) if kind in ("L", "R", "AL")), "L")
    return "ltr" if strong == "L" else "rtl"


def isolated(line: str) -> str:
    """The line, which cannot reorder what stands beside it: right-to-left text is put between isolates (Annex 9)."""
    return f"{_FIRST_STRONG_ISOLATE}{line}{_POP_DIRECTIONAL_ISOLATE}" if direction(line) else line


def shorten(line: str, length: int) -> str:
    """The line in at most ``length`` characters: cut at a word, or within one that is longer, with an ellipsis."""
    if len(line) <= length:
        return line
    end = line.rfind(" ", 0, length)
    if end <= 0:
        end = next((end for end in range(length - 1, 0, -1) if not _is_within_a_character(line, end)), length - 1)
    return line[:end] + ELLIPSIS


def _is_within_a_character(line: str, index: int) -> bool:
    """True when a reader sees what stands on both sides of the index as one character."""
    after, before = line[index], line[index - 1]
    return (
        unicodedata.category(after).startswith("M")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the tone of a skin
        or "\u200d" in (after, before)
        or (after in _FLAG_LETTERS and (index - len(line[:index].rstrip(_FLAG_LETTERS))) % 2 == 1)
        or after >= "\U000e0000"
    )
