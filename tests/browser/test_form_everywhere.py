"""The form on small screens, in older browsers, in translated pages, on paper and among whatever else a website has."""

import re
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import expect

from tests.browser.servers import LANDING, Website
from tests.browser.visitor import AGAIN, VIEWPORTS, Visitor, adding, lines_of
from tests.mail.server import SmtpServer, parse

YOUNG_STYLE = re.compile(r'light-dark(?=\()|(?<=:)has(?=\()|(?<=@media \()scripting| / ""')
YOUNG_NAMES = """
for (const [owner, names] of [
  [Element.prototype, ["ariaDisabled", "ariaInvalid"]], [HTMLElement.prototype, ["inert", "popover"]],
  [URLSearchParams.prototype, ["size"]], [AbortSignal, ["any", "timeout"]],
]) for (const name of names) delete owner[name];
"""
"""What no browser had in the spring of 2022. Of the language itself, tsc allows only what they had."""


def test_an_older_browser_shows_each_field_and_sends(
    visitor: Visitor, website: Website, mail_server: SmtpServer
) -> None:
    website.edits["contact-form.css"] = website.edits["page.css"] = lambda style: YOUNG_STYLE.sub("unknown", style)
    website.edits["index.html"] = lambda page: page.replace(" inert", "")
    visitor.page.add_init_script(YOUNG_NAMES)
    visitor.open()
    visitor.page.emulate_media(color_scheme="dark")
    expect(visitor.field("nombre")).to_have_css("color", "rgb(22, 34, 46)")
    expect(visitor.button("Enviar solicitud")).to_have_css("background-color", "rgb(10, 90, 107)")
    expect(visitor.field("tema")).to_be_hidden()
    visitor.field("mensaje").focus()
    visitor.page.keyboard.press("Tab")
    expect(visitor.button("Otra imagen")).to_be_focused()  # and not the trap
    visitor.fill_and_send("ventas")
    visitor.sees_the_end()
    assert "Nombre: María Ñúñez" in lines_of(mail_server)


def test_forced_colours_and_large_text(unserved: Visitor) -> None:
    unserved.page.set_viewport_size(VIEWPORTS["phone"])
    unserved.page.emulate_media(forced_colors="active")
    unserved.send()
    for described in unserved.page.locator("#contact-form-nombre, .kinds label").all():
        assert described.evaluate("element => parseFloat(getComputedStyle(element).borderTopWidth)") > 2
    unserved.page.evaluate("document.documentElement.style.fontSize = '200%'")
    too_wide = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.outerHTML)"
    boxes = unserved.page.locator(".contact-form :is(div:not(.visually-hidden), fieldset, button, p, a)")
    assert boxes.evaluate_all(too_wide) == []
    assert unserved.page.evaluate("document.documentElement.scrollWidth") == VIEWPORTS["phone"]["width"]


TRANSLATE = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const nodes = [];
while (walker.nextNode()) nodes.push(walker.currentNode);
for (const node of nodes) {
  if (!node.data.trim() || node.parentElement.closest("[translate=no], script")) continue;
  const font = document.createElement("font");
  font.textContent = `<${node.data}>`;
  node.replaceWith(font);
}
"""
"""What browsers do to a page in which they translate: each text in an element of its own."""


def test_a_translated_page_sends_what_the_sales_team_reads(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.page.evaluate(TRANSLATE)
    visitor.fill("ventas", mensaje="x" * 5001)
    visitor.field("tema").select_option(index=1)
    visitor.send()
    visitor.sees_a_fault_at("mensaje", "<Mensaje >: escriba 5000 caracteres como máximo.")
    visitor.field("mensaje").fill("Hola.")
    visitor.send()
    visitor.sees_the_end()
    assert "Tema: Tarifas y condiciones" in lines_of(mail_server)
    expect(visitor.page.locator("pre")).to_contain_text("<Tema >: Tarifas y condiciones")


def test_the_confirmation_is_printed_on_one_sheet(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.fill_and_send(mensaje="Una línea del mensaje.\n" * 200)
    visitor.sees_the_end()
    visitor.page.get_by_text("Copia de su solicitud").click()

    visitor.page.emulate_media(color_scheme="dark", media="print")
    printed = visitor.page.pdf(format="A4")

    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
    expect(visitor.confirmation).to_contain_text(parse(mail_server.arrivals[0])["X-Reference"])
    expect(visitor.page.locator("pre")).to_be_hidden()
    expect(visitor.page.locator("button:visible")).to_have_count(0)
    assert visitor.confirmation.evaluate("element => getComputedStyle(element).color") == "rgb(22, 34, 46)"


WEBSITE = """
<header><h1>Sitio</h1><nav><ul><li><a href="/">Inicio</a></li></ul></nav>
<form class="search"><label>Buscar <input name="q"></label><button>Buscar</button></form></header><p hidden>x</p>"""


def test_the_style_sheet_touches_nothing_but_the_form(unserved: Visitor, website: Website) -> None:
    website.edits["index.html"] = lambda page: page.replace("<main>", f"{WEBSITE}<main>")
    website.edits["page.css"] = lambda _: ""
    unserved.open()
    looks = """() => [...document.querySelectorAll("body > header, body > header *")]
      .map(each => [...getComputedStyle(each)].map(name => getComputedStyle(each)[name]).join())"""
    dressed = unserved.page.evaluate(looks)
    unserved.page.evaluate("document.querySelector('[href=\"contact-form.css\"]').disabled = true")

    assert len(dressed) == 10
    assert unserved.page.evaluate(looks) == dressed


@pytest.mark.parametrize("number", range(3), ids=["added later", "first", "second"])
def test_each_form_of_a_page_has_a_life_of_its_own(
    visitor: Visitor, website: Website, mail_server: SmtpServer, number: int
) -> None:
    page = visitor.page
    form = re.compile(r'(?s)<div class="contact-form".*(?=</main>)')
    website.edits["index.html"] = lambda text: form.sub(r"\g<0>\g<0><template>\g<0></template>", text)
    visitor.open()
    page.evaluate("""async () => {
      document.querySelector("main").prepend(document.importNode(document.querySelector("template").content, true));
      const { init } = await import(new URL("contact-form.js", location));
      for (const form of document.forms) init(form);
    }""")
    ids = page.locator("[id]").evaluate_all("all => all.map(({ id }) => id)")
    assert len(set(ids)) == len(ids)

    root = page.locator(".contact-form").nth(number)
    root.get_by_label("Pedir una demostración").check()
    root.get_by_label("Correo electrónico").fill("maria@example.com")
    root.get_by_role("button", name="Escuchar").click()
    root.get_by_label("Código de la imagen", exact=True).fill(page.evaluate("window.spoken").replace(".", ""))
    root.get_by_role("button", name="Enviar solicitud").click()
    expect(root.locator(".error", has_text="Escriba su nombre.")).to_be_visible()
    expect(page.locator(".error:visible")).to_have_count(1)
    root.get_by_label("Nombre y apellidos").fill("María")
    root.get_by_role("button", name="Enviar solicitud").click()
    expect(root.get_by_role("heading", name="Hemos recibido su solicitud")).to_be_visible()
    assert "Nombre: María" in lines_of(mail_server)


EVENTS = """
window.events = [];
for (const name of ["contact:sent", "contact:error"])
  document.addEventListener(name, ({ type, detail, target }) => events.push([type, detail, target.id]));
"""
ADDED = """<input type="hidden" name="origen" value="portada">
<label><input type="checkbox" name="acepta_boletin" value="sí" checked> Boletín</label>"""


def test_the_website_fills_in_adds_and_is_told(visitor: Visitor, website: Website, mail_server: SmtpServer) -> None:
    query = "?tipo=ventas&email=ana%40example.com&nombre=Ana&empresa=Caf%C3%A9&mensaje=Hola.&utm_source=boletin&otro=x"
    website.edits["index.html"] = adding(ADDED)
    visitor.page.add_init_script(EVENTS)
    visitor.open(query)
    visitor.solve()
    visitor.page.context.set_offline(True)
    visitor.send()
    visitor.sees_a_summary("Su solicitud no se ha enviado", "No hay conexión a internet: envíela cuando la recupere.")
    visitor.record("offline")
    visitor.page.context.set_offline(False)
    visitor.send(AGAIN)
    visitor.sees_the_end()

    lines = lines_of(mail_server)
    assert not [line for line in lines if "Aviso" in line]
    filled_in = {"Nombre: Ana", "Empresa: Café", "Correo electrónico: ana@example.com", "Hola."}
    added = {"Origen: portada", "Acepta boletin: sí", "Campaña: boletin", f"Página: {visitor.url}"}
    assert filled_in | added <= set(lines)
    detail = {"reference": lines[0].removeprefix("Referencia: "), "form_type": "ventas"}
    events = [["contact:error", {"code": "offline"}, "contact-form"], ["contact:sent", detail, "contact-form"]]
    assert visitor.page.evaluate("events") == events


ADVERTISEMENT = (
    "?utm_source=google&utm_medium=cpc&utm_campaign=tpv-oto%C3%B1o&utm_id=7&utm_term=&correo=ana@example.com"
)


@pytest.mark.every_browser
def test_the_campaign_survives_the_way_to_the_form(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.open(LANDING + ADVERTISEMENT)
    visitor.page.get_by_role("link", name="Contacto").click()
    visitor.fill_and_send()
    visitor.sees_the_end()

    lines = lines_of(mail_server)
    others = lines[lines.index("Otros datos") : lines.index("Mensaje")]
    assert others[2:-1] == ["Utm id: 7", "Campaña: google · cpc · tpv-otoño", f"Página: {visitor.url}"]


NO_STORAGE = """Object.defineProperty(window, "sessionStorage", { get() { throw new DOMException("forbidden"); } });"""
JOURNEYS: dict[str, tuple[list[str], str]] = {
    "two campaigns": ([f"{LANDING}?gclid=1", LANDING, "?gclid=2&utm_source=x"], "gclid=1"),
    "no campaign": ([f"{LANDING}?utm_source=", "?otro=x"], ""),
    "a campaign after one without a name": ([f"{LANDING}?utm_source=", "?utm_id=7"], "utm_id=7"),
    "a link to the form": (["?gclid=1", LANDING, ""], "gclid=1"),
    "no module on the first page": ([f"{LANDING}?gclid=1", ""], ""),
    "no storage": ([f"{LANDING}?gclid=1", ""], ""),
    "no storage, but a link to the form": (["?gclid=1"], "gclid=1"),
}
"""The pages that a visitor opens, and what the form sends of their campaigns."""


@pytest.mark.parametrize("journey", JOURNEYS)
def test_the_first_campaign_that_the_module_sees_is_sent(unserved: Visitor, website: Website, journey: str) -> None:
    pages, campaign = JOURNEYS[journey]
    if "no module" in journey:
        website.edits[LANDING] = lambda page: page.replace("contact-form.js", "")
    if "no storage" in journey:
        unserved.page.add_init_script(NO_STORAGE)
    unserved.is_answered()
    for page in pages:
        unserved.open(page)
    unserved.fill_and_send()
    unserved.sees_the_end()

    sent = parse_qsl(unserved.posts[0].post_data)
    assert [it for it in sent if it[0].startswith(("utm", "gclid", "otro"))] == parse_qsl(campaign)


SLIPS = {"gmial.com": "maria@gmail.com", "gmail.co": "maria@gmail.com", "yahooo.com": "maria@yahoo.com"}
SLIPS |= dict.fromkeys(["gmail.com", "mail.com", "ymail.com", "yahoo.es", "example.com", ""], "")
LEAVE_EACH = """(email, domains) => domains.map(domain => {
  email.value = `maria@${domain}`;
  email.dispatchEvent(new Event("change", { bubbles: true }));
  return document.querySelector("[data-part=slip] button").innerText;
})"""
"""What is asked after each domain; a text that is not seen is empty."""


def test_a_slip_in_the_domain_is_asked_about_and_never_refused(unserved: Visitor) -> None:
    unserved.is_answered()
    email, meant = unserved.field("email"), unserved.part("meant")
    assert email.evaluate(LEAVE_EACH, [*SLIPS]) == [*SLIPS.values()]

    unserved.fill(email="maria@gmial.com")
    email.blur()
    expect(unserved.status).to_have_text(re.compile(r"¿Quiso escribir esta dirección\?\s+maria@gmail\.com"))
    meant.click()
    expect(email).to_be_focused()
    expect(email).to_have_value("maria@gmail.com")
    email.fill("maria@gmial.com")
    email.press("Enter")
    expect(meant).to_be_focused()  # asked once
    unserved.send()
    unserved.sees_the_end()
