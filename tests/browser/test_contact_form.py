"""The example form in a real browser, across origins: what its visitors fill in and what arrives at the sales team."""

import json
import re
import threading
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.api.contact import ACCEPTED
from app.contact.content import ASKED
from app.forms import FORM_TITLES, FORM_TYPES
from tests.browser.conftest import CHROMIUM
from tests.browser.servers import Relay, Website
from tests.browser.visitor import COUNTDOWN_ENDS, FIELDS, SMALL_PHONE, WAYS, Visitor, lines_of
from tests.mail.server import SmtpServer, parse

OWN_FIELDS = {
    "ventas": {"tema": "Integración técnica"},
    "onboarding": {"sector": "Hostelería y restauración", "volumen_mensual": "De 10.000 a 50.000 €"},
    "distribuidor": {"tipo_de_partner": "Revendedor"},
}
"""What only this form type asks."""

TRAP = "_bp_check"


@pytest.mark.every_browser
@pytest.mark.parametrize("kind", FORM_TYPES)
def test_each_kind_of_form_arrives_field_by_field(visitor: Visitor, mail_server: SmtpServer, kind: str) -> None:
    own = OWN_FIELDS.get(kind, {})
    visitor.choose("ventas")
    visitor.field("tema").select_option("Otro tema")  # another kind's is neither seen nor sent
    visitor.fill(kind)
    for name, value in own.items():
        visitor.field(name).select_option(value)
    expect(visitor.page.locator("select:visible")).to_have_count(len(own))
    visitor.record(f"form-{kind}")
    clicked = threading.Event()
    mail_server.on_message = lambda: None if clicked.wait(60) else mail_server.disconnect()
    visitor.button("Enviar solicitud").dblclick()
    clicked.set()

    visitor.sees_the_end()
    expect(visitor.confirmation.locator("pre")).not_to_contain_text("Otro tema")
    visitor.record(f"sent-{kind}")
    (arrival,) = mail_server.arrivals
    assert parse(arrival)["Reply-To"] == "María Ñúñez <maria@example.com>"
    reference = parse(arrival)["X-Reference"]
    assert parse(arrival)["Subject"] == f"{FORM_TITLES[kind].short}: Comercio Ejemplo S.L. · {reference}"
    expect(visitor.confirmation).to_contain_text(f"{reference} Referencia. Téngala a mano")
    assert lines_of(mail_server) == [
        f"Referencia: {reference}",
        "",
        "Nombre: María Ñúñez",
        "Empresa: Comercio Ejemplo S.L.",
        "Correo electrónico: maria@example.com",
        "Teléfono: +34 600 000 000",
        "",
        *(f"{ASKED[name]}: {value}" for name, value in own.items()),
        *([""] if own else []),
        "Otros datos",
        "",
        f"Página: {visitor.url}",
        "",
        "Mensaje",
        "",
        "Quisiera una demostración.",
        "¿Es posible el jueves?",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_a_confirmation_that_comes_back_can_be_corrected(visitor: Visitor, mail_server: SmtpServer, way: str) -> None:
    comes_back = WAYS[way]
    visitor.page.set_viewport_size(SMALL_PHONE)
    visitor.fill_and_send("ventas", email="  maria@exmaple.com ")

    visitor.sees_the_end()
    comes_back(visitor.page)
    visitor.sees_the_end()
    expect(visitor.confirmation).to_contain_text("Le responderemos a maria@exmaple.com en un día hábil.")
    reference = parse(mail_server.arrivals[0])["X-Reference"]
    expect(visitor.confirmation).to_contain_text(reference)

    # The typo shows, and can be corrected without typing anything else again, or left.
    visitor.button("Corregir el correo").click()
    visitor.field("email").fill("")
    visitor.button("Cancelar la corrección").click()
    visitor.sees_the_end()
    expect(visitor.field("email")).to_have_value("maria@exmaple.com")
    visitor.button("Corregir el correo").click()
    comes_back(visitor.page)
    note = f"Esta solicitud corrige el correo de la solicitud {reference}."
    expect(visitor.field("email")).to_have_accessible_description(note)
    expect(visitor.field("email")).to_be_focused()
    visitor.still_has_what_was_typed(email=re.compile("maria@exmaple.com"))
    visitor.field("email").fill("maria@example.com")
    visitor.solve()
    visitor.wait()
    visitor.send()

    visitor.sees_the_end()
    expect(visitor.confirmation).to_contain_text("Le responderemos a maria@example.com")
    assert {f"Aviso: {note}", "Nombre: María Ñúñez"} <= set(lines_of(mail_server, 1))

    # Another request corrects nothing, and waits for the quota of the first.
    visitor.button("Enviar otra solicitud").click()
    expect(visitor.field("form_type").first).to_be_focused()
    expect(visitor.field("mensaje")).to_have_value("")
    expect(visitor.button("Enviar solicitud")).to_be_disabled()
    visitor.fill()
    visitor.wait()
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS)
    visitor.send()
    visitor.sees_the_end()
    assert not [line for line in lines_of(mail_server, 2) if "Aviso" in line]
    visitor.button("Enviar otra solicitud").click()
    comes_back(visitor.page)
    expect(visitor.field("mensaje")).to_have_value("")


@pytest.mark.parametrize("browser", [CHROMIUM], indirect=True)
def test_neither_people_nor_the_browsers_autofill_meet_the_honeypot(unserved: Visitor) -> None:
    devtools = unserved.page.context.new_cdp_session(unserved.page)
    tree = json.dumps(devtools.send("Accessibility.getFullAXTree"), ensure_ascii=False)
    assert "Correo electrónico" in tree
    assert "Deje este campo vacío" not in tree
    unserved.field(TRAP).evaluate("field => field.focus()")
    expect(unserved.field(TRAP)).not_to_be_focused()

    saved = {"NAME_FULL": "María", "ADDRESS_HOME_CITY": "Madrid", "ADDRESS_HOME_COUNTRY": "ES"}
    address = {"fields": [{"name": name, "value": value} for name, value in saved.items()]}
    root = devtools.send("DOM.getDocument")["root"]["nodeId"]
    field = devtools.send("DOM.querySelector", {"nodeId": root, "selector": "#contact-form-nombre"})
    node = devtools.send("DOM.describeNode", field)["node"]
    devtools.send("Autofill.trigger", {"fieldId": node["backendNodeId"], "address": address})
    expect(unserved.field("nombre")).to_have_value("María")
    expect(unserved.field(TRAP)).to_have_value("")


@pytest.mark.every_browser
def test_the_keyboard_alone_is_enough(visitor: Visitor, mail_server: SmtpServer) -> None:
    page = visitor.page
    keys = page.keyboard

    def tab_to(name: str) -> None:
        keys.press("Tab")
        focused = page.locator(":focus")
        assert focused.evaluate("element => element.name || element.dataset.part") == name
        expect(focused).to_have_css("outline-style", "solid")

    tab_to("form_type")
    keys.press("ArrowDown")
    tab_to("tema")
    keys.press("T")
    on_the_page = page.locator(":is(input, textarea):not([type=radio]):visible").evaluate_all(
        "all => all.map(it => it.name)"
    )
    for name in on_the_page[: on_the_page.index("mensaje")]:
        tab_to(name)
        keys.type(FIELDS.get(name, "x"))
    tab_to("mensaje")
    keys.type("Hola.")
    tab_to("renew")
    tab_to("listen")
    keys.press("Space")
    tab_to("captcha_input")
    keys.type(page.evaluate("window.spoken").replace(".", ""))
    keys.press("Enter")

    visitor.sees_the_end()
    assert {"Tema: Tarifas y condiciones", "Hola."} <= set(lines_of(mail_server))


MODULE = "**/contact-form.js"


def recode(route: Route) -> None:
    """Answer with the page in an encoding that has not all characters."""
    body = route.fetch().text().encode("cp1252", "xmlcharrefreplace")
    route.fulfill(body=body, content_type="text/html; charset=windows-1252")


WITHOUT_THE_MODULE: dict[str, Callable[[Page], object]] = {
    "no JavaScript, and not UTF-8": lambda page: page.route(re.compile("/$"), recode),
    "blocked": lambda page: page.route(MODULE, lambda route: route.abort("blockedbyclient")),
    "hanging": lambda page: page.route(MODULE, lambda _: None),
}


@pytest.mark.parametrize("way", WITHOUT_THE_MODULE)
def test_without_the_module_the_form_still_arrives(
    browser: Browser, website: Website, relay: Relay, mail_server: SmtpServer, way: str
) -> None:
    context = browser.new_context(java_script_enabled="no JavaScript" not in way)
    plain = Visitor(context.new_page(), website.address(relay.server_port))
    WITHOUT_THE_MODULE[way](plain.page)
    plain.page.goto(plain.url, wait_until="commit")
    expect(plain.button("Enviar solicitud")).to_be_visible()
    expect(plain.page.locator("button:visible")).to_have_text(["Enviar solicitud"])
    assert (plain.part("captcha").bounding_box() is None) == ("no JavaScript" in way), "no gap"
    expect(plain.page.locator("select:visible")).to_have_count(0)
    plain.choose("ventas")
    plain.field("tema").select_option("Otro tema")
    for name, value in (FIELDS | {"nombre": "Юлия Ñúñez"}).items():
        plain.field(name).fill(value)
    plain.send()
    expect(plain.page.locator("body")).to_contain_text(ACCEPTED)
    assert {"Tema: Otro tema", "Nombre: Юлия Ñúñez"} <= set(lines_of(mail_server))
    context.close()
