"""``python -m tools.layout`` formats static/openapi.json: whatever fits on one line is put on one line."""

from __future__ import annotations

import json
from typing import Any

from app.api.root import DOCUMENT_FILE

WIDTH = 120


def lay_out(node: Any, *, indent: int = 0, taken: int = 0) -> str:
    """The node as JSON; its first line begins after the indentation and ``taken`` further columns."""
    line = json.dumps(node, ensure_ascii=False)
    # A comma may follow.
    fits = indent + taken + len(line) < WIDTH
    if fits or not node or not isinstance(node, dict | list):
        return line
    names = [f"{json.dumps(name)}: " for name in node] if isinstance(node, dict) else [""] * len(node)
    children = node.values() if isinstance(node, dict) else node
    rows = (
        " " * (indent + 2) + name + lay_out(child, indent=indent + 2, taken=len(name))
        for name, child in zip(names, children, strict=True)
    )
    opening, closing = "{}" if isinstance(node, dict) else "[]"
    return f"{opening}\n" + ",\n".join(rows) + f"\n{' ' * indent}{closing}"


if __name__ == "__main__":
    DOCUMENT_FILE.write_text(lay_out(json.loads(DOCUMENT_FILE.read_bytes())) + "\n", encoding="utf-8")
