"""A member of the sales team: what they see of a message in a mail client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, ViewportSize

from tests.chromium import PATIENCE, ROOT
from tests.message.clients import CLIENTS, Client

PICTURES = ROOT / "build" / "messages"
VIEWPORTS: dict[str, ViewportSize] = {
    "desktop": {"width": 1280, "height": 800},
    "phone": {"width": 360, "height": 740},
}

VIEWS = [
    (client, layout)
    for client in CLIENTS
    for layout in VIEWPORTS
    if layout == "desktop" or not CLIENTS[client].is_desktop_only
]
"""Each mail client on each screen that it runs on."""

TEXTS = """
() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) if (walker.currentNode.data.trim()) texts.push(walker.currentNode);
  return texts;
}
"""
"""The pieces of text in the order of the page."""

PLACES = f"""
(words) => ({TEXTS})().flatMap((node) => {{
  const places = [];
  for (let start = -1; (start = node.data.indexOf(words, start + 1)) >= 0; ) {{
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, start + words.length);
    const {{ left, top, right, bottom }} = range.getBoundingClientRect();
    places.push([left, top, right, bottom]);
  }}
  return places;
}})
"""

RIGHTMOST = f"""
() => Math.max(document.documentElement.scrollWidth, ...({TEXTS})().map((node) => {{
  const range = document.createRange();
  range.selectNodeContents(node);
  return range.getBoundingClientRect().right;
}}))
"""

BACKGROUNDS = """
() => [...new Set([...document.querySelectorAll("*")].map((element) => getComputedStyle(element).backgroundColor))]
  .map((colour) => colour.match(/[0-9.]+/g).map(Number))
  .filter(([red, green, blue, opacity = 1]) => opacity > 0);
"""

FONTS = f"() => [...new Set(({TEXTS})().map((node) => getComputedStyle(node.parentElement).fontFamily))]"


class Place(NamedTuple):
    """The box around some words, in pixels of the page."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        return self.bottom - self.top

    def is_below(self, other: Place) -> bool:
        return self.top > other.top + 0.7 * other.height


class Reader:
    """Someone who reads messages on one screen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self._developer_tools = page.context.new_cdp_session(page)
        page.on("request", lambda request: self.requests.append(request.url))
        page.route("**/*", lambda route: route.abort())

    def open(self, html: str, client: Client, layout: str = "desktop") -> None:
        self.page.set_viewport_size(VIEWPORTS[layout])
        self.page.set_content(html)
        self.page.evaluate(client.script)

    def choose_theme(self, theme: str, client: Client) -> None:
        """Light or dark. A client that does not ask the message for its dark colours makes some up."""
        is_dark = theme == "dark"
        self.page.emulate_media(color_scheme="dark" if is_dark and client.knows_dark_query else "light")
        self._developer_tools.send(
            "Emulation.setAutoDarkModeOverride", {"enabled": is_dark and not client.knows_dark_query}
        )

    def take_picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)

    def places(self, words: str) -> list[Place]:
        """All places where the words stand, in the order of the page."""
        return [Place(*place) for place in self.page.evaluate(PLACES, words)]

    def place(self, words: str) -> Place:
        (place,) = self.places(words)
        assert place.left < place.right, f"{words} cannot be seen"
        return place

    def rightmost(self) -> float:
        """The right end of everything that is on the page."""
        result: float = self.page.evaluate(RIGHTMOST)
        return result

    def fonts(self) -> list[str]:
        """The fonts that the texts ask for."""
        result: list[str] = self.page.evaluate(FONTS)
        return result

    def backgrounds(self) -> list[list[int]]:
        """The colours behind the texts, each as red, green and blue."""
        result: list[list[int]] = self.page.evaluate(BACKGROUNDS)
        return result

    def links(self) -> dict[str, Any]:
        """The addresses of the links by their texts."""
        return {link.inner_text(): link.get_attribute("href") for link in self.page.locator("a[href]").all()}


@contextmanager
def reading(browser: Browser) -> Iterator[Reader]:
    page = browser.new_page(locale="es-ES", device_scale_factor=2)
    page.set_default_timeout(PATIENCE)
    yield Reader(page)
    page.close()
