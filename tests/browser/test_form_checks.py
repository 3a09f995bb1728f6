"""What the form finds by itself, because every request spends the visitor's quota of one in half a minute."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import expect

from app.contact.antispam import MAX_AGE_SECONDS, MIN_AGE_SECONDS
from app.contact.schema import validate
from tests.browser.conftest import Edits, Visit
from tests.browser.steps import OK, adding, lines_of
from tests.browser.visitor import NARROWEST, Visitor
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server

UNACCEPTABLE = [
    *("maria", "maria@", "@example.com", "maria@example", "maria@example.", "maria@example.com.", "maria@.example.com"),
    *("maria@example..com", "maria@example,com", "maria@@example.com", "maria..n@example.com", ".maria@example.com"),
    *("maria.@example.com", "mailto:maria@example.com", "maria@192.168.0.1", "maria@[192.168.0.1]"),
    *("maria@exa_mple.com", "maria@-example.com", "maria@example-.com", "maria@empresa.local", "maria@example.com'"),
    *("maria@exam ple.com", "ma ria@example.com", "maria@example.com, ana@example.com", "María <maria@example.com>"),
    *("maria@exam\u200bple.com", "mar\u200bia@example.com", "maria@example.c\u00b4om", '"maria n"@example.com'),
]
ACCEPTABLE = [
    *("maria@example.com", "  maria@example.com\t", "MARIA@EXAMPLE.COM"),
    *("maria.nunez+web@sub.example.co", "josé@example.com", "maria@españa.es", "maria@xn--espaa-rta.es", "a@b.c"),
    *("maria@ex-ample.com", "o'hara/x=y@example.com", "用户@例子.广告", "maria@paral·lel.cat", "maria@1.com"),
]
SEND_EACH = """(email, addresses) => addresses.filter(address => {
  email.value = address;
  email.dispatchEvent(new Event("input", { bubbles: true }));
  const error = () => document.getElementById("contact-form-email-error")?.textContent;
  if (error()) throw new Error(`before it is sent: ${error()}`);
  email.form.requestSubmit();
  return error();
})"""
"""Which of the addresses the form finds fault with; its other fields are empty, so nothing is sent."""


def test_the_form_and_the_service_refuse_the_same_addresses(unserved: Visitor) -> None:
    addresses = ["maria@example.invalid", *UNACCEPTABLE, *ACCEPTABLE]
    refused = [address for address in addresses if validate({"form_type": "demo", "email": address})[1]]

    assert refused == ["maria@example.invalid", *UNACCEPTABLE]
    assert unserved.field("email").evaluate(SEND_EACH, addresses) == UNACCEPTABLE
    assert unserved.posts == []


WRONG_CODE = "El código no coincide con la imagen. Revíselo o pida otra imagen."


@pytest.mark.parametrize(
    ("name", "typed", "text"),
    [
        ("email", "maria@example", "El correo no es válido. Ejemplo: nombre@example.com"),
        ("email", " ", "Escriba su correo electrónico."),
        ("nombre", "   ", "Escriba su nombre."),
        ("captcha_input", "00000", WRONG_CODE),
        ("captcha_input", "K7M", WRONG_CODE),
    ],
)
def test_a_fault_takes_the_focus_and_costs_no_request(unserved: Visitor, name: str, typed: str, text: str) -> None:
    unserved.fill()
    unserved.field(name).fill(typed)
    unserved.send()

    unserved.sees_a_fault_at(name, text)
    expect(unserved.field(name)).to_have_value(typed)
    expect(unserved.page.locator("[aria-invalid=true]")).to_have_count(1)
    if typed == "00000":
        unserved.record("wrong-captcha")
    unserved.button("Otra imagen").click()
    expect(unserved.error("captcha_input")).to_be_hidden()
    assert unserved.posts == []


@pytest.mark.firefox
def test_what_is_missing_is_listed_with_links(unserved: Visitor) -> None:
    def follow(link: str, name: str) -> None:
        unserved.faults.get_by_role("link", name=link).click()
        expect(unserved.field(name).first).to_be_focused()
        expect(unserved.error(name)).to_have_text(link)

    unserved.record("empty")
    unserved.field("nombre").fill("   ")
    unserved.send()

    kind, name = "Elija en qué podemos ayudarle.", "Escriba su nombre."
    email, code = "Escriba su correo electrónico.", "Escriba los cinco caracteres de la imagen."
    unserved.sees_a_list_of_faults(kind, name, email, code)
    expect(unserved.faults).to_contain_text("Revise estos datos antes de enviar la solicitud:")
    expect(unserved.page).to_have_title("Error: Contacto comercial")
    unserved.record("missing-fields")
    follow(kind, "form_type")
    follow(name, "nombre")
    follow(code, "captcha_input")

    unserved.field("nombre").fill("María")
    expect(unserved.error("nombre")).to_be_hidden()
    unserved.choose("demo")
    expect(unserved.error("form_type")).to_be_hidden()
    expect(unserved.faults.get_by_role("link")).to_have_text([email, code])
    expect(unserved.page.locator("[aria-invalid=true]")).to_have_count(2)
    assert unserved.posts == []


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("ventas", "mensaje", "Escriba qué quiere consultarnos."),
        ("onboarding", "empresa", "Escriba el nombre de su empresa o comercio."),
    ],
)
def test_what_one_kind_needs_is_asked_of_that_kind_alone(
    visitor: Visitor, mail_server: SmtpServer, kind: str, name: str, text: str
) -> None:
    optional = visitor.page.locator(f"label[for={name}]").get_by_text("(opcional)")
    visitor.fill(kind, **{name: " "})
    expect(optional).to_be_hidden()
    visitor.send()
    visitor.sees_a_fault_at(name, text)
    assert visitor.posts == []

    visitor.choose("demo")
    expect(visitor.error(name)).to_be_hidden()
    expect(optional).to_be_visible()
    visitor.send()
    visitor.sees_the_end()
    assert len(mail_server.arrivals) == 1


@pytest.mark.firefox
def test_what_is_too_long_is_counted_and_not_cut(visitor: Visitor, mail_server: SmtpServer) -> None:
    count = visitor.page.locator("#mensaje-count")
    visitor.fill(mensaje="€" * 4400)
    expect(count).to_be_hidden()
    visitor.field("mensaje").fill("€" * 4600)
    expect(count).to_have_text("Caracteres que le quedan: 400")
    expect(visitor.status).to_have_text("Caracteres que le quedan: 400")
    longest = {"nombre": "ñ" * 200, "empresa": "ü" * 200, "telefono": "0" * 40}
    longest["mensaje"] = "€" * 4500 + "\n" * 20 + "😀" * 480
    too_long = {name: value[0] + value for name, value in longest.items()}
    visitor.fill_and_send(**too_long)

    expect(count).to_have_text("Caracteres que sobran: 1")
    visitor.sees_a_list_of_faults(
        "Nombre y apellidos: escriba 200 caracteres como máximo.",
        "Empresa: escriba 200 caracteres como máximo.",
        "Teléfono: escriba 40 caracteres como máximo.",
        "Mensaje: escriba 5000 caracteres como máximo.",
    )
    visitor.still_has_what_was_typed(**too_long)
    visitor.record("too-long")
    assert visitor.posts == []

    visitor.fill(**longest)
    expect(count).to_have_text("Caracteres que le quedan: 0")
    visitor.record("longest-texts")
    visitor.send()
    visitor.sees_the_end()
    lines = lines_of(mail_server)
    assert {f"Nombre: {longest['nombre']}", f"Empresa: {longest['empresa']}"} <= set(lines)
    assert "\n".join(lines).endswith(f"\nMensaje\n\n{longest['mensaje']}")


def test_the_captcha_can_be_renewed_and_typed_with_spaces(unserved: Visitor) -> None:
    unserved.is_answered(**OK)
    unserved.fill()
    canvas = unserved.page.locator("canvas")
    code, picture = unserved.hear_captcha(), canvas.screenshot()
    assert unserved.page.evaluate("language") == "es"
    unserved.button("Otra imagen").click()

    expect(unserved.field("captcha_input")).to_be_focused()
    expect(unserved.field("captcha_input")).to_have_value("")
    renewed = unserved.hear_captcha()
    assert code != renewed
    assert picture != canvas.screenshot()
    assert re.fullmatch("[A-Z0-9]{5}", renewed)
    assert canvas.evaluate("image => image.width / image.clientWidth") == 2, "as sharp as the screen"
    unserved.field("captcha_input").fill(f" {' '.join(renewed.lower())} ")
    unserved.send()
    unserved.sees_the_end()
    assert dict(parse_qsl(unserved.posts[0].post_data))["captcha_input"] == renewed


@pytest.mark.parametrize("width", [NARROWEST["width"], 360, 390, 600, 768, 1280])
def test_the_parts_of_the_captcha_have_one_order(unserved: Visitor, width: int) -> None:
    unserved.page.set_viewport_size({"width": width, "height": 900})
    expect(unserved.page.get_by_label("Código de la imagen", exact=True)).to_have_attribute("name", "captcha_input")
    parts = unserved.page.locator("[data-part=image], #captcha_input, [data-part=renew], [data-part=listen]")
    places = parts.evaluate_all("all => all.map(each => each.getBoundingClientRect()).map(b => [b.y, b.x, b.bottom])")

    image, field, renew, _ = places
    assert max(image[2], field[2]) < renew[0]
    assert all(first < second for first, second in pairwise(places)), "from top to bottom, then from left to right"


def test_nobody_is_offered_a_voice_that_the_browser_has_not(unserved: Visitor) -> None:
    unserved.page.add_init_script("window.speechSynthesis.getVoices = () => [];")
    unserved.open()

    expect(unserved.button("Otra imagen")).to_be_visible()
    expect(unserved.button("Escuchar el código")).to_be_hidden()
    expect(unserved.page.get_by_role("link", name="ventas@example.com")).to_be_visible()


CONSENT = """
<label><input type="checkbox" name="constructor" required data-missing="Acepte esto."> Acepto</label>
<label><input type="checkbox" name="silent" required> Sin texto propio</label>"""


def test_a_field_that_a_website_adds_is_required_like_all_others(unserved: Visitor, edits: Edits) -> None:
    edits["index.html"] = adding(CONSENT)
    unserved.open()
    unserved.fill()
    unserved.field("silent").check()
    unserved.send()
    unserved.sees_a_fault_at("constructor", "Acepte esto.")

    unserved.field("constructor").check()
    unserved.field("silent").uncheck()
    unserved.send()
    unserved.sees_a_fault_at("silent", "Revise este dato.")
    assert unserved.posts == []


def test_a_form_filled_in_at_once_is_sent_once_it_is_old_enough(service: Server, visit: Visit) -> None:
    visitor = visit(service.port, is_slow=False)
    visitor.is_answered(**OK)
    visitor.page.clock.install(time=0)
    visitor.page.clock.pause_at(1)  # however long it takes to fill in, by the form's clock it is at once
    visitor.open()
    visitor.fill_and_send()

    visitor.page.clock.run_for(MIN_AGE_SECONDS * 1000)
    expect(visitor.button("Enviando…")).to_be_visible()
    assert visitor.posts == []
    visitor.page.clock.run_for(500)
    visitor.sees_the_end()
    assert len(visitor.posts) == 1


def test_a_form_that_was_open_for_hours_is_sent_without_a_word(visitor: Visitor, mail_server: SmtpServer) -> None:
    opened = datetime.now(UTC) - timedelta(seconds=3 * MAX_AGE_SECONDS)
    visitor.page.clock.install(time=opened)
    visitor.open()
    visitor.page.clock.fast_forward(3 * MAX_AGE_SECONDS * 1000)
    visitor.fill_and_send()

    visitor.sees_the_end()
    assert len(visitor.posts) == len(mail_server.arrivals) == 1
    sent = dict(parse_qsl(visitor.posts[0].post_data))
    assert int(sent["ts"]) > (opened + timedelta(seconds=2 * MAX_AGE_SECONDS)).timestamp() * 1000
