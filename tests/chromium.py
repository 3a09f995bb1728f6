"""Chromium and Firefox, and axe-core in them, for the tests that look at pages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Playwright

ROOT = Path(__file__).parents[1]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

PATIENCE = 20_000
"""Milliseconds within which anything that is to happen has happened, however busy the machine is."""


def launch_chromium(playwright: Playwright, **options: Any) -> Browser:
    program = shutil.which("chromium")
    assert program, "Chromium is missing: make deps FOR=test-browser"
    return playwright.chromium.launch(executable_path=program, args=FLAGS, **options)


def launch_firefox(playwright: Playwright) -> Browser:
    """Debian's Firefox, with which Playwright speaks WebDriver BiDi."""
    program = shutil.which("firefox-esr")
    assert program, "Firefox is missing: make deps FOR=nightly"
    return playwright.firefox.launch(executable_path=program, channel="moz-firefox")


def axe_findings(page: Page, rules: Sequence[str]) -> list[Any]:
    """The faults that axe-core finds in the page by these rules, and those that it leaves to a person to judge."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    # In full are only these two kinds of results: to describe every element that passes takes most of the time.
    options = {"resultTypes": ["violations", "incomplete"], "runOnly": list(rules)}
    result: dict[str, Any] = page.evaluate("options => axe.run(document, options)", options)
    return [
        (finding["id"], node["html"], node["failureSummary"])
        for finding in result["violations"] + result["incomplete"]
        for node in finding["nodes"]
    ]
