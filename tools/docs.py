"""``python -m tools.docs`` writes what the code knows, in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.errors import MAX_BODY_BYTES
from app.mail import health
from app.ratelimit import shared
from tools import document, pages, snapshot

ROOT = Path(__file__).parents[1]
FILES: dict[str, Callable[[str], str]] = {
    "static/openapi.json": document.document,
    "tests/contract/snapshot.txt": snapshot.snapshot,
    "README.md": pages.readme,
    "CONTRIBUTING.md": pages.contributing,
    "deploy/public-web-interface.env": pages.example,
    "deploy/nginx/snippets/answers.conf": pages.nginx_answers,
    "deploy/nginx/snippets/http.conf": pages.nginx_quotas,
    "deploy/nginx/snippets/service.conf": pages.number(r"(?<=client_max_body_size )\d+", MAX_BODY_BYTES / 1024),
    "docs/mail.md": pages.number(r"(?<=the mail server every )\d+", health.CHECK_INTERVAL),
    "docs/server.md": pages.number(r"\d+(?= KiB)", MAX_BODY_BYTES / 1024),
    "docs/shared-limits.md": pages.number(r"\d+(?= ms\b)", shared.TIMEOUT * 1000),
}
"""What is written, in this order: the snapshot and README read the document."""

if __name__ == "__main__":
    for name, write in FILES.items():
        file = ROOT / name
        file.write_text(write(file.read_text()))
