"""Links between the pages lead somewhere, and what ``make docs`` writes is current."""

import re
import threading
from pathlib import Path

import pytest

from tools import ROOT
from tools.docs import FILES

PAGES = [page for pattern in ("*.md", "docs/**/*.md") for page in ROOT.glob(pattern)]
LINKS = {
    f"{page.relative_to(ROOT)} to {target}": (page, target)
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    if "://" not in target
}


@pytest.mark.parametrize(("page", "target"), LINKS.values(), ids=LINKS)
def test_a_link_leads_to_a_file_and_to_a_heading_of_it(page: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    linked = page.parent / name if name else page
    headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE) if anchor else []

    assert linked.exists()
    assert not anchor or anchor in {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("file", FILES)
def test_what_make_docs_writes_is_current(file: str) -> None:
    text, threads = (ROOT / file).read_text(), {*threading.enumerate()}

    assert FILES[file](text) == text, "make docs"
    assert {*threading.enumerate()} <= threads, "a thread that goes on can make a folder again that has been removed"
