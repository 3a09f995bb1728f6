"""The element ``<contact-form>`` in the two lines of the README, and what frameworks do to elements."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.servers import ELEMENT, Relay, Website
from tests.browser.visitor import Visitor, lines_of
from tests.mail.server import SmtpServer


@pytest.fixture
def element(visit: Visit, relay: Relay) -> Visitor:
    visitor = visit(relay.server_port)
    visitor.open(ELEMENT)
    return visitor


@pytest.mark.every_browser
def test_two_lines_are_a_form(element: Visitor, mail_server: SmtpServer) -> None:
    element.fill("ventas")
    element.field("tema").select_option("Otro tema")
    element.record("element")
    element.send()
    element.sees_the_end()
    assert {"Tema: Otro tema", "Nombre: María Ñúñez", f"Página: {element.url}{ELEMENT}"} <= set(lines_of(mail_server))
    element.page.reload()
    element.sees_the_end()


ATTRIBUTES = 'lang="es-MX" privacy="/aviso-legal" home="/inicio" data-intro="intro"'
ALTERNATIVE = "Si no puede leer la imagen"


def test_its_attributes_say_what_differs_between_websites(element: Visitor, website: Website) -> None:
    page = element.page
    expect(page.get_by_text(ALTERNATIVE)).to_contain_text("ventas@example.com")
    expect(page.get_by_role("link", name="ventas@example.com")).to_have_attribute("href", "mailto:ventas@example.com")
    expect(page.get_by_role("link", name="Política de privacidad")).to_have_attribute("href", "/privacidad")
    expect(page.locator(".contact-form")).to_have_attribute("lang", "es")

    website.edits[ELEMENT] = lambda page: re.sub('email="[^"]*"', ATTRIBUTES, page).replace("<h1>", '<h1 id="intro">')
    element.is_answered()
    element.open(ELEMENT)
    expect(page.get_by_text(ALTERNATIVE)).to_be_hidden()
    expect(page.get_by_role("link", name="Política de privacidad")).to_have_attribute("href", "/aviso-legal")
    expect(page.locator(".contact-form")).to_have_attribute("lang", "es-MX")
    element.fill_and_send()
    element.sees_the_end()
    expect(page.get_by_role("link", name="Volver a la página principal")).to_have_attribute("href", "/inicio")
    expect(page.locator("h1:visible")).to_have_count(1)


def test_without_an_address_it_says_so_and_takes_a_later_one(element: Visitor, website: Website) -> None:
    action = element.page.locator("contact-form").get_attribute("action")
    website.edits[ELEMENT] = lambda page: re.sub(' action="[^"]*"', "", page)
    said: list[str] = []
    element.page.on("console", lambda message: said.append(message.text))
    element.open(ELEMENT)
    expect(element.part("captcha")).to_have_attribute("disabled", "")
    assert ["missing action" in text for text in said] == [True]

    element.page.locator("contact-form").evaluate("(it, action) => it.setAttribute('action', action)", action)
    element.is_answered()
    element.fill_and_send()
    element.sees_the_end()


MOVES = {
    "moved": "element => document.body.append(element)",
    "kept by Turbo": "element => element.replaceWith(element.cloneNode(true))",
}


@pytest.mark.parametrize("way", MOVES)
def test_a_page_that_swaps_its_content_has_a_form_that_lives(
    element: Visitor, mail_server: SmtpServer, way: str
) -> None:
    element.fill()
    element.page.locator("contact-form").evaluate(MOVES[way])
    element.still_has_what_was_typed()
    element.solve()
    element.send()
    element.sees_the_end()
    assert len(element.posts) == len(mail_server.arrivals) == 1
    element.page.locator("contact-form").evaluate(MOVES[way])
    element.sees_the_end()


def test_a_page_that_was_kept_keeps_its_own_title(element: Visitor) -> None:
    page, title = element.page, "Contacto comercial"
    for _ in range(2):
        element.send()
        expect(page).to_have_title(f"Error: {title}")
        page.evaluate("""() => {
          const [element] = document.getElementsByTagName("contact-form");
          const [copy, title] = [element.cloneNode(true), document.title];
          element.remove();
          document.title = title;
          document.querySelector("main").append(copy);
        }""")
    expect(page).to_have_title(title)


def test_an_element_that_is_left_while_it_sends_comes_back_alive(element: Visitor, mail_server: SmtpServer) -> None:
    """As Turbo does with a page that is left and returned to."""
    page = element.page
    element.fill()
    page.evaluate("""() => {
      const element = document.querySelector("contact-form");
      element.querySelector("form").addEventListener("submit", () => setTimeout(() => {
        window.kept = element.cloneNode(true);
        element.remove();
      }));
    }""")
    with page.expect_response("**/contact"):
        element.send()
    assert len(mail_server.arrivals) == 1
    page.evaluate("document.body.append(kept.cloneNode(true))")
    element.sees_a_summary("No sabemos si su solicitud ha llegado")
    expect(element.button("No, dejarlo así")).to_be_enabled()
    expect(element.field("nombre")).to_be_enabled()

    # A router that keeps nothing of what others keep in the history loses the question, and never the form.
    for kept in ("document.querySelector('contact-form')", "kept"):  # which asks, and which sends
        page.evaluate(f"""() => {{
          const copy = {kept}.cloneNode(true);
          history.replaceState(null, "");
          document.querySelector("contact-form").replaceWith(copy);
        }}""")
        expect(element.button("Enviar solicitud")).to_be_enabled()
        expect(element.summary).to_be_hidden()
        expect(element.part("question")).to_be_hidden()


def test_elements_that_come_and_go_leave_nothing(element: Visitor) -> None:
    page = element.page
    devtools = page.context.new_cdp_session(page)
    swap = """() => {
      const old = document.querySelector("contact-form"), young = document.createElement("contact-form");
      young.setAttribute("action", "/contact");
      old.replaceWith(young);
    }"""

    def nodes(swaps: int) -> int:
        for _ in range(swaps):
            page.evaluate(swap)
        devtools.send("HeapProfiler.collectGarbage")
        return int(devtools.send("Memory.getDOMCounters")["nodes"])

    before = nodes(5)
    assert nodes(20) < before + 1000, "a form has 300"
    expect(page.locator("contact-form form")).to_have_count(1)


def test_two_elements_share_no_id(element: Visitor, website: Website) -> None:
    website.edits[ELEMENT] = lambda page: re.sub("(?s)<contact-form.*</contact-form>", r"\g<0>\g<0>", page)
    element.open(ELEMENT)
    ids = element.page.locator("contact-form [id]").evaluate_all("all => all.map(({ id }) => id)")
    assert len(set(ids)) == len(ids) > 20


def test_what_stands_in_it_is_for_those_without_javascript(unserved: Visitor, website: Website) -> None:
    website.edits[ELEMENT] = lambda page: page.replace("></contact-form>", ">Llame al 600 000 000.</contact-form>")
    unserved.open(ELEMENT)
    expect(unserved.page.locator("form")).to_have_count(1)
    expect(unserved.page.get_by_text("600 000 000")).to_be_hidden()
    unserved.page.route("**/contact-form-element.js", lambda route: route.abort())
    unserved.open(ELEMENT)
    expect(unserved.page.get_by_text("600 000 000")).to_be_visible()
