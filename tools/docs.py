"""``python -m tools.docs`` updates, in place, the facts that come from the code."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tools import ROOT, document, element, pages, put_all, snapshot

FILES: dict[str, Callable[[str], str]] = {
    "static/openapi.json": document.document,
    "tests/contract/snapshot.txt": snapshot.snapshot,
    "README.md": pages.readme,
    "docs/settings.md": pages.settings,
    "docs/contact-form/contact-form-element.js": element.element,
    "deploy/public-web-interface.env": pages.example,
    "deploy/nginx/snippets/answers.conf": pages.nginx_answers,
    "deploy/nginx/snippets/http.conf": pages.nginx_maps,
    **{name: partial(put_all, known) for name, known in pages.NUMBERS.items()},
}
"""Each file with the function that updates its text. The document comes first: the snapshot and README read it."""


def main() -> None:
    """Update each file."""
    for name, write in FILES.items():
        file = ROOT / name
        file.write_text(write(file.read_text()))


if __name__ == "__main__":
    main()
