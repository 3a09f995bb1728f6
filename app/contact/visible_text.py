"""The text that a visitor typed, without control, invisible and disguising characters."""

import re
import unicodedata

_LINE_BREAK = re.compile("\r\n|[\x0b-\r\x1c-\x1e\x85\u2028\u2029]")
_CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")

# Default_Ignorable_Code_Point (Unicode Standard Annex 44), and other characters drawn as nothing: a Braille
# cell without a dot, annotation controls, the object replacement character, and blanks of old scripts and of music.
_INVISIBLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U00013441\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = rf"[\s\0-\x1f\x7f-\x9f{_INVISIBLE}]"
BLANK_ENDS = re.compile(rf"\A{_BLANK}+|(?<!{_BLANK}){_BLANK}+\Z")
"""White space and what is invisible at both ends of a text."""

# The scripts from Arabic to Burmese, symbols and emoji need joiners and the emoji variation selector; Latin does not.
_UNSEEN = re.compile(f"([\u0620-\u109f\u2190-\u27bf\U0001f000-\U0001faff]\ufe0f?[\u200c\u200d]?)|[{_INVISIBLE}]")
"""A character with its joiner or variation selector (kept), or an invisible one (removed)."""

# Combining marks, general and of Cyrillic, Hebrew, Arabic and Thai. Those of other scripts (Devanagari) have no limit.
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u06d6-\u06dc\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ua66f-\ua672\ua674-\ua67d\ufe20-\ufe2f]"
)
_STRAY_MARKS = re.compile(rf"(?:(?<!\S)|(?<={_MARK}{{6}})){_MARK}+")
"""Marks without a letter, which a gateway that normalises the HTML could merge into a tag, or beyond six on one letter,
which would cover other lines."""


def with_lf(text: str) -> str:
    """The text with LF for the line breaks of any system. A form in a browser sends CRLF for each."""
    return _LINE_BREAK.sub("\n", text)


def visible(text: str) -> str:
    """The text with LF for each line break and without invisible characters; empty when nothing is left.

    Bidirectional controls are removed: ``isolated`` takes their place.
    """
    text = _UNSEEN.sub(r"\1", _CONTROL.sub(" ", with_lf(text)))
    text = _STRAY_MARKS.sub("", text)
    return "" if text.isspace() else text


def one_line(text: str) -> str:
    """The visible text with one space for any white space, so that it cannot start a line of its own."""
    return " ".join(visible(text).split())


def direction(line: str) -> str:
    """The direction in which the line is written, ``ltr`` or ``rtl``; empty for one without right-to-left characters.

    The first letter decides (Unicode Standard Annex 9, rules P2 and P3).
    """
    kinds = dict.fromkeys(map(unicodedata.bidirectional, line))  # in their order in the line
    if kinds.keys().isdisjoint(("R", "AL", "AN")):
        return ""
    first = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "ltr" if first == "L" else "rtl"


def isolated(text: str) -> str:
    """The text with its right-to-left lines in isolates (Annex 9), so that none reorders the text next to it."""
    return "\n".join(f"\u2068{line}\u2069" if direction(line) else line for line in text.split("\n"))


def shorten(line: str, length: int) -> str:
    """The line in at most ``length`` characters: cut at a word, or within one that is longer, with an ellipsis."""
    if len(line) <= length:
        return line
    end = line.rfind(" ", 0, length)
    return line[: end if end > 0 else length - 1] + "…"
