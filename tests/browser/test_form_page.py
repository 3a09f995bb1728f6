"""The example form as a page: its weight, its texts and its steadiness."""

from __future__ import annotations

import gzip
import re
import time

from playwright.sync_api import Route, expect

from tests.browser.servers import FOLDER
from tests.browser.visitor import SMALL_PHONE, Visitor


def test_the_three_files_are_light() -> None:
    files = [FOLDER / name for name in ("index.html", "contact-form.css", "contact-form.js")]

    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < 14 * 1024


SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => shifts.push(...list.getEntries())).observe({ type: "layout-shift", buffered: true });
"""


def come_late(route: Route) -> None:
    """As on a slow network."""
    time.sleep(0.5)
    route.continue_()


def test_nothing_moves_while_the_page_loads(unserved: Visitor) -> None:
    page = unserved.page
    page.set_viewport_size(SMALL_PHONE)
    page.route("**/contact-form.js", come_late)
    page.add_init_script(SHIFTS)
    unserved.open()
    expect(unserved.button("Otra imagen")).to_be_visible()
    # Two frames later all that was to move has moved.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("shifts.map(shift => shift.sources.map(({ node }) => node?.outerHTML))") == []


def test_every_text_is_in_the_page() -> None:
    """Translating the form means replacing the texts of the page."""
    module, style = ((FOLDER / f"contact-form.{kind}").read_text() for kind in ("js", "css"))
    code = re.sub(r"/\*.*?\*/|//.*", "", module, flags=re.DOTALL)
    # What a person reads has a space in it: in the module only addresses of elements have.
    assert [text for text in re.findall('"([^"\n]*)"', code) if " " in text and text[0] not in "[.#:("] == []
    assert [text for text in re.findall(" content: (.*);", style) if re.search("[a-z]", text)] == []
