"""What a visitor sees of each answer of the service that is no confirmation."""

from __future__ import annotations

import json
import mailbox
import re
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest
from playwright.sync_api import Route, expect

from app.errors import ErrorCode
from tests.browser.conftest import Visit
from tests.browser.steps import (
    COUNTDOWN,
    COUNTDOWN_ENDS,
    DOUBT,
    FULL,
    INTERNAL,
    RECEIVED,
    answer_with,
    lines_of,
    spend_quota,
)
from tests.browser.visitor import FIELDS, Visitor
from tests.factories import REQUEST_ID
from tests.mail.server import SmtpServer
from tests.ports import free_port
from tests.server.gunicorn import Server, serving


# This test is the first because it waits for half a minute, in which the other workers go through the rest.
@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        pytest.param(-61, "El reloj de su dispositivo está atrasado.", id="expired"),
        pytest.param(10, "El reloj de su dispositivo está adelantado.", id="too_early"),
    ],
)
def test_a_visitor_whose_clock_is_wrong_has_to_change_nothing(
    visitor: Visitor, mail_server: SmtpServer, minutes: int, text: str
) -> None:
    visitor.page.add_init_script(f"(now => {{ Date.now = () => now() + {minutes * 60_000}; }})(Date.now.bind(Date))")
    visitor.open()
    visitor.fill()
    visitor.send()
    visitor.sees_a_summary("Espere unos segundos para enviarla", text, "no tiene que cambiar nada")
    # The form has taken over the service's clock, so that nobody waits for ten minutes.
    expect(visitor.progress).to_have_text(re.compile(r"en (\d|[12]\d|30) segundos"))
    visitor.record("clock-behind" if minutes < 0 else "clock-ahead")
    visitor.still_has_what_was_typed()

    # Nothing is sped up here: the service itself must find that the form has waited long enough.
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS, timeout=60_000)
    visitor.send()

    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert "Nombre: María Ñúñez" in lines_of(mail_server)


@pytest.mark.firefox
def test_a_message_that_is_kept_is_at_its_end(visit: Visit, tmp_path: Path) -> None:
    down = SmtpServer()
    down.port = free_port()
    with serving(tmp_path, **down.environ) as service:
        visitor = visit(service.port)
        visitor.fill("onboarding", mensaje="Primera línea.\nSegunda línea.")
        visitor.send()

        visitor.sees_the_end("Hemos guardado su solicitud")
        expect(visitor.page).to_have_title("Hemos guardado su solicitud")
        expect(visitor.confirmation).to_contain_text("No tiene que enviarla otra vez.")
        expect(visitor.confirmation).to_contain_text("Le escribiremos a maria@example.com.\n", use_inner_text=True)
        (kept,) = mailbox.Maildir(tmp_path / "mail", create=False)
        assert parseaddr(kept["Reply-To"])[1] == "maria@example.com"
        expect(visitor.confirmation).to_contain_text(kept["X-Reference"])
        expect(visitor.button("Enviar solicitud")).to_be_hidden()
        visitor.record("kept")
        expect(visitor.page.locator("pre")).to_have_text(
            "Dar de alta mi comercio\nNombre y apellidos: María Ñúñez\nEmpresa: Comercio Ejemplo S.L.\n"
            "Correo electrónico: maria@example.com\nTeléfono: +34 600 000 000\n"
            "Mensaje: Primera línea.\nSegunda línea.",
            use_inner_text=True,
        )
        assert len(visitor.posts) == 1

        visitor.button("Enviar otra solicitud").click()
        expect(visitor.field("mensaje")).to_have_value("")
        expect(visitor.button("Enviar solicitud")).to_be_disabled()


def test_what_was_typed_can_be_copied(visitor: Visitor) -> None:
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.fill("ventas")
    visitor.field("tema").select_option("Otro tema")
    visitor.send()
    visitor.sees_the_end()
    expect(visitor.page.locator("pre")).to_be_hidden()
    visitor.page.get_by_text("Copia de su solicitud").click()
    visitor.button("Copiar").click()

    expect(visitor.status).to_have_text("Copiada.")
    visitor.record("copied")
    copied = visitor.page.evaluate("navigator.clipboard.readText()")
    assert copied == visitor.page.locator("pre").text_content()
    assert copied.split("\n")[:2] == ["Hablar con ventas", "Tema: Otro tema"]
    assert copied.endswith(f"Mensaje: {FIELDS['mensaje']}")


def test_who_is_not_delivered_and_not_kept_is_asked_to_send_it_again(visitor: Visitor) -> None:
    details = {"code": "mail_delivery_failed", "message": "No.", "status": 500, "details": {"kept": False}}
    answer_with(visitor, status=500, body=json.dumps({"ok": False, "error": details}))
    visitor.fill()
    visitor.send()

    visitor.sees_a_summary("Su solicitud no se ha enviado", "No hemos podido entregarla ni guardarla")
    expect(visitor.summary).not_to_contain_text("Referencia")
    expect(visitor.request_id).to_have_text(REQUEST_ID)
    visitor.still_has_what_was_typed()
    visitor.record("not-kept")
    visitor.page.unroute_all()
    visitor.button("Enviar otra vez").click()
    expect(visitor.confirmation).to_contain_text(RECEIVED)


@pytest.mark.firefox
def test_the_quota_is_waited_for_with_a_countdown(visitor: Visitor, service: Server) -> None:
    visitor.page.clock.install()
    visitor.open()
    visitor.fill()
    spend_quota(service)
    visitor.send()

    visitor.sees_a_summary(
        "Espere unos segundos para enviarla",
        "otra solicitud desde la misma conexión a internet que usted usa.",
    )
    expect(visitor.request_id).to_be_hidden()
    expect(visitor.status).to_have_text(COUNTDOWN)
    expect(visitor.progress).to_have_text(COUNTDOWN)
    expect(visitor.button("Enviar solicitud")).to_be_disabled()
    announced = visitor.status.inner_text()
    shown = visitor.progress.inner_text()
    visitor.page.clock.run_for(2000)
    assert visitor.progress.inner_text() != shown
    assert visitor.status.inner_text() == announced, "screen readers are not told of each second"
    # Whoever tries all the same is told how long it takes.
    visitor.button("Enviar solicitud").dispatch_event("click")
    expect(visitor.status).not_to_have_text(announced)
    assert len(visitor.posts) == 1
    visitor.record("quota")

    visitor.page.clock.fast_forward(30_000)

    expect(visitor.button("Enviar solicitud")).to_be_enabled()
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS)
    expect(visitor.progress).to_have_text(COUNTDOWN_ENDS)
    # Nothing says any longer that there is something to wait for.
    expect(visitor.summary).to_be_hidden()
    visitor.page.keyboard.press("Tab")
    expect(visitor.button("Enviar solicitud")).to_be_focused()
    visitor.record("quota-over")
    visitor.still_has_what_was_typed()


def test_a_captcha_that_the_service_refuses_is_renewed(visitor: Visitor) -> None:
    def garble(route: Route) -> None:
        sent = dict(parse_qsl(route.request.post_data))
        route.continue_(post_data=urlencode(sent | {"captcha_input": "00000"}))

    visitor.page.route("**/api/v1/contact", garble)
    visitor.fill()
    code = visitor.hear_captcha()
    visitor.send()

    visitor.sees_a_fault_at("captcha_input", re.compile("El código no coincide con la imagen. La hemos cambiado"))
    expect(visitor.field("captcha_input")).to_have_value("")
    assert visitor.hear_captcha() != code
    visitor.still_has_what_was_typed()


def test_an_address_that_only_the_service_refuses(visitor: Visitor) -> None:
    visitor.fill(email="maria@example.invalid")
    visitor.send()

    visitor.sees_a_fault_at("email", "El correo no es válido. Ejemplo: nombre@example.com")
    expect(visitor.progress).to_have_text(COUNTDOWN)
    visitor.record("invalid-email-refused")
    visitor.still_has_what_was_typed(email="maria@example.invalid")


def test_a_kind_that_the_service_does_not_know_is_marked(visitor: Visitor) -> None:
    visitor.field("form_type").first.evaluate("field => { field.value = 'soporte'; }")
    visitor.fill("soporte")
    visitor.send()

    visitor.sees_a_fault_at("form_type", "Revise este dato.")
    visitor.record("refused-kind")


def test_fields_that_only_the_service_refuses_are_listed(visitor: Visitor) -> None:
    details = {"code": "invalid_body", "details": {"fields": {"nombre": ["No."], "telefono": ["No."], "otro": ["No."]}}}
    answer_with(visitor, status=400, body=json.dumps({"ok": False, "error": details}))
    visitor.fill()
    visitor.send()

    expect(visitor.faults).to_be_focused()
    assert visitor.faults.get_by_role("link").all_inner_texts() == ["Revise este dato."] * 2
    expect(visitor.error("telefono")).to_have_text("Revise este dato.")


def test_with_an_unexpected_answer_the_visitor_can_name_the_request(unserved: Visitor) -> None:
    error = {"code": "invalid_body", "details": {"reason": "too_large"}}
    answer_with(unserved, status=400, body=json.dumps({"ok": False, "error": error}))
    unserved.fill()
    unserved.send()

    # Whoever hears the summary hears what the id is for, and the id as the last of all.
    unserved.sees_a_summary("Es más larga de lo que podemos recibir", "bastan los ocho primeros caracteres")
    assert unserved.summary.inner_text().endswith(REQUEST_ID)
    unserved.request_id.click()
    assert unserved.page.evaluate("getSelection().toString()") == REQUEST_ID
    expect(unserved.button("Enviar otra vez")).to_be_enabled()


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

    visitor.sees_a_summary("Es un error nuestro, no de lo que ha escrito.", f"Detalle técnico: {code}")
    service.wait_for(f" {visitor.request_id.inner_text()} POST ")
    expect(visitor.button("Enviar solicitud")).to_be_enabled()
    visitor.still_has_what_was_typed()
    if code is ErrorCode.ENDPOINT_NOT_FOUND:
        visitor.record("website-fault")


WAIT = "Espere unos segundos para enviarla"
PROPERTIES = '{"error":{"code":"__proto__","details":{"fields":{"length":[],"__proto__":[]}}}}'
SITE = "No podemos recibir su solicitud por esta página"


@pytest.mark.parametrize(
    ("status", "content_type", "body", "title", "text"),
    [
        pytest.param(502, "text/html", "<h1>502 Bad Gateway</h1>", DOUBT, "no está disponible", id="a proxy's page"),
        pytest.param(200, "text/html", "<h1>Hola</h1>", DOUBT, "no está disponible", id="a page in place of JSON"),
        pytest.param(200, "application/json", "null", DOUBT, "no está disponible", id="JSON that is no object"),
        pytest.param(429, "text/html", "<h1>No</h1>", WAIT, "Llegan muchas peticiones", id="a network's own limit"),
        pytest.param(403, "text/html", "<h1>No</h1>", SITE, "Detalle técnico: 403", id="a firewall's page"),
        pytest.param(500, "application/json", '{"error":{"code":"internal_error"}}', DOUBT, "error", id="an error"),
        pytest.param(503, "application/json", '{"error":{"code":"brand_new"}}', DOUBT, "no está", id="an unknown 5xx"),
        pytest.param(418, "application/json", '{"error":{"code":"brand_new"}}', SITE, "brand_new", id="an unknown 4xx"),
        pytest.param(400, "application/json", '{"error":{"code":"invalid_body"}}', SITE, "invalid_body", id="a body"),
        pytest.param(410, "application/json", '{"error":{"code":"api_version_sunset"}}', SITE, "api_v", id="retired"),
        pytest.param(429, "application/json", '{"error":{"code":"rate_limit_exceeded"}}', WAIT, "Llegan", id="quota"),
        pytest.param(400, "application/json", '{"error":{"code":"constructor"}}', SITE, "constructor", id="a property"),
        pytest.param(400, "application/json", PROPERTIES, SITE, "__proto__", id="fields like properties"),
    ],
)
def test_answers_that_the_service_does_not_give_here(
    unserved: Visitor, status: int, content_type: str, body: str, title: str, text: str
) -> None:
    answer_with(unserved, rate_limit=FULL, status=status, content_type=content_type, body=body)
    unserved.fill()
    unserved.send()

    unserved.sees_a_summary(title, text)
    expect(unserved.progress).to_have_text("" if title == SITE else COUNTDOWN)
    expect(unserved.summary).not_to_contain_text("undefined")
    expect(unserved.request_id).to_be_visible(visible=title != WAIT)
    expect(unserved.request_id).to_have_text(REQUEST_ID)
    button = unserved.button("Enviar otra vez" if title == DOUBT else "Enviar solicitud")
    expect(button).to_be_enabled(enabled=title == SITE)
    unserved.still_has_what_was_typed()
    if status == 502:
        unserved.record("proxy-page")


def test_what_sends_it_again_is_locked_like_the_button_while_it_counts_down(unserved: Visitor) -> None:
    answer_with(unserved, rate_limit=FULL, **INTERNAL)
    unserved.page.clock.install()
    unserved.open()
    unserved.fill()
    unserved.send()
    unserved.sees_a_summary(DOUBT)
    unserved.page.reload()
    unserved.sees_a_summary(DOUBT, "Se ha producido un error en nuestro servicio.", REQUEST_ID)
    again = unserved.button("Enviar otra vez")
    unserved.field("captcha_input").fill(unserved.hear_captcha())
    look = "element => { const style = getComputedStyle(element); return [style.backgroundColor, style.cursor]; }"

    expect(again).to_have_attribute("aria-disabled", "true")
    expect(again).to_have_accessible_description(COUNTDOWN)
    locked = again.evaluate(look)
    again.click(force=True)
    expect(unserved.status).to_have_text(COUNTDOWN)
    expect(unserved.page.locator("[data-part=question]")).to_be_visible()
    assert len(unserved.posts) == 1

    unserved.page.clock.fast_forward(31_000)
    expect(again).not_to_have_attribute("aria-disabled", "true")
    assert again.evaluate(look) != locked
    with unserved.page.expect_request(lambda request: request.method == "POST"):
        again.click()
    assert len(unserved.posts) == 2
