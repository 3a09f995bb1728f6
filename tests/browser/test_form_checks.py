"""What the form finds by itself, because every request spends the visitor's quota of one in half a minute."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import expect

from app.contact.antispam import MAX_AGE_SECONDS
from app.contact.schema import validate
from tests.browser.conftest import Edits
from tests.browser.steps import RECEIVED, adding, lines_of
from tests.browser.visitor import NARROWEST, Visitor, aged
from tests.mail.server import SmtpServer

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


def test_an_address_that_the_service_refuses_costs_no_request(unserved: Visitor) -> None:
    unserved.fill(email="maria@example")
    for address in UNACCEPTABLE:
        _, faults = validate({"form_type": "demo", "email": address})
        assert "email" in faults, address
        unserved.field("email").fill(address)
        expect(unserved.error("email")).to_be_hidden()
        unserved.send()
        unserved.sees_a_fault_at("email", "El correo no es válido. Ejemplo: nombre@example.com")

    unserved.record("invalid-email")
    assert unserved.posts == []


def test_the_form_refuses_no_address_that_the_service_takes(unserved: Visitor) -> None:
    for address in ACCEPTABLE:
        _, faults = validate({"form_type": "demo", "email": address})
        assert faults == {}, address
        unserved.field("email").fill(address)
        unserved.send()
        expect(unserved.error("nombre")).to_be_visible()
        expect(unserved.error("email")).to_be_hidden()


@pytest.mark.firefox
def test_what_is_missing_is_listed_with_links(unserved: Visitor) -> None:
    unserved.record("empty")
    unserved.field("nombre").fill("   ")
    unserved.send()

    expect(unserved.faults).to_be_focused()
    expect(unserved.faults).to_contain_text("Revise estos datos antes de enviar la solicitud:")
    expect(unserved.page).to_have_title("Error: Contacto comercial")
    assert unserved.faults.get_by_role("link").all_inner_texts() == [
        "Elija en qué podemos ayudarle.",
        "Escriba su nombre.",
        "Escriba su correo electrónico.",
        "Escriba los cinco caracteres de la imagen.",
    ]
    unserved.record("missing-fields")
    links = {"Elija en qué": "form_type", "Escriba su nombre.": "nombre", "Escriba los": "captcha_input"}
    for link, name in links.items():
        unserved.faults.get_by_role("link", name=link).click()
        expect(unserved.field(name).first).to_be_focused()
        expect(unserved.error(name)).to_contain_text(link)

    unserved.field("nombre").fill("María")
    expect(unserved.error("nombre")).to_be_hidden()
    unserved.choose("demo")
    expect(unserved.error("form_type")).to_be_hidden()
    assert unserved.faults.get_by_role("link").all_inner_texts() == [
        "Escriba su correo electrónico.",
        "Escriba los cinco caracteres de la imagen.",
    ]
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
    label = visitor.page.locator(f"label[for={name}]")
    visitor.fill(kind, **{name: " "})
    expect(label.get_by_text("(opcional)")).to_be_hidden()
    visitor.send()
    visitor.sees_a_fault_at(name, text)
    assert visitor.posts == []

    visitor.choose("demo")
    expect(label.get_by_text("(opcional)")).to_be_visible()
    visitor.send()
    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert len(mail_server.arrivals) == 1


@pytest.mark.firefox
def test_too_long_a_message_is_counted_and_not_cut(visitor: Visitor, mail_server: SmtpServer) -> None:
    count = visitor.page.locator("#mensaje-count")
    visitor.fill(mensaje="€" * 4400)
    expect(count).to_be_hidden()
    visitor.field("mensaje").fill("€" * 4600)
    expect(count).to_have_text("Caracteres que le quedan: 400")
    expect(visitor.status).to_have_text("Caracteres que le quedan: 400")
    too_long = "€" * 4990 + "\n" * 20 + "😀"
    visitor.field("mensaje").fill(too_long)
    expect(count).to_have_text("Caracteres que sobran: 11")
    visitor.send()

    visitor.sees_a_fault_at("mensaje", "Mensaje: escriba 5000 caracteres como máximo.")
    expect(visitor.field("mensaje")).to_have_value(too_long)
    visitor.record("too-long")
    assert visitor.posts == []

    visitor.field("mensaje").fill("€" * 4979 + "\n" * 20 + "😀")
    expect(count).to_have_text("Caracteres que le quedan: 0")
    visitor.send()
    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert "€" * 4979 in lines_of(mail_server)


def test_the_longest_texts_arrive_whole(visitor: Visitor, mail_server: SmtpServer) -> None:
    longest = {"nombre": "ñ" * 200, "empresa": "ü" * 200, "telefono": "0" * 40}
    visitor.fill(**{name: f"{value}x" for name, value in longest.items()}, mensaje="😀" * 4500)
    visitor.send()
    assert visitor.faults.get_by_role("link").all_inner_texts() == [
        "Nombre y apellidos: escriba 200 caracteres como máximo.",
        "Empresa: escriba 200 caracteres como máximo.",
        "Teléfono: escriba 40 caracteres como máximo.",
    ]

    for name, value in longest.items():
        visitor.field(name).fill(value)
    visitor.record("longest-texts")
    visitor.send()

    expect(visitor.confirmation).to_be_visible()
    lines = lines_of(mail_server)
    assert {f"Nombre: {longest['nombre']}", f"Empresa: {longest['empresa']}"} <= set(lines)
    assert lines[-3:] == ["Mensaje", "", "😀" * 4500]


@pytest.mark.parametrize("typed", ["00000", "K7M"])
def test_a_wrong_captcha_costs_no_request(unserved: Visitor, typed: str) -> None:
    unserved.fill()
    unserved.field("captcha_input").fill(typed)
    unserved.send()

    unserved.sees_a_fault_at("captcha_input", re.compile("El código no coincide con la imagen"))
    if typed == "00000":
        unserved.record("wrong-captcha")
    unserved.button("Otra imagen").click()
    expect(unserved.error("captcha_input")).to_be_empty()
    assert unserved.posts == []


def test_a_captcha_may_be_typed_with_spaces(visitor: Visitor) -> None:
    visitor.fill()
    code = visitor.hear_captcha()
    visitor.field("captcha_input").fill(f" {' '.join(code.lower())} ")
    visitor.send()

    expect(visitor.confirmation).to_be_visible()


def test_the_captcha_can_be_renewed(unserved: Visitor) -> None:
    unserved.fill()
    canvas = unserved.page.locator("canvas")
    before = unserved.hear_captcha(), canvas.screenshot()
    unserved.button("Otra imagen").click()

    expect(unserved.field("captcha_input")).to_be_focused()
    after = unserved.hear_captcha(), canvas.screenshot()
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert re.fullmatch("[A-Z0-9]{5}", after[0])
    expect(unserved.field("captcha_input")).to_have_value("")
    assert canvas.evaluate("image => image.width / image.clientWidth") == 2, "as sharp as the screen"


@pytest.mark.parametrize("width", [NARROWEST["width"], 360, 390, 600, 768, 1280])
def test_the_parts_of_the_captcha_have_one_order(unserved: Visitor, width: int) -> None:
    unserved.page.set_viewport_size({"width": width, "height": 900})
    expect(unserved.page.get_by_label("Código de la imagen", exact=True)).to_have_attribute("name", "captcha_input")

    places = []
    for part in ("[data-part=image]", "#captcha_input", "[data-part=renew]", "[data-part=listen]"):
        box = unserved.page.locator(part).bounding_box()
        assert box
        places.append((box["y"], box["x"], box["y"] + box["height"]))

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


def test_a_form_filled_in_at_once_is_sent_once_it_is_old_enough(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.page.add_init_script(aged(0))
    visitor.open()
    visitor.fill()
    visitor.send()

    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert len(visitor.posts) == len(mail_server.arrivals) == 1


def test_a_form_that_was_open_for_hours_is_sent_without_a_word(visitor: Visitor, mail_server: SmtpServer) -> None:
    opened = datetime.now(UTC) - timedelta(seconds=3 * MAX_AGE_SECONDS)
    visitor.page.clock.install(time=opened)
    visitor.open()
    visitor.page.clock.fast_forward(3 * MAX_AGE_SECONDS * 1000)
    visitor.fill()
    visitor.send()

    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert len(visitor.posts) == len(mail_server.arrivals) == 1
    sent = dict(parse_qsl(visitor.posts[0].post_data))
    assert int(sent["ts"]) > (opened + timedelta(seconds=2 * MAX_AGE_SECONDS)).timestamp() * 1000
