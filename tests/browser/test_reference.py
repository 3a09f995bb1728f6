"""The reference page is built, and shows each operation in a browser without a network."""

from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from tests.client import DOCUMENT
from tests.versions import CONTACT
from tools import reference

SITE = "https://www.example.com"
SUMMARIES = [
    operation["summary"]
    for operations in DOCUMENT["paths"].values()
    for method, operation in operations.items()
    if method != "options"
]


def test_the_page_shows_every_operation(context: BrowserContext, tmp_path: Path) -> None:
    file = tmp_path / "reference.html"
    file.write_text(reference.build(SITE), encoding="utf-8")
    context.set_offline(offline=True)
    page = context.new_page()

    page.goto(file.as_uri())

    expect(page.get_by_text(f"curl {SITE}{CONTACT}").first).to_be_visible()
    names = page.get_by_role("heading").all_inner_texts()
    assert [name for name in names if name in SUMMARIES] == SUMMARIES
