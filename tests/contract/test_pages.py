"""Links between the pages lead somewhere, numbers are those of the code, what ``make docs`` writes is current."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import ErrorCode
from app.mail import health
from app.ratelimit import shared
from docs import draw_request, write_settings

ROOT = Path(__file__).parents[2]
PAGES = [page for pattern in ("*.md", "docs/*.md", "examples/*/*.md") for page in ROOT.glob(pattern)]
LINKS = {
    f"{page.relative_to(ROOT)} to {target}": (page, target)
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    if "://" not in target
}
WRITTEN = {
    "the settings in the README": (write_settings.README, write_settings.with_table),
    "the settings in the example": (write_settings.EXAMPLE, write_settings.with_defaults),
    "the picture of a request": (draw_request.FILE, lambda _: draw_request.draw()),
}


@pytest.mark.parametrize(("page", "target"), LINKS.values(), ids=LINKS)
def test_a_link_leads_to_a_file_and_to_a_heading_of_it(page: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    linked = page.parent / name if name else page
    headings = re.findall(r"^#+ (.*)", linked.read_text(), re.MULTILINE) if anchor else []

    assert linked.exists()
    assert not anchor or anchor in {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


NUMBERS = {
    "how long Redis is waited for": ("shared-limits", r"No answer within (\d+) ms", shared.TIMEOUT * 1000),
    "how often Redis is asked": (
        "shared-limits",
        r"asks the server once (?:a second|in (\d+) seconds)",
        shared.PROBE_INTERVAL,
    ),
    "how often the mail server is asked": ("mail", r"the mail server every (\d+) seconds", health.CHECK_INTERVAL),
}


@pytest.mark.parametrize(("page", "sentence", "known"), NUMBERS.values(), ids=NUMBERS)
def test_a_number_of_a_page_is_that_of_the_code(page: str, sentence: str, known: float) -> None:
    (said,) = re.findall(sentence, (ROOT / "docs" / f"{page}.md").read_text())

    assert float(said or 1) == known


@pytest.mark.parametrize(("file", "write"), WRITTEN.values(), ids=WRITTEN)
def test_what_make_docs_writes_is_current(file: Path, write: Callable[[str], str]) -> None:
    text = file.read_text()

    assert write(text) == text, "make docs"


def test_every_error_code_stands_in_the_picture() -> None:
    drawn = {code for station in draw_request.STATIONS for code in station.errors} | {draw_request.ANYWHERE}

    assert drawn == set(ErrorCode)
