"""Someone who fills in the example form: what they can do and what they see."""

import re
from collections.abc import Callable
from typing import Any, Literal

from playwright.sync_api import Locator, Page, Request, ViewportSize, expect

from app import CONTACT_POLICY
from app.contact.antispam import MIN_AGE_SECONDS
from tests.factories import REQUEST_ID
from tests.mail.server import SmtpServer, text_of
from tests.server.gunicorn import ROOT

PATIENCE = 20_000
"""Milliseconds within which anything that is to happen has happened, however busy the machine is."""

AXE = ROOT / "tools" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SCREENSHOTS = ROOT / "build" / "screenshots"
VIEWPORTS: dict[str, ViewportSize] = {
    "desktop": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
SMALL_PHONE: ViewportSize = {"width": 320, "height": 640}
"""As narrow as WCAG 1.4.10 still wants a page without horizontal scrolling."""
THEMES: list[Literal["light", "dark"]] = ["light", "dark"]

VOICE = """
Object.defineProperty(window, "speechSynthesis", { value: Object.assign(new EventTarget(), {
  getVoices: () => [{ lang: "es-ES" }], cancel() {}, speak({ text }) { window.spoken = text; } }) });
"""
"""A browser without a screen has no voices: this one writes down what it would say."""

AGED = f"""{{
  const now = Date.now.bind(Date);
  let age = {(MIN_AGE_SECONDS + 1) * 1000};
  Date.now = () => now() - age;
  addEventListener("load", () => {{ age = 0; }});
}}"""
"""A clock by which the form is old enough once it is there, so that no test needs to wait."""

FIELDS = {
    "nombre": "María Ñúñez",
    "empresa": "Comercio Ejemplo S.L.",
    "email": "maria@example.com",
    "telefono": "+34 600 000 000",
    "mensaje": "Quisiera una demostración.\n¿Es posible el jueves?",
}
DOUBT = "No sabemos si su solicitud ha llegado"
ASKED_AGAIN = "¿Quiere enviarla otra vez? Si llega dos veces, nuestro equipo verá que está repetida."
AGAIN = "Enviar otra vez"
COUNTDOWN = re.compile(r"Podrá enviarla en \d+ segundos\.")
COUNTDOWN_ENDS = "Ya puede enviarla."

WAYS: dict[str, Callable[[Page], object]] = {
    "reloaded": Page.reload,
    "left and come back to": lambda page: (page.goto("about:blank"), page.go_back()),
}
"""How a page comes back."""


class Visitor:
    """A page with the form, and the requests that it sends to the service."""

    def __init__(self, page: Page, url: str, *, has_clock: bool = True) -> None:
        self.page = page
        self.url = url
        self.posts: list[Request] = []
        if has_clock:  # that a test can put forward; with it, a page does not know how it was opened
            page.clock.install()
        page.add_init_script(VOICE)
        page.on("request", lambda request: self.posts.append(request) if request.method == "POST" else None)
        self.summary = self.part("summary")
        self.faults = self.part("faults")
        self.progress = self.part("progress")
        self.request_id = self.summary.locator("code")
        self.confirmation = self.part("end")
        self.status = page.get_by_role("status")
        """What screen readers are told without a move of the focus."""

    def open(self, query: str = "") -> None:
        self.page.goto(self.url + query)

    def is_answered(self, status: int = 200, body: str = '{"ok":true}') -> None:
        """Let the contact path answer so, with the fields of every answer."""
        headers = {
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Expose-Headers": "RateLimit, X-Request-ID",
            "X-Request-ID": REQUEST_ID,
            "RateLimit": '"default";r=0;t=30',
        }
        self.page.route("**/contact", lambda route: route.fulfill(status=status, headers=headers, body=body))

    def wait(self) -> None:
        """Until the quota takes another form."""
        self.page.clock.fast_forward((CONTACT_POLICY.window_seconds + 1) * 1000)

    def fill(self, kind: str = "demo", **changes: str) -> None:
        """Fill in everything, the captcha included."""
        self.choose(kind)
        for name, value in (FIELDS | changes).items():
            self.field(name).fill(value)
        self.solve()

    def solve(self) -> None:
        self.field("captcha_input").fill(self.hear_captcha().lower())

    def hear_captcha(self) -> str:
        """The code as it is read out to those who cannot see it."""
        self.part("listen").click()
        return "".join(re.findall(r"\w", self.page.evaluate("window.spoken")))

    def fill_and_send(self, kind: str = "demo", **changes: str) -> None:
        self.fill(kind, **changes)
        self.send()

    def send(self, button: str = "Enviar solicitud") -> None:
        self.button(button).click()

    def choose(self, kind: str) -> None:
        self.page.locator(f"[value={kind}]").check()

    def part(self, name: str) -> Locator:
        return self.page.locator(f"[data-part={name}]")

    def field(self, name: str) -> Locator:
        return self.page.locator(f"[name={name}]")

    def error(self, name: str) -> Locator:
        """The form's id has a number where another element has one of its ids."""
        return self.page.locator(f"#contact-form-{name}-error, #contact-form-2-{name}-error")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def sees_a_fault_at(self, name: str, text: str | re.Pattern[str]) -> None:
        expect(self.error(name)).to_have_text(text)
        expect(self.field(name).first).to_be_focused()
        described = self.page.locator("[aria-invalid=true]").first
        expect(described).to_have_accessible_description(re.compile(re.escape(self.error(name).inner_text())))
        self.sees(self.field(name).first, self.error(name))

    def sees_a_list_of_faults(self, *texts: str) -> None:
        expect(self.faults).to_be_focused()
        expect(self.faults.get_by_role("link")).to_have_text(texts)
        self.sees(self.faults.locator("strong"))

    def sees_a_summary(self, *texts: str) -> None:
        expect(self.summary).to_be_focused()
        for text in texts:
            expect(self.summary).to_contain_text(text)
        self.sees(self.summary.locator("strong"))

    def sees_the_end(self, title: str = "Hemos recibido su solicitud") -> None:
        heading = self.confirmation.get_by_role("heading", name=title, level=1)
        expect(heading).to_be_focused()
        expect(self.page).to_have_title(title)
        self.sees(heading)

    def sees(self, *parts: Locator) -> None:
        """Without scrolling."""
        for part in parts:
            expect(part).to_be_in_viewport(ratio=0.95)

    def still_has_what_was_typed(self, **changes: str | re.Pattern[str]) -> None:
        for name, value in (FIELDS | changes).items():
            expect(self.field(name)).to_have_value(value)

    def record(self, state: str) -> None:
        """Keep a picture of each layout and theme in Chromium, in none of which axe-core finds anything."""
        browser = self.page.context.browser
        if browser and browser.browser_type.name == "firefox":
            return
        for layout, size in VIEWPORTS.items():
            self.page.set_viewport_size(size)
            for theme in THEMES:
                self.page.emulate_media(color_scheme=theme)
                take_picture(self.page, f"{state}-{layout}-{theme}")
                assert axe_findings(self.page) == [], (state, layout, theme)
        self.page.set_viewport_size(SMALL_PHONE)
        assert self.page.evaluate("document.documentElement.scrollWidth") == SMALL_PHONE["width"]
        self.page.set_viewport_size(VIEWPORTS["desktop"])


def take_picture(page: Page, name: str) -> None:
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True, scale="css")


def axe_findings(page: Page) -> list[Any]:
    """The faults that axe-core finds in the page, and those that it leaves to a person to judge."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    # In full are only these two kinds of results: to describe every element that passes takes most of the time.
    options = {"resultTypes": ["violations", "incomplete"], "runOnly": RULES}
    result: dict[str, Any] = page.evaluate("options => axe.run(document, options)", options)
    return [
        (finding["id"], node["html"], node["failureSummary"])
        for finding in result["violations"] + result["incomplete"]
        for node in finding["nodes"]
    ]


def adding(markup: str) -> Callable[[str], str]:
    """A change of the page that puts these fields before the trap."""
    return lambda page: page.replace("<!-- A trap", f"{markup}<!-- A trap")


def lines_of(server: SmtpServer, number: int = 0) -> list[str]:
    """The fields of the message, as the sales team reads them; it is the last one that has come."""
    assert len(server.arrivals) == number + 1
    return text_of(server.arrivals[number]).rstrip("\n").split("\n")[2:]
