"""The two forms of a letter: plain text, and HTML for mail clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from app.contact.letter import Field, Letter, Value
from app.contact.typed import direction, isolated

# The head is never formatted: its braces are those of CSS.
_PAGE = Path(__file__).with_name("templates").joinpath("message.html").read_text(encoding="utf-8")
_FIRST_PLACE = _PAGE.index("<h1")
HTML_HEAD, _REST = _PAGE[:_FIRST_PLACE], _PAGE[_FIRST_PLACE:]
"""The beginning of the page, which is the same for all letters, and the rest with places for what differs."""

_COLLAPSED_SPACE = re.compile("^ | (?= )")
"""A space that HTML would not show: at the start of a line, or before another one."""

_TAB = " " * 4

_BREAK_WORDS = "overflow-wrap:break-word;word-break:break-word"
"""Some clients know the first property, others the second."""

_TABLE = f"""\
<table width="100%" cellpadding="0" cellspacing="0" border="0" style="table-layout:fixed;{_BREAK_WORDS}">
{{}}</table>"""
_ROW = """\
<tr valign="top">
<th class="label quiet" scope="row" width="34%" align="left" style="padding:10px 16px 10px 0;\
border-top:1px solid #dfe3e8;color:#52606d;font:bold 14px/24px Arial,sans-serif">{}</th>
<td class="value ink" style="padding:10px 0;\
border-top:1px solid #dfe3e8;color:#1f2933;font:16px/24px Arial,sans-serif">{}</td>
</tr>
"""
_SMALL_ROW = """\
<tr valign="baseline">
<th class="small quiet" scope="row" width="34%" align="left" style="padding:0 12px 4px 0;\
color:#52606d;font:bold 14px/24px Arial,sans-serif">{}</th>
<td class="small ink" style="padding:0 0 4px;color:#1f2933;font:16px/24px Arial,sans-serif">{}</td>
</tr>
"""
_LINK = '<a href="{}" style="color:#0b57d0">{}</a>'
_HEADING = '<h2 class="ink" style="margin:24px 0 8px;color:#1f2933;font:bold 16px/24px Arial,sans-serif">{}</h2>'
_MESSAGE = f"""\
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" \
style="table-layout:fixed;{_BREAK_WORDS}">
<tr>
<td class="typed ink" bgcolor="#f5f7f9" style="padding:16px 20px;border-left:4px solid #0b57d0;\
color:#1f2933;font:16px/24px Arial,sans-serif">{{}}</td>
</tr>
</table>"""
_LIST = '<ul style="margin:0 0 0 20px;padding:0">\n{}</ul>'


def text_of(letter: Letter) -> str:
    """The letter as plain text. The message comes last and whole, so that nothing in it can pass for another part."""
    parts = [[letter.kind, letter.received, f"Referencia: {letter.reference}"], _field_lines(letter.sender)]
    if letter.asked:
        parts.append(_field_lines(letter.asked))
    if letter.others:
        parts += [["Otros datos"], _field_lines(letter.others)]
    if letter.message:
        parts += [["Mensaje"], _value_lines(letter.message)]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def html_of(letter: Letter) -> str:
    """The rest of the page for mail clients, which follows ``HTML_HEAD``.

    Each client drops other parts of a page. Layout and looks stand in tables, attributes and inline styles; the style
    element in the head only adds the narrow screen of a phone and a dark screen.
    """
    parts = [_html_table(letter.sender)]
    if letter.asked:
        parts.append(_html_table(letter.asked))
    if letter.others:
        parts += [_HEADING.format("Otros datos"), _html_table(letter.others)]
    if letter.message:
        parts += [_HEADING.format("Mensaje"), _MESSAGE.format(_html_lines(letter.message))]
    return _REST.format(
        kind=escape(letter.kind),
        received=escape(letter.received),
        reference=escape(letter.reference),
        parts="\n".join(parts),
    )


def _field_lines(fields: Sequence[Field]) -> list[str]:
    """A line for each field. A value of several lines, a list and an object are indented below their label."""
    lines = []
    for label, value, _ in fields:
        first, *rest = _value_lines(value)
        if rest or not isinstance(value, str):
            lines += [f"{isolated(label)}:", *(f"    {line}" if line else "" for line in (first, *rest))]
        else:
            lines.append(f"{isolated(label)}: {first}")
    return lines


def _value_lines(value: Value) -> list[str]:
    if isinstance(value, str):
        return [isolated(line) for line in value.split("\n")]
    if isinstance(value, tuple):
        return _field_lines(value)
    items = map(_value_lines, value)
    return [f"{'  ' if number else '- '}{line}" for lines in items for number, line in enumerate(lines)]


def _html_table(fields: Sequence[Field], row: str = _ROW) -> str:
    rows = (row.format(_html_line(label), _html_value(value, href)) for label, value, href in fields)
    return _TABLE.format("".join(rows))


def _html_value(value: Value, href: str = "") -> str:
    if isinstance(value, str):
        return _LINK.format(escape(href), _html_lines(value)) if href else _html_lines(value)
    if isinstance(value, tuple):
        return _html_table(value, _SMALL_ROW)
    return _LIST.format("".join(f"<li>{_html_value(item)}</li>\n" for item in value))


def _html_lines(text: str) -> str:
    """The text in HTML, with a line break for each of its own and with all of its spaces."""
    return "<br>\n".join(map(_html_line, text.split("\n")))


def _html_line(line: str) -> str:
    if "\t" in line or "  " in line or line[:1] == " ":
        line = _COLLAPSED_SPACE.sub("\N{NO-BREAK SPACE}", line.replace("\t", _TAB))
    html = escape(line)
    # Not dir="auto" or <bdi>: old mail clients know only the two directions.
    return f'<span dir="{written}">{html}</span>' if (written := direction(line)) else html
