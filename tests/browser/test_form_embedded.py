"""The form in the page of somebody else: whatever else is there, or is not, and however long the form stays."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect

from tests.browser.conftest import Visit
from tests.browser.servers import FOLDER, Website
from tests.browser.test_form_answers import error
from tests.browser.visitor import AGAIN, DOUBT, FIELDS, Visitor, lines_of
from tests.mail.server import SmtpServer
from tests.waiting import wait_until

HTML = (FOLDER / "index.html").read_text()
SENT = "Hemos recibido su solicitud"


def test_a_link_to_the_page_of_the_form_begins_anew(visit: Visit, website: Website) -> None:
    website.edits["index.html"] = lambda page: page.replace('href="/"', 'href="./"')
    unserved = visit(1, has_clock=False)  # which the page's knowledge of how it was opened comes with
    unserved.is_answered()
    unserved.open()
    unserved.fill_and_send()
    unserved.sees_the_end()
    unserved.page.get_by_role("link", name="Volver a la página principal").click()

    expect(unserved.button("Enviar solicitud")).to_be_visible()
    expect(unserved.field("nombre")).to_have_value("")
    expect(unserved.page).to_have_title("Contacto comercial")


ALWAYS_THE_SAME = "Math.random = () => 0.42;"
CODE = "MMMMM"


def test_the_code_is_drawn_from_left_to_right_on_any_page(unserved: Visitor) -> None:
    page = unserved.page
    page.add_init_script(ALWAYS_THE_SAME)
    unserved.open()
    pictures = []
    for direction in ("ltr", "rtl"):
        page.evaluate(f"document.documentElement.dir = '{direction}'")
        unserved.button("Otra imagen").click()
        pictures.append(page.locator("canvas").evaluate("canvas => canvas.toDataURL()"))

    assert page.evaluate("getComputedStyle(document.querySelector('canvas')).direction") == "rtl"
    assert pictures[0] == pictures[1]


THEMES: dict[str, Callable[[Page], object]] = {
    "system's": lambda page: page.emulate_media(color_scheme="dark"),
    "website's": lambda page: page.evaluate("document.documentElement.style.colorScheme = 'dark'"),
}
BRIGHTEST = """canvas => Math.max(...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
  .filter((_, index) => index % 4 == 0))"""
"""The brightness of the letters; around them, the picture has no colour."""


@pytest.mark.parametrize("theme", THEMES)
def test_the_code_is_drawn_anew_when_the_theme_changes(unserved: Visitor, theme: str) -> None:
    canvas = unserved.page.locator("canvas")
    assert canvas.evaluate(BRIGHTEST) < 100
    THEMES[theme](unserved.page)
    wait_until(lambda: canvas.evaluate(BRIGHTEST) > 150)


PARTS = re.findall(r'data-part="([\w-]+)"', HTML)
OBLIGATORY = {"fields", "summary", "submit"}
AROUND = {"outcome", "send"}
"""Parts that hold obligatory ones."""
WITHOUT = """([selector, isAround]) => document.addEventListener("readystatechange", () => {
  const element = document.querySelector(selector);
  element?.replaceWith(...(isAround ? element.children : []));
})"""
"""Before the module runs, that element is taken out of the page, or taken off from around what it holds."""


def leave_out(visitor: Visitor, selector: str, *, is_around: bool = False) -> list[str]:
    """Open the page without that element; returns what the console will say."""
    said: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            said.append(message.text)

    visitor.page.on("console", hear)
    visitor.page.add_init_script(f"{ALWAYS_THE_SAME} ({WITHOUT})({json.dumps([selector, is_around])});")
    visitor.open()
    return said


@pytest.mark.parametrize("part", sorted({*PARTS} - OBLIGATORY))
def test_a_part_may_be_left_out(unserved: Visitor, part: str) -> None:
    unserved.is_answered(500, error("internal_error"))
    leave_out(unserved, f"[data-part={part}]", is_around=part in AROUND)
    expect(unserved.part(part)).to_have_count(0)
    unserved.send()  # nothing is filled in
    expect(unserved.error("nombre")).to_have_text("Escriba su nombre.")
    if part == "faults":
        expect(unserved.field("form_type").first).to_be_focused()
    unserved.choose("ventas")
    for name, value in (FIELDS | {"email": "maria@gmial.com"}).items():
        unserved.field(name).fill(value)
    if part not in {"slip", "meant"}:
        unserved.field("email").fill("maria@gmail.com")
    code = unserved.page.locator("[name=captcha_input]:enabled")
    if code.count():
        code.fill(CODE)
    unserved.send()
    unserved.sees_a_summary(DOUBT)
    unserved.wait()
    unserved.is_answered()
    unserved.page.locator(".send button:visible, [data-part=submit]:visible").first.click()

    title = unserved.page.get_by_text(SENT) if part != "end-title" else unserved.part("end-text")
    expect(title).to_be_visible()
    assert len(unserved.posts) == 2
    assert ("captcha_expected" in (unserved.posts[1].post_data or "")) == bool(code.count())


@pytest.mark.parametrize("line", ["strong", "p", "small", "small:last-child", "code"])
def test_a_line_of_the_summary_may_be_left_out(unserved: Visitor, line: str) -> None:
    unserved.is_answered(500, error("internal_error"))
    said = leave_out(unserved, f"[data-part=summary] {line}")
    unserved.fill_and_send()
    expect(unserved.summary).to_be_focused()
    expect(unserved.part("question")).to_be_visible()
    assert [text for text in said if "500" not in text] == []


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        *((f"[data-part={part}]", f"[data-part={part}]") for part in sorted(OBLIGATORY)),
        *((f"label:has([name={name}]), [name={name}]", f"[name={name}]") for name in ("email",)),
        ("[role=radiogroup]", "[name=form_type]"),
        ("#contact-texts", "#contact-texts"),
        (".contact-form", "div.contact-form"),
    ],
)
def test_without_what_it_needs_the_form_stays_as_it_is_and_says_why(
    unserved: Visitor, selector: str, named: str
) -> None:
    said = leave_out(unserved, selector, is_around=selector == ".contact-form")

    expect(unserved.part("plain")).to_be_visible()
    assert unserved.page.locator("[data-part=captcha]:enabled").count() == 0
    (message,) = said
    assert named in message


MOUNT = """async () => {
  window.init ??= (await import(new URL("contact-form.js", location))).init;
  window.place ??= document.querySelector("main");
  const [original] = document.getElementsByClassName("contact-form");
  window.markup ??= original.cloneNode(true);
  original?.remove();
  const copy = markup.cloneNode(true);
  place.append(copy);
  window.release = init(copy.querySelector("form"));
}"""
UNMOUNT = "() => { release(); place.lastElementChild.remove(); }"


def test_a_form_that_is_let_go_leaves_nothing(unserved: Visitor, website: Website) -> None:
    page = unserved.page
    website.edits["index.html"] = lambda text: text.replace('type="module" src', 'type="text/plain" src')
    unserved.open()
    devtools = page.context.new_cdp_session(page)

    def nodes() -> Any:
        devtools.send("HeapProfiler.collectGarbage")
        return devtools.send("Memory.getDOMCounters")["nodes"]

    def mount_and_unmount() -> None:
        page.evaluate("history.replaceState({contactForms: {'contact-form': {until: Date.now() + 3600e3}}}, '')")
        page.evaluate(MOUNT)
        page.evaluate(UNMOUNT)

    mount_and_unmount()
    before = nodes()
    for _ in range(20):
        mount_and_unmount()
    assert nodes() < before + 250, "as many as in one form"


def test_a_form_that_is_let_go_gives_the_page_its_title_back(unserved: Visitor) -> None:
    page = unserved.page
    page.evaluate(MOUNT)
    unserved.is_answered()
    for title in ("Contacto comercial", "Otra página"):
        unserved.fill_and_send()
        unserved.sees_the_end()
        expect(page.locator("#contact-intro")).to_be_hidden()
        if title == "Otra página":
            page.evaluate("document.title = 'Otra página'")
        page.evaluate(UNMOUNT)
        expect(page).to_have_title(title)
        expect(page.locator("#contact-intro")).to_be_visible()
        page.evaluate("history.replaceState(null, '')")  # as a router goes on to another page
        page.evaluate(MOUNT)


def test_what_a_form_that_is_let_go_sends_arrives(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.page.evaluate(MOUNT)
    visitor.page.evaluate("() => { const { form } = document.querySelector('[name=email]'); release(); init(form); }")
    visitor.fill()
    with visitor.page.expect_response("**/contact"):
        visitor.send()
        visitor.page.evaluate(UNMOUNT)

    assert "Nombre: María Ñúñez" in lines_of(mail_server)
    assert len(visitor.posts) == 1
    expect(visitor.page).to_have_title("Contacto comercial")


def test_what_ended_one_life_of_a_form_does_not_end_the_next(unserved: Visitor) -> None:
    unserved.page.evaluate(MOUNT)
    unserved.page.evaluate("() => { const end = release; end(); init(place.querySelector('form')); end(); }")
    assert unserved.page.evaluate("init(place.querySelector('form')) !== release")
    unserved.is_answered()
    unserved.fill_and_send()
    unserved.sees_the_end()
    expect(unserved.page.locator("#contact-intro")).to_be_hidden()


TAKEN = ["email", "nombre", "mensaje", "progress", *re.findall(r'<(?:input|select|textarea) id="([\w-]+)"', HTML)]
NEWSLETTER = "".join(f'<label for="{name}">Boletín {name}</label><input id="{name}">' for name in TAKEN)
"""Somebody else's fields, with the form's own ids and with those that everybody takes."""


def test_another_form_with_the_same_ids_costs_no_message(
    visitor: Visitor, website: Website, mail_server: SmtpServer
) -> None:
    website.edits["index.html"] = lambda page: page.replace("<main>", f"<main><form>{NEWSLETTER}</form>")
    visitor.open()
    ids = "[...document.querySelectorAll('[id]')].map(({ id }) => id)"
    assert visitor.page.evaluate(f"new Set({ids}).size === {ids}.length")
    visitor.fill(nombre="x" * 201)
    visitor.send()
    visitor.sees_a_fault_at("nombre", "Nombre y apellidos: escriba 200 caracteres como máximo.")
    visitor.field("nombre").fill("María")
    visitor.send()
    visitor.sees_the_end()
    assert "Nombre: María" in lines_of(mail_server)
    expect(visitor.page.locator("pre")).to_contain_text("Nombre y apellidos: María")


def test_no_id_of_the_form_is_one_that_others_take() -> None:
    ids = re.findall(r'\b(?:id|for|aria-describedby|aria-labelledby)="([^"]+)"', HTML)

    assert ids
    assert [name for name in ids if not name.startswith("contact-")] == []


def test_a_frame_without_a_history_sends_and_asks(unserved: Visitor) -> None:
    unserved.page.add_init_script("history.replaceState = () => { throw new DOMException('', 'SecurityError'); };")
    unserved.is_answered(500, error("internal_error"))
    unserved.open()
    unserved.fill_and_send()
    unserved.sees_a_summary(DOUBT)
    unserved.is_answered()
    unserved.wait()
    unserved.send(AGAIN)
    unserved.sees_the_end()
    assert "aviso=Puede+estar+repetida" in (unserved.posts[1].post_data or "")
