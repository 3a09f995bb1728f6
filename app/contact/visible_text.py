"""The text that a visitor typed, without controls, disguise and what is invisible; composer.py escapes it in HTML."""

import re
import unicodedata

_LINE_BREAK = re.compile("\r\n|[\x0b-\r\x1c-\x1e\x85\u2028\u2029]")
_NONCHARACTERS = "".join(chr(plane + low) for plane in range(0, 0x110000, 0x10000) for low in (0xFFFE, 0xFFFF))
_CONTROL = re.compile(f"[\0-\x08\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef{_NONCHARACTERS}]")

# Default_Ignorable_Code_Point (Unicode Standard Annex 44), and what is drawn as nothing without being in it: a Braille
# cell without a dot, annotation controls, the object replacement character, and blanks of old scripts and of music.
_INVISIBLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U00013441\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = rf"[\s\0-\x1f\x7f-\x9f{_INVISIBLE}]"
BLANK_ENDS = re.compile(rf"\A{_BLANK}+|(?<!{_BLANK}){_BLANK}+\Z")
"""White space and what is invisible at both ends of a text."""

# Emoji and the scripts that need joiners and variation selectors come after Latin, Greek and Cyrillic in Unicode.
_SHAPED = rf"[^\0-\u058f\u1680\u2000-\u200a\u202f\u205f\u3000{_INVISIBLE}]"
_SHAPING = "[\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_UNSEEN = re.compile(rf"[{_INVISIBLE}](?<!{_SHAPED}{_SHAPING})(?<!{_SHAPED}\ufe0f\u200d)")
"""An invisible character that does not directly follow one that it can shape."""

# The blocks of the scripts in use: to look through the rest would take the start five milliseconds.
_BLOCKS = (*range(0x300, 0x3100), *range(0xA66F, 0xAC00), *range(0xFE20, 0xFE30))
_MARK = "".join(mark for mark in map(chr, _BLOCKS) if unicodedata.category(mark) in ("Mn", "Me"))
_MARKS = re.compile(rf"([{_MARK}](?<=\S.)[{_MARK}]{{,5}})[{_MARK}]*|[{_MARK}]+")
"""Combining marks on a letter, six of them in a group, because more would cover other lines; or marks on no letter,
which a mail gateway that normalises the HTML could join to the end of a tag."""

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]")
"""The blocks of the scripts that are written from right to left."""


def with_lf(text: str) -> str:
    """The text with LF for the line breaks of any system. A form in a browser sends CRLF for each."""
    return _LINE_BREAK.sub("\n", text)


def visible(text: str) -> str:
    """The text with LF for each line break and without what cannot be seen; empty when nothing is left to see.

    Every control of the direction of writing goes: ``isolated`` takes its place.
    """
    if not text.isprintable():
        text = _CONTROL.sub(" ", with_lf(text))
    if not text.isascii():
        text = _MARKS.sub(r"\1", _UNSEEN.sub("", text))
    return "" if text.isspace() else text


def one_line(text: str) -> str:
    """The visible text with one space for any white space, so that it cannot start a line of its own."""
    return " ".join(visible(text).split())


def direction(line: str) -> str:
    """The direction in which the line is written, ``ltr`` or ``rtl``; empty for one without right-to-left characters.

    The first letter decides (Unicode Standard Annex 9, rules P2 and P3).
    """
    if not _RIGHT_TO_LEFT.search(line):
        return ""
    strong = next((kind for kind in map(unicodedata.bidirectional, line) if kind in ("L", "R", "AL")), "L")
    return "ltr" if strong == "L" else "rtl"


def isolated(text: str) -> str:
    """The text with its right-to-left lines in isolates (Annex 9), so that none reorders what stands beside it."""
    return "\n".join(f"\u2068{line}\u2069" if direction(line) else line for line in text.split("\n"))


def shorten(line: str, length: int) -> str:
    """The line in at most ``length`` characters: cut at a word, or within one that is longer, with an ellipsis."""
    if len(line) <= length:
        return line
    end = line.rfind(" ", 0, length)
    return line[: end if end > 0 else length - 1] + "…"
