"""``python -m docs.write_settings`` writes what app/settings.py declares into README.md and into deploy's example."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from app.contact.submission import KINDS
from app.settings import Settings

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
EXAMPLE = ROOT / "deploy" / "public-web-interface.env"

DEFAULTS: dict[str, str | None] = {each.name.upper(): each.metadata["default"] for each in fields(Settings)}
IN_WORDS = {
    "SALES_EMAIL": "required with SMTP_HOST",
    **{f"SALES_EMAIL_{kind.upper()}": "SALES_EMAIL" for kind in KINDS},
    "MAIL_FROM": "required with SMTP_HOST",
    "PUBLIC_BASE_URL": "from the request",
    "RATE_LIMIT_STORAGE": "in the process",
}
"""The defaults that the table describes in place of showing them."""

BEGIN, END = "<!-- make docs -->\n", "\n<!-- end -->"
HEADING = "\n| Name | Default | Meaning |\n|---|---|---|\n"


def with_table(page: str) -> str:
    """The page with a row for each setting. The meanings stay as they are written there; a new setting has none yet."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    meanings = dict(re.findall(r"^\| (\w+) \| [^|]* \| (.*) \|$", table, re.MULTILINE))
    rows = [
        f"| {name} | {IN_WORDS.get(name, default or 'none')} | {meanings.get(name, '')} |\n"
        for name, default in DEFAULTS.items()
    ]
    return "".join([before, BEGIN, HEADING, *rows, END, after])


def with_defaults(example: str) -> str:
    """The example with the default of each setting that stands in a comment.

    Those of v1's end have none and show a value. BIND stays empty, because the unit sets it.
    """
    commented = re.compile(r"^#(?!API_V1_|BIND=)([A-Z0-9_]+)=.*", re.MULTILINE)
    return commented.sub(lambda line: f"#{line[1]}={DEFAULTS[line[1]] or ''}", example)


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
    EXAMPLE.write_text(with_defaults(EXAMPLE.read_text()))
