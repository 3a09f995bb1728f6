"""The elements that the drawings of this folder share."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def text(kind: str, left: float, baseline: float, words: str) -> str:
    """A line of text; ``kind`` names its classes in the style sheet."""
    return f'<text class="{kind}" x="{number(left)}" y="{number(baseline)}">{escape(words)}</text>'


def box(kind: str, left: float, top: float, width: float, height: float, *, round_by: int = 8) -> str:
    """A rectangle with round corners."""
    sides = " ".join(
        f'{name}="{number(value)}"' for name, value in (("x", left), ("y", top), ("width", width), ("height", height))
    )
    return f'<rect class="{kind}" {sides} rx="{round_by}"/>'


def picture(title: str, style: str, elements: Iterable[str], *, width: int, height: int, scale: float = 1) -> str:
    """A whole picture on a page of its own, so that it suits light and dark surroundings; ``title`` is read aloud."""
    page = f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="12"/>'
    body = "\n".join(f"  {element}" for element in (page, *elements))
    size = f'viewBox="0 0 {width} {height}" width="{number(scale * width)}" height="{number(scale * height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title">\n'
        f'<title id="title">{escape(title)}</title>\n<style>{style}</style>\n{body}\n</svg>\n'
    )


def number(value: float) -> str:
    """A coordinate, to the tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")
