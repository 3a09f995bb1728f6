"""What the form finds by itself, because every request spends the visitor's quota."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import BrowserContext, expect

from app.contact.antispam import MAX_AGE_SECONDS, MIN_AGE_SECONDS
from app.contact.schema import validate
from tests.browser.servers import EXAMPLES, Website
from tests.browser.visitor import SMALL_PHONE, Visitor, adding, lines_of
from tests.mail.server import SmtpServer

UNACCEPTABLE = [
    *("maria", "maria@", "maria@example", "maria@example.com.", "maria@example..com", "maria..n@example.com"),
    *(".maria@example.com", "mailto:maria@example.com", "maria@192.168.0.1", "maria@-ejemplo.com"),
    *("maria@empresa.local", "maria@exam ple.com", "maria@example.com, ana@example.com", "María <maria@example.com>"),
    *("maria@exam\u200bple.com", "maria@example.c\u00b4om", '"maria n"@example.com'),
]
ACCEPTABLE = [
    *("maria@example.com", "  maria@example.com\t", "MARIA@EXAMPLE.COM", "maria.nunez+web@sub.example.co", "a@b.c"),
    *("josé@example.com", "maria@españa.es", "o'hara/x=y@example.com", "用户@例子.广告", "maria@paral·lel.cat"),
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


_, CITY = EXAMPLES
"""A field of its own, as the example tells a website to add one."""


@pytest.mark.parametrize(
    ("kind", "name", "typed", "text"),
    [
        ("demo", "email", "maria@example", "El correo no es válido. Ejemplo: nombre@example.com"),
        ("demo", "nombre", "   ", "Escriba su nombre."),
        ("demo", "captcha_input", "00000", "El código no coincide con la imagen. Revíselo o pida otra imagen."),
        ("ventas", "mensaje", " ", "Escriba qué quiere consultarnos."),
        ("onboarding", "empresa", " ", "Escriba el nombre de su empresa o comercio."),
        ("demo", "ciudad", "", "Escriba su ciudad."),
        ("demo", "ciudad", "Madrid 28", "Escriba la ciudad sin números."),
        ("demo", "ciudad", "x" * 81, "Ciudad: escriba 80 caracteres como máximo."),
    ],
)
def test_a_fault_takes_the_focus_and_costs_no_request(
    unserved: Visitor, website: Website, kind: str, name: str, typed: str, text: str
) -> None:
    if name == "ciudad":
        website.edits["index.html"] = adding(CITY)
        unserved.open()
    unserved.fill(kind)
    unserved.field(name).fill(typed)
    unserved.send()

    unserved.sees_a_fault_at(name, text)
    expect(unserved.field(name)).to_have_value(typed)
    expect(unserved.page.locator("[aria-invalid=true]")).to_have_count(1)
    if name == "captcha_input":
        unserved.record("wrong-captcha")
        unserved.button("Otra imagen").click()
        expect(unserved.error(name)).to_be_hidden()
    assert unserved.posts == []


@pytest.mark.every_browser
def test_what_is_missing_is_listed_with_links(unserved: Visitor) -> None:
    unserved.record("empty")
    unserved.page.set_viewport_size(SMALL_PHONE)
    unserved.send()

    kind, name = "Elija en qué podemos ayudarle.", "Escriba su nombre."
    email, code = "Escriba su correo electrónico.", "Escriba los cinco caracteres de la imagen."
    unserved.sees_a_list_of_faults(kind, name, email, code)
    expect(unserved.page).to_have_title("Error: Contacto comercial")
    unserved.record("missing-fields")
    unserved.faults.get_by_role("link", name=kind).click()
    unserved.sees_a_fault_at("form_type", kind)
    unserved.faults.get_by_role("link", name=code).click()
    expect(unserved.field("captcha_input")).to_be_focused()

    unserved.field("nombre").fill("María")
    expect(unserved.error("nombre")).to_be_hidden()
    unserved.choose("demo")
    expect(unserved.faults.get_by_role("link")).to_have_text([email, code])
    expect(unserved.page.locator("[aria-invalid=true]")).to_have_count(2)


def test_what_one_kind_needs_is_asked_of_that_kind_alone(unserved: Visitor) -> None:
    optional = unserved.page.locator("label[for=contact-form-mensaje]").get_by_text("(opcional)")
    unserved.fill("ventas", mensaje="")
    expect(optional).to_be_hidden()
    unserved.send()
    unserved.choose("demo")
    expect(unserved.error("mensaje")).to_be_hidden()
    expect(optional).to_be_visible()


@pytest.mark.every_browser
def test_what_is_too_long_is_counted_and_not_cut(visitor: Visitor, mail_server: SmtpServer) -> None:
    count = visitor.page.locator("#contact-form-mensaje-count")
    visitor.fill(mensaje="€" * 4400)
    expect(count).to_be_hidden()
    visitor.field("mensaje").fill("€" * 4600)
    expect(visitor.status).to_have_text("Caracteres que le quedan: 400")
    longest = "€" * 4500 + "\n" * 20 + "😀" * 480
    too_long = {"nombre": "ñ" * 201, "mensaje": f"€{longest}"}
    visitor.fill_and_send(**too_long)

    expect(count).to_have_text("Caracteres que sobran: 1")
    visitor.sees_a_list_of_faults(
        "Nombre y apellidos: escriba 200 caracteres como máximo.", "Mensaje: escriba 5000 caracteres como máximo."
    )
    visitor.still_has_what_was_typed(**too_long)
    visitor.record("too-long")
    assert visitor.posts == []

    visitor.fill(nombre="ñ" * 200, mensaje=longest)
    expect(count).to_have_text("Caracteres que le quedan: 0")
    visitor.send()
    visitor.sees_the_end()
    lines = lines_of(mail_server)
    assert f"Nombre: {'ñ' * 200}" in lines
    assert "\n".join(lines).endswith(f"\nMensaje\n\n{longest}")


def test_the_captcha_can_be_renewed_and_typed_with_spaces_and_full_width_letters(unserved: Visitor) -> None:
    unserved.is_answered()
    unserved.fill()
    canvas = unserved.page.locator("canvas")
    picture = canvas.screenshot()
    unserved.button("Otra imagen").click()

    expect(unserved.field("captcha_input")).to_be_focused()
    expect(unserved.field("captcha_input")).to_have_value("")
    renewed = unserved.hear_captcha()
    assert picture != canvas.screenshot()
    wide = [chr(ord(character) + 0xFEE0) for character in renewed.lower()]
    unserved.field("captcha_input").fill(f" {' '.join(wide)} ")
    unserved.send()
    unserved.sees_the_end()
    sent = dict(parse_qsl(unserved.posts[0].post_data))
    assert sent["captcha_expected"] == sent["captcha_input"] == renewed


def test_nobody_is_offered_a_voice_that_the_browser_has_not(unserved: Visitor) -> None:
    unserved.page.add_init_script("window.speechSynthesis.getVoices = () => [];")
    unserved.open()

    expect(unserved.button("Otra imagen")).to_be_visible()
    expect(unserved.button("Escuchar el código")).to_be_hidden()


def test_a_form_filled_in_at_once_is_sent_once_it_is_old_enough(context: BrowserContext, website: Website) -> None:
    visitor = Visitor(context.new_page(), website.address(1))
    visitor.is_answered()
    # However long it takes to fill in, by the form's clock it is at once.
    visitor.page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    visitor.open()
    visitor.fill_and_send()

    visitor.page.clock.run_for(MIN_AGE_SECONDS * 1000)
    expect(visitor.button("Enviando…")).to_be_visible()
    assert visitor.posts == []
    visitor.page.clock.run_for(500)
    visitor.sees_the_end()
    assert len(visitor.posts) == 1


OPEN = {"for hours": 3 * MAX_AGE_SECONDS, "for so long that it would be too old on arrival": MAX_AGE_SECONDS - 20}


@pytest.mark.parametrize("seconds", OPEN.values(), ids=OPEN)
def test_a_form_that_was_open_is_sent_as_a_new_one(visitor: Visitor, mail_server: SmtpServer, seconds: int) -> None:
    visitor.page.clock.set_system_time(datetime.now(UTC) - timedelta(seconds=seconds))
    visitor.open()
    visitor.page.clock.fast_forward(seconds * 1000)
    now = visitor.page.evaluate("Date.now()")
    visitor.fill_and_send()

    visitor.sees_the_end()
    assert int(dict(parse_qsl(visitor.posts[0].post_data))["ts"]) >= now
    assert len(visitor.posts) == len(mail_server.arrivals) == 1
