"""The example form in a real browser, across origins: what its visitors see and what arrives at the sales team."""

from __future__ import annotations

import json
import mailbox
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from playwright.sync_api import Browser, Route, expect

from app.api.contact import ACCEPTED
from app.contact.antispam import MIN_AGE_SECONDS
from app.contact.letter import ASKED, KINDS
from app.errors import ErrorCode
from tests.browser.conftest import Visit
from tests.browser.visitor import FIELDS, VIEWPORTS, Visitor, put_clock
from tests.browser.website import Website
from tests.factories import REQUEST_ID, SUNSET
from tests.mail.server import SmtpServer, parse, text_of
from tests.ports import free_port
from tests.server.gunicorn import Server, serving

OWN_FIELDS = {
    "demo": {},
    "ventas": {"tema": "Integración técnica"},
    "onboarding": {},
    "distribuidor": {"tipo_de_partner": "Revendedor"},
}
"""What only this kind of form asks."""

COUNTDOWN = re.compile(r"Podrá enviarlo dentro de \d+ s")
COUNTDOWN_STARTS = re.compile(r"Podrá enviar el formulario dentro de \d+ segundos\.")
COUNTDOWN_ENDS = "Ya puede enviar el formulario."


def spend_quota(service: Server) -> None:
    """Somebody else behind the same address has just sent a form."""
    response, _ = service.request("POST", "/contact.php", b"{}", {"Content-Type": "application/json"})
    assert response.status == 400


def answer_with(visitor: Visitor, **answer: Any) -> None:
    """Let the contact path answer so, with a request id."""
    headers = {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "X-Request-ID",
        "X-Request-ID": REQUEST_ID,
    }
    visitor.page.route("**/api/v1/contact", lambda route: route.fulfill(headers=headers, **answer))


def lines_of(server: SmtpServer) -> list[str]:
    """The fields of the only message, as the sales team reads them."""
    (arrival,) = server.arrivals
    return text_of(arrival).rstrip("\n").split("\n")[2:]


# This test is the first because it waits for half a minute, in which the other workers go through the rest.
def test_a_form_that_expired_passes_after_the_countdown(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.page.clock.install(time=datetime.now(UTC) - timedelta(minutes=61))
    visitor.open()
    visitor.page.clock.fast_forward("01:01:00")
    visitor.fill()
    visitor.send()
    visitor.sees_a_summary(ErrorCode.TOO_FAST.message)
    visitor.record("expired")

    # Nothing is sped up here: the service itself must find that the form has waited long enough.
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS, timeout=60_000)
    visitor.send()

    expect(visitor.confirmation).to_contain_text(ACCEPTED)
    assert "Nombre: María Ñúñez" in lines_of(mail_server)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_form_arrives_field_by_field(visitor: Visitor, mail_server: SmtpServer, kind: str) -> None:
    visitor.fill(kind)
    for name, value in OWN_FIELDS[kind].items():
        visitor.field(name).select_option(value)
    visitor.record(f"form-{kind}")
    visitor.send()

    expect(visitor.confirmation).to_be_focused()
    expect(visitor.confirmation).to_contain_text(ACCEPTED)
    visitor.record(f"sent-{kind}")
    (arrival,) = mail_server.arrivals
    assert parse(arrival)["Subject"] == f"{KINDS[kind]}: Comercio Ejemplo S.L."
    assert parse(arrival)["Reply-To"] == "María Ñúñez <maria@example.com>"
    reference = f"Referencia: {parse(arrival)['X-Reference']}"
    expect(visitor.confirmation).to_contain_text(reference)
    assert lines_of(mail_server) == [
        reference,
        "",
        "Nombre: María Ñúñez",
        "Empresa: Comercio Ejemplo S.L.",
        "Correo electrónico: maria@example.com",
        "Teléfono: +34 600 000 000",
        "",
        *(line for name, value in OWN_FIELDS[kind].items() for line in (f"{ASKED[name]}: {value}", "")),
        "Mensaje",
        "",
        "Quisiera una demostración.",
        "¿Es posible el jueves?",
    ]


def test_what_is_sent_proves_that_a_person_filled_it_in(visitor: Visitor) -> None:
    # In this test the clock is right again, and the form takes its time to be old enough.
    visitor.page.add_init_script(put_clock(MIN_AGE_SECONDS))
    before = time.time() * 1000
    visitor.open()
    code = visitor.hear_captcha()
    visitor.fill()
    time.sleep(MIN_AGE_SECONDS)
    visitor.send()

    expect(visitor.confirmation).to_be_visible()
    sent = dict(parse_qsl(visitor.posts[0].post_data, keep_blank_values=True))
    assert before - 1000 < int(sent["ts"]) < time.time() * 1000
    assert (sent["captcha_expected"], sent["captcha_input"]) == (code, code.lower())
    assert sent["_bp_check"] == ""
    assert set(sent) == {"form_type", "ts", "captcha_expected", "captcha_input", "_bp_check", *FIELDS}


def test_a_field_of_another_kind_is_neither_seen_nor_sent(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.fill("ventas")
    visitor.field("tema").select_option("Integración técnica")
    visitor.fill("onboarding")

    expect(visitor.field("tema")).to_be_hidden()
    expect(visitor.field("tipo_de_partner")).to_be_hidden()
    visitor.send()
    expect(visitor.confirmation).to_be_visible()
    assert not [line for line in lines_of(mail_server) if "Tema" in line]


def test_the_empty_form_is_sent_back_field_by_field(unserved: Visitor) -> None:
    unserved.record("empty")
    unserved.field("nombre").fill("   ")
    unserved.send()

    unserved.sees_a_fault_at("nombre", "Escriba su nombre.")
    expect(unserved.error("email")).to_have_text("Escriba su dirección de correo electrónico.")
    expect(unserved.error("captcha_input")).to_have_text("Escriba los cinco caracteres de la imagen.")
    expect(unserved.page.locator("[aria-invalid=true]")).to_have_count(3)
    unserved.record("missing-fields")
    unserved.field("nombre").fill("María")
    expect(unserved.error("nombre")).to_be_hidden()
    expect(unserved.page.locator("[aria-invalid=true]")).to_have_count(2)
    assert unserved.posts == []


def test_a_wrong_captcha_costs_no_request(unserved: Visitor) -> None:
    unserved.fill()
    unserved.field("captcha_input").fill("00000")
    unserved.send()

    unserved.sees_a_fault_at("captcha_input", re.compile("El código no coincide con la imagen"))
    unserved.record("wrong-captcha")
    assert unserved.posts == []


@pytest.mark.parametrize("typed", ["K7M", ""])
def test_a_captcha_has_five_characters(unserved: Visitor, typed: str) -> None:
    unserved.fill()
    unserved.field("captcha_input").fill(typed)
    unserved.send()

    unserved.sees_a_fault_at("captcha_input", re.compile("."))
    assert unserved.posts == []


def test_a_captcha_that_the_service_refuses_is_renewed(visitor: Visitor) -> None:
    def garble(route: Route) -> None:
        sent = dict(parse_qsl(route.request.post_data))
        route.continue_(post_data=urlencode(sent | {"captcha_input": "00000"}))

    visitor.page.route("**/api/v1/contact", garble)
    visitor.fill()
    code = visitor.hear_captcha()
    visitor.send()

    visitor.sees_a_fault_at("captcha_input", re.compile(re.escape(ErrorCode.BAD_CAPTCHA.message)))
    expect(visitor.field("captcha_input")).to_have_value("")
    assert visitor.hear_captcha() != code
    visitor.still_has_what_was_typed()


def test_the_captcha_can_be_renewed(unserved: Visitor) -> None:
    unserved.fill()
    canvas = unserved.page.locator("canvas")
    before = unserved.hear_captcha(), canvas.screenshot()
    unserved.button("Otra imagen").click()

    after = unserved.hear_captcha(), canvas.screenshot()
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert re.fullmatch("[A-Z0-9]{5}", after[0])
    expect(unserved.field("captcha_input")).to_have_value("")
    assert canvas.evaluate("image => image.width / image.clientWidth") == 2, "as sharp as the screen"


def test_nobody_is_offered_a_voice_that_the_browser_has_not(unserved: Visitor) -> None:
    unserved.page.add_init_script("window.speechSynthesis.getVoices = () => [];")
    unserved.open()

    expect(unserved.button("Otra imagen")).to_be_visible()
    expect(unserved.button("Escuchar el código")).to_be_hidden()


CONSENT = """
document.querySelector(".send").insertAdjacentHTML("beforebegin", `
  <label><input type="checkbox" name="consent" required aria-describedby="consent-error" data-missing="Acepte esto.">
    Acepto</label><p class="error" id="consent-error"></p>
  <label><input type="checkbox" name="silent" required> Sin texto propio</label>`)
"""


def test_a_field_that_a_website_adds_is_required_like_all_others(unserved: Visitor) -> None:
    unserved.page.evaluate(CONSENT)
    unserved.fill()
    unserved.send()
    unserved.sees_a_fault_at("consent", "Acepte esto.")

    unserved.field("consent").check()
    unserved.send()

    unserved.sees_a_summary("Revise los datos que ha escrito.")
    assert unserved.posts == []


@pytest.mark.parametrize("address", ["maria", "maria@", "maria@example com"])
def test_an_invalid_address_costs_no_request(unserved: Visitor, address: str) -> None:
    unserved.fill(email=address)
    unserved.send()

    unserved.sees_a_fault_at("email", re.compile("La dirección no es válida"))
    if address == "maria":
        unserved.record("invalid-email")
    assert unserved.posts == []


def test_an_address_that_only_the_service_refuses(visitor: Visitor) -> None:
    visitor.fill(email="maria@example")
    visitor.send()

    visitor.sees_a_fault_at("email", re.compile(re.escape(ErrorCode.INVALID_EMAIL.message)))
    expect(visitor.page.locator("#countdown")).to_have_text(COUNTDOWN)
    visitor.record("invalid-email-refused")
    visitor.still_has_what_was_typed(email="maria@example")


def test_a_machine_that_fills_in_everything_is_confirmed_and_thrown_away(
    visitor: Visitor, mail_server: SmtpServer
) -> None:
    visitor.fill()
    visitor.field("_bp_check").evaluate("field => { field.value = 'https://spam.example'; }")
    visitor.send()

    expect(visitor.confirmation).to_contain_text(ACCEPTED)
    visitor.record("honeypot")
    assert mail_server.arrivals == []


def test_people_do_not_meet_the_honeypot(unserved: Visitor) -> None:
    devtools = unserved.page.context.new_cdp_session(unserved.page)
    tree = json.dumps(devtools.send("Accessibility.getFullAXTree"), ensure_ascii=False)

    assert "Correo electrónico" in tree
    assert "Deje este campo vacío" not in tree
    unserved.field("_bp_check").evaluate("field => field.focus()")
    expect(unserved.field("_bp_check")).not_to_be_focused()


def test_the_browsers_autofill_leaves_the_honeypot_alone(unserved: Visitor) -> None:
    saved = {
        "NAME_FULL": "María Ñúñez",
        "COMPANY_NAME": "Comercio Ejemplo S.L.",
        "EMAIL_ADDRESS": "maria@example.com",
        "PHONE_HOME_WHOLE_NUMBER": "+34600000000",
        "ADDRESS_HOME_LINE1": "Calle Mayor 1",
        "ADDRESS_HOME_ZIP": "28001",
        "ADDRESS_HOME_CITY": "Madrid",
        "ADDRESS_HOME_COUNTRY": "ES",
    }
    address = {"fields": [{"name": name, "value": value} for name, value in saved.items()]}
    devtools = unserved.page.context.new_cdp_session(unserved.page)
    root = devtools.send("DOM.getDocument")["root"]["nodeId"]
    field = devtools.send("DOM.querySelector", {"nodeId": root, "selector": "#nombre"})
    node = devtools.send("DOM.describeNode", field)["node"]

    devtools.send("Autofill.trigger", {"fieldId": node["backendNodeId"], "address": address})

    expect(unserved.field("nombre")).to_have_value("María Ñúñez")
    expect(unserved.field("empresa")).to_have_value("Comercio Ejemplo S.L.")
    expect(unserved.field("email")).to_have_value("maria@example.com")
    expect(unserved.field("telefono")).to_have_value("+34600000000")
    expect(unserved.field("_bp_check")).to_have_value("")


def test_a_form_that_is_sent_too_fast(visitor: Visitor) -> None:
    # To a browser whose clock is ahead the form is younger than it can be.
    visitor.page.clock.install(time=datetime.now(UTC) + timedelta(minutes=10))
    visitor.open()
    visitor.fill()
    visitor.send()

    visitor.sees_a_summary(ErrorCode.TOO_FAST.message, "podrá enviarlo cuando se active el botón")
    # The form has taken over the service's clock, so that nobody waits for ten minutes.
    expect(visitor.status).to_have_text(re.compile(r"dentro de (\d|[12]\d|30) segundos"))
    visitor.record("too-fast")
    visitor.still_has_what_was_typed()


def test_the_quota_is_waited_for_with_a_countdown(visitor: Visitor, service: Server) -> None:
    visitor.page.clock.install()
    visitor.open()
    visitor.fill()
    spend_quota(service)
    visitor.send()

    visitor.sees_a_summary(ErrorCode.RATE_LIMIT.message)
    expect(visitor.request_id).to_have_count(0)
    expect(visitor.status).to_have_text(COUNTDOWN_STARTS)
    expect(visitor.page.locator("#countdown")).to_have_text(COUNTDOWN)
    expect(visitor.button("Enviar solicitud")).to_be_disabled()
    visitor.record("quota")
    announced = visitor.status.inner_text()
    shown = visitor.page.locator("#countdown").inner_text()
    visitor.page.clock.run_for(2000)
    assert visitor.page.locator("#countdown").inner_text() != shown
    assert visitor.status.inner_text() == announced, "screen readers are not told of each second"

    visitor.page.clock.fast_forward(30_000)

    expect(visitor.button("Enviar solicitud")).to_be_enabled()
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS)
    expect(visitor.page.locator("#countdown")).to_have_text("Ya puede enviarlo.")
    visitor.record("quota-over")
    visitor.still_has_what_was_typed()


def test_the_quota_of_the_api_is_waited_for_with_a_countdown(visitor: Visitor, service: Server) -> None:
    for _ in range(60):
        service.request("GET", "/api")
    visitor.fill()
    visitor.send()

    visitor.sees_a_summary(ErrorCode.RATE_LIMIT_EXCEEDED.message)
    expect(visitor.status).to_have_text(COUNTDOWN_STARTS)
    expect(visitor.button("Enviar solicitud")).to_be_disabled()


def test_another_form_waits_for_the_quota_of_the_first(visitor: Visitor) -> None:
    visitor.fill("ventas")
    code = visitor.hear_captcha()
    visitor.send()
    expect(visitor.confirmation).to_be_focused()
    visitor.button("Enviar otra solicitud").click()

    expect(visitor.confirmation).to_be_hidden()
    expect(visitor.field("form_type").first).to_be_focused()
    expect(visitor.field("tema")).to_be_hidden()
    expect(visitor.field("mensaje")).to_have_value("")
    expect(visitor.page.locator("#countdown")).to_have_text(COUNTDOWN)
    expect(visitor.button("Enviar solicitud")).to_be_disabled()
    assert visitor.hear_captcha() != code


def test_a_mail_server_that_is_down_loses_nothing(visit: Visit, tmp_path: Path) -> None:
    down = SmtpServer()
    down.port = free_port()
    with serving(tmp_path, **down.environ) as service:
        visitor = visit(service.port)
        visitor.fill()
        visitor.send()

        visitor.sees_a_summary(ErrorCode.MAIL_DELIVERY_FAILED.message, "Su mensaje ha quedado guardado")
        visitor.record("mail-server-down")
        visitor.still_has_what_was_typed()
        (kept,) = mailbox.Maildir(tmp_path / "mail", create=False)
        assert parseaddr(kept["Reply-To"])[1] == "maria@example.com"
        visitor.sees_a_summary(f"Referencia: {kept['X-Reference']}")
        expect(visitor.request_id).to_have_count(0)


def test_who_is_not_delivered_and_not_kept_is_asked_to_send_it_again(visitor: Visitor) -> None:
    details = {"code": "mail_delivery_failed", "message": "No.", "status": 500, "details": {"kept": False}}
    answer_with(visitor, status=500, body=json.dumps({"ok": False, "error": details}))
    visitor.fill()
    visitor.send()

    visitor.sees_a_summary("Su mensaje no ha quedado guardado", "envíelo de nuevo más tarde")
    expect(visitor.summary).not_to_contain_text("Referencia")
    expect(visitor.request_id).to_have_text(REQUEST_ID)
    visitor.still_has_what_was_typed()


def test_with_an_internal_error_the_visitor_can_name_its_request(unserved: Visitor) -> None:
    error = {"code": "internal_error", "message": ErrorCode.INTERNAL_ERROR.message, "hint": "Inténtelo más tarde."}
    answer_with(unserved, status=500, body=json.dumps({"ok": False, "error": error}))
    unserved.fill()
    unserved.send()

    # Whoever hears the summary hears what the id is for, and the id as the last of all.
    named = f"Inténtelo más tarde.Si nos consulta por este error, indique este identificador: {REQUEST_ID}"
    unserved.sees_a_summary(named)
    assert unserved.summary.inner_text().endswith(REQUEST_ID)
    unserved.record("internal-error")
    unserved.request_id.click()
    assert unserved.page.evaluate("getSelection().toString()") == REQUEST_ID


def test_a_service_out_of_reach_loses_nothing(unserved: Visitor) -> None:
    unserved.fill()
    unserved.send()

    unserved.sees_a_summary("No hemos podido conectar con el servicio.", "Compruebe su conexión a internet")
    expect(unserved.request_id).to_have_count(0)
    expect(unserved.button("Enviar solicitud")).to_be_enabled()
    unserved.record("unreachable")
    unserved.still_has_what_was_typed()


def test_the_button_is_disabled_while_the_form_is_sent(visitor: Visitor, mail_server: SmtpServer) -> None:
    answer = threading.Event()
    mail_server.on_message = lambda: None if answer.wait(60) else mail_server.disconnect()
    visitor.page.evaluate("AbortSignal.timeout = () => undefined")  # the pictures take their time
    visitor.fill()
    try:
        visitor.send()

        expect(visitor.button("Enviando…")).to_be_disabled()
        expect(visitor.status).to_have_text("Enviando…")
        visitor.record("sending")
    finally:
        answer.set()  # the service would not stop before
    expect(visitor.confirmation).to_be_visible()


def test_a_double_click_sends_once(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.fill()
    visitor.button("Enviar solicitud").dblclick()

    expect(visitor.confirmation).to_be_visible()
    assert len(visitor.posts) == len(mail_server.arrivals) == 1


def test_the_longest_texts_arrive_whole(visitor: Visitor, mail_server: SmtpServer) -> None:
    longest = {"nombre": "ñ" * 200, "empresa": "ü" * 200, "telefono": "0" * 40, "mensaje": "€" * 5000}
    visitor.fill(**longest)
    for name, value in longest.items():
        visitor.field(name).press("End")
        visitor.field(name).press_sequentially("x")
        expect(visitor.field(name)).to_have_value(value)
    visitor.record("longest-texts")
    visitor.send()

    expect(visitor.confirmation).to_be_visible()
    lines = lines_of(mail_server)
    assert f"Nombre: {'ñ' * 200}" in lines
    assert lines[-3:] == ["Mensaje", "", "€" * 5000]


def test_fields_that_only_the_service_refuses_are_marked(visitor: Visitor) -> None:
    for name in ("nombre", "telefono"):
        visitor.field(name).evaluate("field => field.removeAttribute('maxlength')")
    visitor.fill(nombre="ñ" * 201, telefono="0" * 41)
    visitor.send()

    visitor.sees_a_fault_at("nombre", "No puede superar los 200 caracteres.")
    expect(visitor.error("telefono")).to_have_text("No puede superar los 40 caracteres.")
    visitor.record("refused-fields")


def test_a_kind_that_the_service_does_not_know_is_marked(visitor: Visitor) -> None:
    visitor.field("form_type").first.evaluate("field => { field.value = 'soporte'; }")
    visitor.fill("soporte")
    visitor.send()

    visitor.sees_a_fault_at("form_type", re.compile(re.escape(ErrorCode.INVALID_FORM_TYPE.message)))
    visitor.record("refused-kind")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/v1/health", ErrorCode.METHOD_NOT_ALLOWED),
        ("/contacto", ErrorCode.NOT_FOUND),
        ("/api/contact", ErrorCode.ENDPOINT_NOT_FOUND),
        ("/api/v9/contact", ErrorCode.UNSUPPORTED_API_VERSION),
    ],
)
def test_a_fault_of_the_website_is_no_fault_of_the_visitor(
    service: Server, visit: Visit, path: str, code: ErrorCode
) -> None:
    visitor = visit(service.port, path)
    visitor.fill()
    visitor.send()

    visitor.sees_a_summary(code.message, "No se debe a lo que ha escrito", code.hint, code)
    service.wait_for(f" {visitor.request_id.inner_text()} POST ")
    expect(visitor.button("Enviar solicitud")).to_be_enabled()
    if code is ErrorCode.ENDPOINT_NOT_FOUND:
        visitor.record("website-fault")


def test_a_version_that_was_retired(visit: Visit, tmp_path: Path) -> None:
    with serving(tmp_path, **SUNSET) as service:
        visitor = visit(service.port)
        visitor.fill()
        visitor.send()

        visitor.sees_a_summary(ErrorCode.API_VERSION_SUNSET.message, "No se debe a lo que ha escrito")


@pytest.mark.parametrize(
    ("status", "content_type", "body", "texts"),
    [
        pytest.param(
            502,
            "text/html",
            "<h1>502 Bad Gateway</h1>",
            ["El servicio no está disponible en este momento.", "dentro de unos minutos"],
            id="a proxy's page",
        ),
        pytest.param(
            200, "text/html", "<h1>Hola</h1>", ["El servicio no está disponible"], id="a page in place of JSON"
        ),
        pytest.param(
            500,
            "application/json",
            json.dumps({"ok": False, "error": {"code": "internal_error", "message": "Fallo.", "hint": "Espere."}}),
            ["Fallo.", "Espere."],
            id="an internal error",
        ),
        pytest.param(
            418,
            "application/json",
            json.dumps({"ok": False, "error": {"code": "brand_new", "message": "Novedad.", "hint": "Haga esto."}}),
            ["Novedad.", "Haga esto."],
            id="an unknown code",
        ),
        pytest.param(
            400,
            "application/json",
            json.dumps(
                {"ok": False, "error": {"code": "invalid_body", "message": "Mal.", "details": {"reason": "http"}}}
            ),
            ["Mal.", "No se debe a lo que ha escrito"],
            id="a body that no field explains",
        ),
    ],
)
def test_answers_that_the_service_does_not_give_here(
    unserved: Visitor, status: int, content_type: str, body: str, texts: list[str]
) -> None:
    answer_with(unserved, status=status, content_type=content_type, body=body)
    unserved.fill()
    unserved.send()

    unserved.sees_a_summary(*texts)
    expect(unserved.summary).not_to_contain_text("undefined")
    expect(unserved.request_id).to_have_text(REQUEST_ID)
    expect(unserved.button("Enviar solicitud")).to_be_enabled()
    unserved.still_has_what_was_typed()
    if status == 502:
        unserved.record("proxy-page")


def test_the_keyboard_alone_is_enough(visitor: Visitor, mail_server: SmtpServer) -> None:
    page = visitor.page
    keys = page.keyboard

    def tab_to(name: str) -> None:
        keys.press("Tab")
        focused = page.locator(":focus")
        assert focused.evaluate("element => element.name || element.id || element.type") == name
        ring = "element => getComputedStyle(element.closest('.kinds label') ?? element).outlineStyle"
        assert focused.evaluate(ring) == "solid", f"the focus is not seen at {name}"

    tab_to("form_type")
    keys.press("ArrowDown")
    tab_to("tema")
    keys.press("T")
    for name in ("nombre", "empresa", "email", "telefono"):
        tab_to(name)
        keys.type(FIELDS[name])
    tab_to("mensaje")
    keys.type("Hola.")
    tab_to("captcha-renew")
    tab_to("captcha-listen")
    keys.press("Space")
    code = "".join(re.findall(r"\w", page.evaluate("window.spoken")))
    tab_to("captcha_input")
    keys.type(code)
    tab_to("submit")
    keys.press("Enter")

    expect(visitor.confirmation).to_be_focused()
    (arrival,) = mail_server.arrivals
    assert lines_of(mail_server) == [
        f"Referencia: {parse(arrival)['X-Reference']}",
        "",
        "Nombre: María Ñúñez",
        "Empresa: Comercio Ejemplo S.L.",
        "Correo electrónico: maria@example.com",
        "Teléfono: +34 600 000 000",
        "",
        "Tema: Tarifas y condiciones",
        "",
        "Mensaje",
        "",
        "Hola.",
    ]


def test_every_target_is_large_enough(unserved: Visitor) -> None:
    unserved.page.set_viewport_size(VIEWPORTS["phone"])
    targets = unserved.page.locator("button:visible, .kinds label, input:not([type=radio], [name=_bp_check]), textarea")

    boxes = [target.bounding_box() for target in targets.all()]

    assert len(boxes) > 10
    assert [box for box in boxes if box is not None and min(box["width"], box["height"]) < 44] == []


def test_without_javascript_the_form_still_arrives(
    browser: Browser, website: Website, service: Server, mail_server: SmtpServer
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(website.address(f"http://127.0.0.1:{service.port}"))
    expect(page.locator("#captcha")).to_be_hidden()
    expect(page.locator("#tema")).to_be_visible()
    page.locator("[value=ventas]").check()
    page.locator("#tema").select_option("Otro tema")
    for name, value in FIELDS.items():
        page.locator(f"#{name}").fill(value)
    page.get_by_role("button", name="Enviar solicitud").click()
    expect(page.locator("body")).to_contain_text(ACCEPTED)
    context.close()

    assert parse(mail_server.arrivals[0])["Subject"] == f"{KINDS['ventas']}: Comercio Ejemplo S.L."
    assert "Tema: Otro tema" in lines_of(mail_server)
