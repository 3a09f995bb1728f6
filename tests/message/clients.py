"""Mail clients, each by what it takes away from a message before it shows it.

The facts are those of the support tables on caniemail.com, and of https://hteumeuleu.com/2020/outlook-rendering-engine.
A client that does not know ``prefers-color-scheme`` darkens the message by itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

LOSSES = (Path(__file__).parent / "losses.js").read_text()

Loss = tuple[str, *tuple[Any, ...]]
"""The name of a function in losses.js, and its arguments."""

NO_STYLE: Loss = ("remove", "style")
NO_MAIN: Loss = ("unwrap", "main")
NO_DARK_QUERY: Loss = ("ignoreMedia", "prefers-color-scheme")
NO_MEDIA_QUERIES: Loss = ("ignoreMedia", "")
NO_WHITE_SPACE: Loss = ("ignore", ["white-space"])
NO_OVERFLOW_WRAP: Loss = ("ignore", ["overflow-wrap"])
NO_WORD_BREAK: Loss = ("ignore", ["word-break"])
NO_COLOR_SCHEME: Loss = ("ignore", ["color-scheme"])
EMBEDDED: Loss = ("embed",)

CELLS = "td, th"
INLINE = "body, span, a, b, strong, em, bdi"
MARGINS = ["margin-top", "margin-right", "margin-bottom", "margin-left"]
PADDINGS = [margin.replace("margin", "padding") for margin in MARGINS]
WINDOWS_FONTS = ["Arial", "Calibri", "Consolas", "Courier New", "Georgia", "Segoe UI", "Tahoma", "Verdana"]


class Client(NamedTuple):
    """A mail client: what it takes away, and what else is special about it.

    One that breaks no words has no property for that: a message cannot keep a long one within the screen.
    """

    losses: tuple[Loss, ...] = ()
    knows_dark_query: bool = False
    breaks_words: bool = True
    is_desktop_only: bool = False

    @property
    def script(self) -> str:
        """The operations on the page, as JavaScript."""
        calls = (f"losses.{name}({', '.join(map(json.dumps, arguments))});" for name, *arguments in self.losses)
        return "{" + f"const losses = {LOSSES.rstrip().rstrip(';')};\n" + "\n".join(calls) + "}"


CLIENTS = {
    # Apple Mail and Thunderbird take next to nothing away.
    "as-sent": Client(knows_dark_query=True),
    "gmail": Client((NO_MAIN, NO_DARK_QUERY, NO_COLOR_SCHEME, NO_OVERFLOW_WRAP, EMBEDDED)),
    # Gmail's app with an account of another provider.
    "gmail-foreign": Client((NO_STYLE, NO_MAIN, NO_WHITE_SPACE, NO_COLOR_SCHEME, NO_OVERFLOW_WRAP, EMBEDDED)),
    "outlook-com": Client((NO_MAIN, NO_OVERFLOW_WRAP, EMBEDDED), knows_dark_query=True),
    "outlook-windows": Client(
        (
            NO_MEDIA_QUERIES,
            ("inline",),
            ("unwrap", "main, section, article, header, footer, bdi"),
            ("ignore", ["max-width", "min-width", "border-radius", "display", "overflow-wrap", "white-space"]),
            ("ignore", ["color-scheme", "unicode-bidi", "background-image", "box-shadow", "overflow"]),
            ("ignore", PADDINGS, f":not({CELLS})"),
            ("set", "padding-left", "0", "ul, ol"),  # Word indents a list by its margin.
            ("ignore", ["width", "height"], f"p, div, {INLINE}"),
            ("ignore", MARGINS, INLINE),
            ("ignoreValue", "auto", MARGINS),
            ("onlyFonts", WINDOWS_FONTS),
        ),
        breaks_words=False,
        is_desktop_only=True,
    ),
    "samsung": Client((NO_DARK_QUERY, NO_COLOR_SCHEME, NO_WHITE_SPACE)),
    "thunderbird-78": Client((NO_MEDIA_QUERIES, NO_COLOR_SCHEME)),
    "yahoo": Client(
        (NO_MAIN, NO_DARK_QUERY, NO_COLOR_SCHEME, NO_OVERFLOW_WRAP, NO_WORD_BREAK, EMBEDDED), breaks_words=False
    ),
}
