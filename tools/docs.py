"""``python -m tools.docs`` updates, in place, the facts that come from the code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from tools import ROOT, document, pages, put_all, snapshot

SNAPSHOT = "tests/contract/snapshot.txt"
FILES: dict[str, Callable[[str], str]] = {
    "static/openapi.json": document.document,
    SNAPSHOT: snapshot.snapshot,
    "README.md": pages.readme,
    "docs/settings.md": pages.settings,
    "deploy/public-web-interface.env": pages.example,
    "deploy/nginx/snippets/answers.conf": pages.nginx_answers,
    "deploy/nginx/snippets/http.conf": pages.nginx_quotas,
    **{name: partial(put_all, known) for name, known in pages.NUMBERS.items()},
}
"""Each file with the function that updates its text. The document comes first: the snapshot and README read it."""


def main() -> None:
    """Update each file, and name what clients can no longer rely on."""
    for name, write in FILES.items():
        file = ROOT / name
        before = file.read_text()
        after = write(before)
        file.write_text(after)
        if name == SNAPSHOT:
            for line in sorted({*before.splitlines()} - {*after.splitlines()}):
                sys.stderr.write(f"Clients can no longer rely on this: {line}\n")


if __name__ == "__main__":
    main()
