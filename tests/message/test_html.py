"""The HTML of the message by itself: it is without fault, small, and asks for nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.message.clients import CLIENTS
from tests.message.letters import LETTERS
from tests.message.pages import ORDINARY, PAGES, html_of
from tests.message.reader import Reader

PARSE_ERRORS = Path(__file__).parent / "parse_errors.mjs"

every_page = pytest.mark.parametrize("changes", PAGES.values(), ids=PAGES)


def parse_errors(*pages: str) -> list[list[str]]:
    result = subprocess.run(["node", PARSE_ERRORS], input=json.dumps(pages), capture_output=True, check=True, text=True)
    errors: list[list[str]] = json.loads(result.stdout)
    return errors


def test_it_parses_without_an_error() -> None:
    letters = LETTERS | PAGES

    errors = parse_errors(*map(html_of, letters.values()))

    assert dict(zip(letters, errors, strict=True)) == {letter: [] for letter in letters}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("&#0;", "1:67 null-character-reference"),
        ("<b>", "1:63 <b> is not closed"),
        ("</i>", "end tags too many: 1"),
        ("<table><tr><td></td></tr><b></b></table>", "1:63 <table> is out of its place"),
    ],
)
def test_a_fault_would_be_found(fault: str, found: str) -> None:
    page = f'<!doctype html><html lang="es"><head></head><body><p>a<br></p>{fault}</body></html>'

    assert parse_errors(page) == [[found]]


@pytest.mark.parametrize("changes", ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_message_is_small(changes: dict[str, Any]) -> None:
    assert len(html_of(changes).encode()) < 20_000


@pytest.mark.parametrize("changes", ORDINARY.values(), ids=ORDINARY)
def test_nothing_in_it_names_a_thing_to_fetch(changes: dict[str, Any]) -> None:
    assert re.findall(r"src=|srcset=|url\(|@import|<link|background=", html_of(changes), re.IGNORECASE) == []


@every_page
def test_it_has_no_comments(changes: dict[str, Any]) -> None:
    # Word reads the HTML in some of them, which the client of these tests does not.
    assert "<!--" not in html_of(changes)


@every_page
def test_it_asks_for_nothing_from_elsewhere(reader: Reader, changes: dict[str, Any]) -> None:
    reader.open(html_of(changes), CLIENTS["as-sent"])

    assert reader.requests == []
