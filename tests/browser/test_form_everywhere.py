"""The form on small screens, in older browsers, in translated pages and among whatever else a website has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.browser.conftest import Edits, Visit
from tests.browser.relay import Relay
from tests.browser.steps import AGAIN, FULL, INTERNAL, OK, RECEIVED, adding, lines_of
from tests.browser.visitor import SCREENSHOTS, THEMES, Visitor
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server

SIZES: list[ViewportSize] = [{"width": w, "height": h} for w, h in ((360, 740), (360, 560), (740, 360), (1366, 600))]

YOUNG_STYLE = re.compile(r'light-dark(?=\()|(?<=:)has(?=\()|(?<=@media \()scripting| / ""')
YOUNG_NAMES = """
for (const [owner, names] of [
  [Element.prototype, ["ariaDisabled", "ariaInvalid"]], [URLSearchParams.prototype, ["size"]],
  [Promise, ["withResolvers", "try"]], [Object, ["groupBy"]], [HTMLElement.prototype, ["inert", "popover"]],
  [Array.prototype, ["findLast", "toSorted", "toReversed", "with"]], [AbortSignal, ["any", "timeout"]],
]) for (const name of names) delete owner[name];
"""
"""What no browser had in the spring of 2022: the form's README names those of then as the oldest."""


def test_an_older_browser_shows_each_field_and_sends(visitor: Visitor, edits: Edits, mail_server: SmtpServer) -> None:
    edits["contact-form.css"] = edits["page.css"] = lambda style: YOUNG_STYLE.sub("unknown", style)
    edits["index.html"] = lambda page: page.replace(" inert", "")
    visitor.page.add_init_script(YOUNG_NAMES)
    visitor.open()
    colours = "element => (({ borderTopColor, color }) => [borderTopColor, color])(getComputedStyle(element))"
    for theme in THEMES:
        visitor.page.emulate_media(color_scheme=theme)
        for field in visitor.page.locator("input:visible:not([type=radio]), textarea, canvas").all():
            assert field.evaluate(colours) == ["rgb(120, 133, 143)", "rgb(22, 34, 46)"]
        assert visitor.button("Enviar solicitud").evaluate(colours) == ["rgb(10, 90, 107)", "rgb(255, 255, 255)"]
        visitor.page.screenshot(path=SCREENSHOTS / f"outdated-{theme}.png", full_page=True)
    expect(visitor.field("tema")).to_be_hidden()
    visitor.field("mensaje").focus()
    visitor.page.keyboard.press("Tab")
    expect(visitor.field("captcha_input")).to_be_focused()  # and not the trap
    visitor.fill_and_send("ventas")
    visitor.sees_the_end()
    visitor.page.reload()
    visitor.sees_the_end()
    assert "Nombre: María Ñúñez" in lines_of(mail_server)


def correcting(visitor: Visitor) -> None:
    visitor.fill_and_send()
    visitor.button("Corregir el correo").click()


def waiting(visitor: Visitor) -> None:
    visitor.page.route("**/api/v1/contact", lambda _: None)
    visitor.fill()
    visitor.part("send").evaluate("row => { row.scrollIntoView(false); scrollBy(0, 4); }")
    visitor.send()
    expect(visitor.button("Enviando…")).to_be_visible()
    visitor.page.clock.run_for(5_000)
    expect(visitor.progress).to_be_in_viewport(ratio=0.95, timeout=4_000)  # before it offers to stop
    visitor.page.clock.run_for(8_000)


def slipping(visitor: Visitor) -> None:
    visitor.fill(email="maria@gmial.com")
    visitor.field("email").focus()
    visitor.field("email").blur()


SENT = Visitor.fill_and_send
REFUSED = {"status": 400, "body": '{"error":{"code":"invalid_email"}}'}
STATES: dict[str, tuple[dict[str, Any], Callable[[Visitor], None], list[str]]] = {
    "end": (OK, SENT, ["[data-part=end-title]"]),
    "question": (INTERNAL, SENT, ["[data-part=summary] strong", "[data-part=question]", "[data-part=progress]"]),
    "wait": ({"status": 429}, SENT, ["[data-part=summary]", "[data-part=send]", "[data-part=progress]"]),
    "refused": (REFUSED, SENT, ["label[for=email]", "#email", "#contact-form-email-error"]),
    "correction": (OK, correcting, ["#email", "#correction", "[data-part=cancel]"]),
    "waiting": (OK, waiting, ["[data-part=give-up]", "[data-part=progress]"]),
    "slip": (OK, slipping, ["#email", "[data-part=meant]"]),
    "faults": (OK, Visitor.send, ["[data-part=faults] strong"]),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size['width']}x{size['height']}")
@pytest.mark.parametrize("state", STATES)
def test_what_was_just_said_is_in_view(unserved: Visitor, state: str, size: ViewportSize) -> None:
    answer, step, said = STATES[state]
    unserved.page.set_viewport_size(size)
    unserved.is_answered(rate_limit=FULL, **answer)
    unserved.take_clock()
    step(unserved)
    for part in said:
        expect(unserved.page.locator(part)).to_be_in_viewport(ratio=0.95)
    unserved.page.screenshot(path=SCREENSHOTS / f"view-{state}-{size['width']}x{size['height']}.png")


def test_forced_colours_and_large_text(unserved: Visitor) -> None:
    unserved.page.set_viewport_size(SIZES[0])
    unserved.page.emulate_media(forced_colors="active")
    unserved.send()
    for described in unserved.page.locator("#nombre, .kinds label").all():
        assert described.evaluate("element => parseFloat(getComputedStyle(element).borderTopWidth)") > 2
    unserved.page.screenshot(path=SCREENSHOTS / "forced-colours.png", full_page=True)
    unserved.page.evaluate("document.documentElement.style.fontSize = '200%'")
    too_wide = "all => all.filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.outerHTML)"
    boxes = unserved.page.locator(".contact-form :is(div:not(.visually-hidden), fieldset, button, p, a)")
    assert boxes.evaluate_all(too_wide) == []
    assert unserved.page.evaluate("document.documentElement.scrollWidth") == 360


TRANSLATE = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const nodes = [];
while (walker.nextNode()) nodes.push(walker.currentNode);
for (const node of nodes) {
  if (!node.data.trim() || node.parentElement.closest("[translate=no], script")) continue;
  const [outer, inner] = [document.createElement("font"), document.createElement("font")];
  inner.textContent = `<${node.data}>`;
  outer.append(inner);
  node.replaceWith(outer);
}
"""
"""What browsers do to a page in which they translate: each text in two elements of its own."""


def test_a_translated_page_sends_what_the_sales_team_reads(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.page.evaluate(TRANSLATE)
    visitor.fill("ventas", mensaje="x" * 5001)
    visitor.field("tema").select_option(index=1)
    visitor.send()
    visitor.sees_a_fault_at("mensaje", "<Mensaje >: escriba 5000 caracteres como máximo.")
    visitor.field("mensaje").fill("Hola.")
    visitor.send()
    visitor.sees_the_end()
    visitor.page.evaluate(TRANSLATE)
    assert "Tema: Tarifas y condiciones" in lines_of(mail_server)
    copied = visitor.page.locator("pre").text_content()
    assert copied
    assert copied.split("\n")[:2] == ["< Hablar con ventas>", "<Tema >: Tarifas y condiciones"]
    expect(visitor.page.locator("[data-part=reference]")).to_have_text(re.compile("^[0-9A-F]{4}-[0-9A-F]{4}$"))


WEBSITE = """
<header><h1>Sitio</h1><nav><ul><li><a href="/">Inicio</a></li></ul></nav>
<form class="search"><label>Buscar <input name="q"></label><button>Buscar</button></form></header><p hidden>x</p>"""


def test_the_style_sheet_touches_nothing_but_the_form(unserved: Visitor, edits: Edits) -> None:
    edits["index.html"] = lambda page: page.replace("<main>", f"{WEBSITE}<main>")
    edits["page.css"] = lambda _: ""
    unserved.open()
    looks = """() => [...document.querySelectorAll("html, body, body > header, body > header *")]
      .map(each => [...getComputedStyle(each)].map(name => getComputedStyle(each)[name]).join())"""
    dressed = unserved.page.evaluate(looks)
    unserved.page.evaluate("document.querySelector('[href=\"contact-form.css\"]').disabled = true")
    bare = unserved.page.evaluate(looks)

    heights = re.compile(r"\d+(\.\d+)?px")  # the page is as high as the form in it
    assert len(dressed) > 10
    assert [heights.sub("", each) for each in dressed[:2]] == [heights.sub("", each) for each in bare[:2]]
    assert dressed[2:] == bare[2:]


def test_each_form_of_a_page_has_a_life_of_its_own(
    visitor: Visitor, edits: Edits, mail_server: SmtpServer, relay: Relay
) -> None:
    page = visitor.page
    form = re.compile(r'(?s)<div class="contact-form".*(?=</main>)')
    edits["index.html"] = lambda text: form.sub(r"\g<0>\g<0><template>\g<0></template>", text)
    visitor.open()
    page.evaluate("""async () => {
      document.querySelector("main").prepend(document.importNode(document.querySelector("template").content, true));
      const { init } = await import(new URL("contact-form.js", location));
      for (const form of document.forms) init(form);
    }""")
    roots = page.locator(".contact-form").all()
    assert len(roots) == 3
    ids = page.locator("[id]").evaluate_all("all => all.map(({ id }) => id)")
    assert len(set(ids)) == len(ids)

    for number, root in enumerate(roots):
        root.get_by_label("Pedir una demostración").check()
        root.get_by_label("Correo electrónico").fill("maria@example.com")
        root.get_by_role("button", name="Escuchar").click()
        code = re.sub(r"\W", "", page.evaluate("window.spoken"))
        root.get_by_label("Código de la imagen", exact=True).fill(code)
        root.get_by_role("button", name="Enviar solicitud").click()
        expect(root.locator(".error", has_text="Escriba su nombre.")).to_be_visible()
        expect(page.locator(".error:visible")).to_have_count(1)
        root.get_by_label("Nombre y apellidos").fill("María")
        relay.take_new_address()
        root.get_by_role("button", name="Enviar solicitud").click()
        expect(root.get_by_role("heading", name=RECEIVED)).to_be_visible()
        assert "Nombre: María" in lines_of(mail_server, number)


EVENTS = """
window.events = [];
for (const name of ["contact:sent", "contact:error"])
  document.addEventListener(name, ({ type, detail, target }) => events.push([type, detail, target.id]));
window.fetch = (send => (url, options) => {
  window.credentials = options.credentials;
  return send(url, options);
})(fetch);
"""
ADDED = """<input type="hidden" name="origen" value="portada">
<label><input type="checkbox" name="acepta_boletin" value="sí" checked> Boletín</label>"""


def test_the_website_fills_in_adds_and_is_told(
    service: Server, visit: Visit, edits: Edits, mail_server: SmtpServer
) -> None:
    query = "?tipo=ventas&email=ana%40example.com&nombre=Ana&empresa=Caf%C3%A9&mensaje=Hola.&utm_source=boletin&otro=x"
    visitor = visit(service.port, query=query)
    edits["index.html"] = adding(ADDED)
    visitor.page.add_init_script(EVENTS)
    visitor.open()
    expect(visitor.page.locator("[value=ventas]")).to_be_checked()
    for name, value in {"email": "ana@example.com", "nombre": "Ana", "empresa": "Café", "mensaje": "Hola."}.items():
        expect(visitor.field(name)).to_have_value(value)

    visitor.solve()
    visitor.page.context.set_offline(True)
    visitor.send()
    visitor.sees_a_summary("No hay conexión")
    visitor.page.context.set_offline(False)
    visitor.send(AGAIN)
    visitor.sees_the_end()

    lines = lines_of(mail_server)
    assert {"Origen: portada", "Acepta boletin: sí", "Utm source: boletin", "Empresa: Café"} <= set(lines)
    detail = {"reference": lines[0].removeprefix("Referencia: "), "form_type": "ventas"}
    events = [["contact:error", {"code": "offline"}, "contact-form"], ["contact:sent", detail, "contact-form"]]
    assert visitor.page.evaluate("events") == events
    assert visitor.page.evaluate("credentials") == "omit"


SLIPS = {
    "gmial.com": "maria@gmail.com",
    "gmail.con": "maria@gmail.com",
    "gmail.co": "maria@gmail.com",
    "hotmial.com": "maria@hotmail.com",
    "outlok.com": "maria@outlook.com",
    "yahooo.com": "maria@yahoo.com",
} | dict.fromkeys(["gmail.com", "mail.com", "ymail.com", "yahoo.es", "example.com", ""], "")
LEAVE_EACH = """(email, domains) => domains.map(domain => {
  email.value = `maria@${domain}`;
  email.dispatchEvent(new Event("change", { bubbles: true }));
  return document.querySelector("[data-part=slip] button").innerText;
})"""
"""What is asked after each domain; a text that is not seen is empty."""


def test_a_slip_in_the_domain_is_asked_about_and_never_refused(unserved: Visitor) -> None:
    unserved.is_answered(**OK)
    meant = unserved.part("meant")
    assert unserved.field("email").evaluate(LEAVE_EACH, [*SLIPS]) == [*SLIPS.values()]

    unserved.fill(email="maria@gmial.com")
    unserved.field("email").blur()
    expect(unserved.status).to_have_text(re.compile(r"¿Quiso escribir esta dirección\?\s+maria@gmail\.com"))
    meant.click()
    expect(unserved.field("email")).to_be_focused()
    expect(unserved.field("email")).to_have_value("maria@gmail.com")
    expect(meant).to_be_hidden()

    unserved.field("email").fill("maria@gmial.com")
    unserved.field("email").press("Enter")
    expect(meant).to_be_focused()  # asked once
    unserved.send()
    unserved.sees_the_end()


def test_the_fields_tell_browsers_what_they_are(unserved: Visitor) -> None:
    names = unserved.page.locator("[autocorrect=off]").evaluate_all("all => all.map(({ name }) => name)")
    parts = unserved.page.locator("[data-part][translate=no]").evaluate_all("all => all.map(it => it.dataset.part)")
    assert set(names) >= {"email", "captcha_input"}
    assert set(parts) >= {"image", "reference", "address", "copy", "meant"}
    expect(unserved.field("email")).to_have_attribute("title", "Ejemplo: nombre@example.com")
    groups = unserved.page.locator("fieldset:visible")
    expect(groups).to_have_count(3)
    expect(groups.nth(0)).to_have_accessible_name("Datos de la solicitud")
    expect(groups.nth(1)).to_have_accessible_name("¿En qué podemos ayudarle?")
    expect(groups.nth(2)).to_have_accessible_name("Comprobación")
