"""The tools behind ``make docs``, ``format``, ``demo``, ``reference`` and ``bench``, and what they share."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
Node = dict[str, Any]
"""An object of the published document."""


def put(text: str, pattern: str, known: object) -> str:
    """The text with each match of the pattern replaced by ``known``; the first group is kept before it.

    Raises LookupError if nothing matches: a reworded sentence would otherwise go stale unnoticed.
    """
    written, found = re.subn(pattern, lambda match: f"{match[1] if match.re.groups else ''}{known}", text)
    if not found:
        raise LookupError(f"make docs found no match for {pattern!r}")
    return written


def put_all(known: Mapping[str, object], text: str) -> str:
    """The text with the matches of each pattern replaced by its value."""
    for pattern, value in known.items():
        text = put(text, pattern, value)
    return text


def resolve(node: Node, document: Node) -> Node:
    """The node, or what its $ref points to."""
    while "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        node = target
    return node
