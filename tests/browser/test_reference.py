"""The reference page in a real browser, from its file and without a network: what a Spanish web developer sees."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from app.api.root import DOCUMENT_FILE
from app.errors import ErrorCode
from docs import build_reference
from tests.browser.visitor import NARROWEST, SCREENSHOTS, VIEWPORTS
from tests.chromium import PATIENCE, ROOT, axe_findings

SITE = "https://www.example.com"
DOCUMENT = build_reference.read_document()
OPERATIONS = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
SUMMARIES = [operation["summary"] for operation in OPERATIONS]
THEMES = {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 15, 15)"}

ENGLISH = re.compile(
    r"\b(Copy|Copied|Search|Show|Hide|Close|Collapse|Expand|Set|mode|Required|Optional|Default|Example for|Response|"
    r"Body|Headers|Parameters|Server|Schema|Download|Test|Loading|More|No results|Notifications|Powered|"
    r"array of|anything|additionalProperty|propertyName)\b|^or$"
)
LABELS = """() => {
  const words = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement, data } = walker.currentNode;
    if (!parentElement.closest("script, style, pre, code, .markdown")) words.push(data.trim());
  }
  for (const name of ["aria-label", "title", "placeholder"])
    for (const element of document.querySelectorAll(`[${name}]`))
      words.push(element.getAttribute(name));
  return words;
}"""
"""All that the page itself says, seen or read aloud, beside the texts of the document."""

LINES = """element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  return range.getClientRects().length;
}"""

HIDDEN = """tabs => tabs.filter(tab => {
  tab.closest("[role=tablist]").scrollIntoView({ block: "center", behavior: "instant" });
  const { left, right, top, bottom } = tab.getBoundingClientRect();
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  return [[x, y], [left + 1, y], [right - 1, y], [x, top + 1], [x, bottom - 1]].some(
    point => !tab.contains(document.elementFromPoint(...point)));
}).map(tab => tab.textContent)"""
"""The tabs that are, in part, out of the window or behind something else, while nobody scrolls sideways."""


@dataclass
class Reader:
    """Someone who has the file and no network."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def open(self, file: Path) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type != "info" else None
        )
        self.page.context.set_offline(True)
        self.page.goto(file.as_uri())
        expect(self.page.get_by_role("heading", level=1)).to_have_text(DOCUMENT["info"]["title"])

    def wait_until_all_is_drawn(self) -> None:
        """Scalar draws the operations one after the other, by itself."""
        expect(self.page.get_by_role("heading", name=SUMMARIES[-1], exact=True)).to_be_attached()
        expect(self.page.locator("[data-placeholder=true]")).to_have_count(0)

    def set_theme(self, theme: str) -> None:
        self.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        expect(self.page.locator("body")).to_have_css("background-color", THEMES[theme])

    def english(self) -> list[str]:
        return [label for label in self.page.evaluate(LABELS) if ENGLISH.search(label)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("reference") / "reference.html"
    file.write_text(build_reference.build(SITE), encoding="utf-8")
    return file


@pytest.fixture
def reader(browser: Browser, file: Path) -> Iterator[Reader]:
    context = browser.new_context(locale="es-ES", viewport=VIEWPORTS["desktop"])
    context.set_default_timeout(PATIENCE)
    reader = Reader(context.new_page())
    reader.open(file)
    yield reader
    context.close()
    # Whatever a test does, nothing is asked for, and nothing fails.
    assert reader.requests == [file.as_uri()]
    assert reader.complaints == []


def test_it_shows_every_operation_and_names_the_website_everywhere(reader: Reader) -> None:
    reader.wait_until_all_is_drawn()

    for summary in SUMMARIES:
        expect(reader.page.get_by_role("heading", name=summary, exact=True)).to_be_visible()
    assert reader.page.locator("html").get_attribute("lang") == "es"
    text = reader.page.locator("body").inner_text()
    assert f"curl {SITE}/api/v1/contact" in text
    assert "127.0.0.1" not in text
    expect(reader.page.get_by_role("link", name=f"{SITE}/openapi.json")).to_be_visible()


def test_it_leads_nowhere_else_and_leaves_out_what_the_section_cors_says(reader: Reader) -> None:
    reader.wait_until_all_is_drawn()
    links = reader.page.locator("a[href^=http]:visible").evaluate_all("links => links.map(link => link.href)")

    assert links == [f"{SITE}/openapi.json"]
    expect(reader.page.get_by_text("Consultar los métodos del envío")).to_have_count(0)


def test_the_first_example_can_be_copied_at_any_time(reader: Reader) -> None:
    example = reader.page.locator("pre", has_text=f"curl {SITE}/api/v1/contact").first

    expect(example).to_contain_text('"email"')
    # The service would refuse an old one.
    expect(example).not_to_contain_text('"ts"')


def test_the_browser_s_own_search_finds_what_is_far_below(reader: Reader) -> None:
    reader.wait_until_all_is_drawn()
    fields = DOCUMENT["components"]["schemas"]["ContactRequest"]["properties"].values()
    # The longest part of each description that has no mark-up.
    texts = [
        max(re.split(r"[`*\n]", part["description"]), key=len)
        for part in (*OPERATIONS, *fields)
        if "description" in part
    ]

    assert reader.page.evaluate("scrollY") == 0
    assert [text for text in texts if not reader.page.evaluate("text => find(text, true, false, true)", text)] == []


def test_it_speaks_spanish(reader: Reader) -> None:
    reader.wait_until_all_is_drawn()
    page = reader.page

    for header in page.locator("main button[aria-expanded=false]:not([aria-haspopup])").element_handles():
        header.evaluate("button => button.click()")
    page.locator(".scalar-code-copy").first.evaluate("button => button.click()")
    expect(page.get_by_text("Copia", exact=False).first).to_be_attached()
    assert reader.english() == []

    page.get_by_label("Usar el tema oscuro").click()
    expect(page.get_by_label("Usar el tema claro")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_label("Escriba lo que busca").fill("estado de la plataforma")
    expect(page.get_by_role("option").first).to_contain_text("Consultar el estado de la plataforma")
    assert reader.english() == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("layout", VIEWPORTS)
def test_it_can_be_read(reader: Reader, layout: str, theme: str) -> None:
    page = reader.page
    page.set_viewport_size(VIEWPORTS[layout])
    reader.set_theme(theme)
    reader.wait_until_all_is_drawn()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    errors = page.locator("main table").first
    for name, place in (("errors", errors), ("operation", page.get_by_role("heading", name=SUMMARIES[0], exact=True))):
        place.evaluate("element => element.scrollIntoView()")
        page.screenshot(path=SCREENSHOTS / f"reference-{name}-{layout}-{theme}.png")
    # Scalar gives the answers of each operation the same name as a region; axe cannot judge what another part covers.
    assert [
        finding
        for finding in axe_findings(page)
        if finding[0] != "landmark-unique" and not re.search("could not be|only non-text", finding[2])
    ] == []


@pytest.mark.parametrize("layout", VIEWPORTS)
def test_the_table_of_errors_is_whole_and_breaks_no_code(reader: Reader, layout: str) -> None:
    page = reader.page
    page.set_viewport_size(VIEWPORTS[layout])
    rows = page.locator("main table").first.locator("tbody tr")

    assert {code.strip() for code in rows.locator("td:first-child").all_inner_texts()} == set(ErrorCode)
    for row in rows.all():
        code, status, meaning = row.locator("td").all()
        assert code.locator("code").evaluate(LINES) == status.evaluate(LINES) == 1
        box = meaning.bounding_box()
        assert box
        assert box["width"] > 300


def test_the_narrowest_phone_need_not_scroll_sideways(reader: Reader) -> None:
    reader.page.set_viewport_size(NARROWEST)
    reader.wait_until_all_is_drawn()

    assert reader.page.evaluate("document.documentElement.scrollWidth") == NARROWEST["width"]


@pytest.mark.parametrize("size", [*VIEWPORTS.values(), NARROWEST], ids=[*VIEWPORTS, "narrowest"])
def test_the_code_of_every_answer_can_be_seen_and_touched(reader: Reader, size: ViewportSize) -> None:
    reader.page.set_viewport_size(size)
    reader.wait_until_all_is_drawn()
    tabs = reader.page.locator(".response-card [role=tab]")

    assert [label.split()[-1] for label in tabs.all_text_contents()] == [
        status for operation in OPERATIONS for status in operation["responses"]
    ]
    assert tabs.evaluate_all(HIDDEN) == []


@pytest.mark.parametrize(
    ("attempt", "directive"),
    [
        pytest.param(f"fetch('{SITE}')", "connect-src", id="to ask for something"),
        pytest.param(
            "document.body.append(Object.assign(new Image(), {src}))", "img-src", id="to show something remote"
        ),
        pytest.param(
            "document.head.append(Object.assign(document.createElement('script'), {text: '0'}))",
            "script-src-elem",
            id="to run what was not built in",
        ),
    ],
)
def test_its_policy_forbids(browser: Browser, file: Path, attempt: str, directive: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(file.as_uri())

        forbidden = page.evaluate(
            f"""src => new Promise(resolve => {{
              document.addEventListener("securitypolicyviolation", event => resolve(event.effectiveDirective));
              setTimeout(resolve, {PATIENCE}, "nothing");
              {attempt};
            }})""",
            f"{SITE}/picture.png",
        )

    assert forbidden == directive


def test_without_javascript_it_says_where_the_document_is(browser: Browser, file: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(file.as_uri())

        expect(page.get_by_role("link", name=f"{SITE}/openapi.json")).to_be_visible()


def test_without_a_base_address_it_has_that_of_the_document() -> None:
    published = json.loads(DOCUMENT_FILE.read_bytes())

    assert DOCUMENT["servers"] == published["servers"]
    assert "127.0.0.1" not in json.dumps(build_reference.read_document(SITE))


@pytest.mark.parametrize(
    "address",
    ["www.example.com", "javascript:alert(1)", 'https://www.example.com/"', "https://", "http://[", "https://a:999999"],
)
def test_a_base_address_that_is_none_writes_no_page(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_reference, "FILE", tmp_path / "reference.html")

    with pytest.raises(SystemExit, match=r"^BASE_URL="):
        build_reference.main([address])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "used"), [([], None), ([""], None), ([f"{SITE}/"], SITE)], ids=["none", "empty", "with a slash"]
)
def test_the_page_is_written_into_build(
    given: list[str], used: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_reference, "FILE", tmp_path / "build" / "reference.html")
    page = build_reference.build(used).encode()

    build_reference.main(given)

    assert (tmp_path / "build" / "reference.html").read_bytes() == page
    compressed = (tmp_path / "build" / "reference.html.gz").read_bytes()
    assert gzip.decompress(compressed) == page
    assert compressed[4:8] == bytes(4), "no time: the same page makes the same file (RFC 1952)"
    sizes = f"{len(page) / 1e6:.1f} MB, of which a browser downloads {len(compressed) / 1e6:.1f} MB"
    assert sizes in (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def test_the_page_is_written_in_a_locale_that_is_not_utf_8() -> None:
    environ = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}

    subprocess.run(
        [sys.executable, "-c", "from docs import build_reference; build_reference.build()"],
        cwd=ROOT,
        env=environ,
        check=True,
    )


def test_an_english_text_that_scalar_no_longer_has_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(build_reference.ENGLISH, "`A text of tomorrow`", "`Un texto de mañana`")

    with pytest.raises(ValueError, match="A text of tomorrow"):
        build_reference.read_script()


@pytest.mark.parametrize("pattern", ["a place of tomorrow", "IntersectionObserver"], ids=["none", "many"])
def test_another_lazy_margin_stops_the_build(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_reference, "LAZY_MARGIN", re.compile(pattern))

    with pytest.raises(ValueError, match=pattern):
        build_reference.read_script()
