"""What a visitor sees of each answer of the service that is no confirmation."""

from __future__ import annotations

import json
import mailbox
import re
import time
from email.utils import parseaddr
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import pytest
from playwright.sync_api import Route, expect

from app.contact.antispam import MIN_AGE_SECONDS
from tests.browser.conftest import Later, Visit
from tests.browser.steps import (
    AGAIN,
    ASKED_AGAIN,
    COUNTDOWN,
    COUNTDOWN_ENDS,
    DOUBT,
    FULL,
    INTERNAL,
    NOT_SENT,
    OK,
    lines_of,
)
from tests.browser.visitor import FIELDS, Visitor
from tests.factories import REQUEST_ID
from tests.mail.server import SmtpServer
from tests.ports import free_port
from tests.server.gunicorn import Server, serving


class Kind(NamedTuple):
    """What all answers of a kind have in common."""

    title: str
    ending: str
    button: str = "Enviar solicitud"
    has_id: bool = True


WAIT = Kind("Espere unos segundos para enviarla", "Podrá enviarla cuando termine la espera.", has_id=False)
DENIED = Kind(NOT_SENT, "Lo que ha escrito sigue aquí.", AGAIN)
UNKNOWN = Kind(DOUBT, ASKED_AGAIN, AGAIN)
SITE = Kind("No podemos recibir su solicitud por esta página", "Póngase en contacto con nosotros por otro medio.")
OURS = "Es un error nuestro, no de lo que ha escrito."
UNAVAILABLE = "El servicio no está disponible en este momento o no ha respondido como debía."
MANY = "Llegan muchas peticiones desde la misma conexión a internet que usted usa."


def error(code: str, **details: Any) -> str:
    return json.dumps({"error": {"code": code} | ({"details": details} if details else {})})


ANSWERS = {
    "a proxy's page": (502, "<h1>502 Bad Gateway</h1>", UNKNOWN, UNAVAILABLE),
    "a page in place of JSON": (200, "<h1>Hola</h1>", UNKNOWN, UNAVAILABLE),
    "JSON that is no object": (200, "null", UNKNOWN, UNAVAILABLE),
    "an error": (500, error("internal_error"), UNKNOWN, "Se ha producido un error en nuestro servicio."),
    "an unknown 5xx": (503, error("brand_new"), UNKNOWN, UNAVAILABLE),
    "not kept": (500, error("mail_delivery_failed", kept=False), DENIED, "No hemos podido entregarla ni guardarla"),
    "too large": (400, error("invalid_body", reason="too_large"), DENIED, "Es más larga de lo que podemos recibir"),
    "a network's own limit": (429, "<h1>No</h1>", WAIT, MANY),
    "the quota of all paths": (429, error("rate_limit_exceeded"), WAIT, MANY),
    "a firewall's page": (403, "<h1>No</h1>", SITE, "Detalle técnico: 403"),
    "an unknown 4xx": (418, error("brand_new"), SITE, "Detalle técnico: brand_new"),
    "a body": (400, error("invalid_body"), SITE, "Detalle técnico: invalid_body"),
    "another method": (405, error("method_not_allowed"), SITE, "Detalle técnico: method_not_allowed"),
    "no such page": (404, error("not_found"), SITE, "Detalle técnico: not_found"),
    "no such version": (404, error("unsupported_api_version"), SITE, "Detalle técnico: unsupported_api_version"),
    "retired": (410, error("api_version_sunset"), SITE, "Detalle técnico: api_version_sunset"),
    "a property": (400, error("constructor"), SITE, "Detalle técnico: constructor"),
    "fields like properties": (400, error("__proto__", fields={"length": [], "__proto__": []}), SITE, "__proto__"),
}
PICTURES = {"a proxy's page", "not kept"}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_explained_above_the_button(unserved: Visitor, name: str) -> None:
    status, body, kind, text = ANSWERS[name]
    content_type = "text/html" if body.startswith("<") else "application/json"
    unserved.is_answered(rate_limit=FULL, status=status, content_type=content_type, body=body)
    unserved.fill_and_send()

    unserved.sees_a_summary(kind.title, text, kind.ending)
    expect(unserved.summary).not_to_contain_text(re.compile("undefined|Referencia"))
    expect(unserved.progress).to_have_text("" if kind is SITE else COUNTDOWN)
    expect(unserved.request_id).to_be_visible(visible=kind.has_id)
    expect(unserved.request_id).to_have_text(REQUEST_ID)
    expect(unserved.button(kind.button)).to_be_enabled(enabled=kind is SITE)
    expect(unserved.part("leave")).to_be_visible(visible=kind is UNKNOWN)
    unserved.still_has_what_was_typed()
    if name in PICTURES:
        unserved.record(name.replace(" ", "-"))


def test_a_fault_of_the_website_is_no_fault_of_the_visitor(service: Server, visit: Visit) -> None:
    visitor = visit(service.port, "/api/contact")
    visitor.fill_and_send()

    # Whoever hears the summary hears what the id is for, and the id as the last of all.
    visitor.sees_a_summary(
        SITE.title, OURS, "Detalle técnico: endpoint_not_found", "bastan los ocho primeros caracteres"
    )
    request_id = visitor.request_id.inner_text()
    assert visitor.summary.inner_text().endswith(request_id)
    visitor.request_id.click()
    assert visitor.page.evaluate("getSelection().toString()") == request_id
    service.wait_for(f" {request_id} POST ")
    visitor.still_has_what_was_typed()
    visitor.record("website-fault")


@pytest.mark.parametrize(
    ("name", "sent", "text"),
    [
        ("email", "maria@example.invalid", "El correo no es válido. Ejemplo: nombre@example.com"),
        ("form_type", "soporte", "Revise este dato."),
        ("captcha_input", "00000", "El código no coincide con la imagen. La hemos cambiado: escriba el código nuevo."),
    ],
)
def test_a_field_that_the_service_refuses_has_the_focus(visitor: Visitor, name: str, sent: str, text: str) -> None:
    def garble(route: Route) -> None:
        route.continue_(post_data=urlencode(dict(parse_qsl(route.request.post_data)) | {name: sent}))

    visitor.page.route("**/api/v1/contact", garble)
    visitor.fill()
    code = visitor.hear_captcha()
    visitor.send()

    visitor.sees_a_fault_at(name, text)
    expect(visitor.progress).to_have_text(COUNTDOWN)
    visitor.record(f"refused-{name}")
    visitor.still_has_what_was_typed()
    is_renewed = name == "captcha_input"
    expect(visitor.field("captcha_input")).to_have_value("" if is_renewed else code.lower())
    assert (visitor.hear_captcha() != code) == is_renewed


def test_fields_that_only_the_service_refuses_are_listed(unserved: Visitor) -> None:
    fields = {name: ["No."] for name in ("nombre", "telefono", "otro")}
    unserved.is_answered(status=400, body=error("invalid_body", fields=fields))
    unserved.fill_and_send()

    unserved.sees_a_list_of_faults("Revise este dato.", "Revise este dato.")
    expect(unserved.error("telefono")).to_have_text("Revise este dato.")


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        pytest.param(-61, "El reloj de su dispositivo está atrasado.", id="expired"),
        pytest.param(10, "El reloj de su dispositivo está adelantado.", id="too early"),
    ],
)
def test_a_visitor_whose_clock_is_wrong_has_to_change_nothing(
    visitor: Visitor, mail_server: SmtpServer, later: Later, minutes: int, text: str
) -> None:
    visitor.page.add_init_script(f"(now => {{ Date.now = () => now() + {minutes * 60_000}; }})(Date.now.bind(Date))")
    visitor.open()
    visitor.fill_and_send()
    visitor.sees_a_summary(WAIT.title, text, "no tiene que cambiar nada")
    # The form has taken over the service's clock, so that nobody waits for ten minutes.
    expect(visitor.progress).to_have_text(re.compile(r"en (\d|[12]\d|30) segundos"))
    visitor.record("clock-behind" if minutes < 0 else "clock-ahead")
    visitor.still_has_what_was_typed()

    time.sleep(MIN_AGE_SECONDS)  # the service itself must find that the form has waited long enough
    later()
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS)
    visitor.send()

    visitor.sees_the_end()
    assert "Nombre: María Ñúñez" in lines_of(mail_server)


@pytest.mark.firefox
def test_the_quota_is_waited_for_with_a_countdown(visitor: Visitor, service: Server) -> None:
    visitor.take_clock()
    visitor.fill()
    # Somebody else behind the same address has just sent a form.
    service.request("POST", "/contact.php", b"{}", {"Content-Type": "application/json"})
    with visitor.page.expect_response(lambda response: response.status == 429) as refused:
        visitor.send()

    visitor.sees_a_summary(WAIT.title, "otra solicitud desde la misma conexión a internet que usted usa.")
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

    visitor.page.clock.fast_forward(int(refused.value.headers["retry-after"]) * 1000)

    expect(visitor.button("Enviar solicitud")).to_be_enabled()
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS)
    expect(visitor.progress).to_have_text(COUNTDOWN_ENDS)
    # Nothing says any longer that there is something to wait for.
    expect(visitor.summary).to_be_hidden()
    visitor.page.keyboard.press("Tab")
    expect(visitor.button("Enviar solicitud")).to_be_focused()
    visitor.record("quota-over")
    visitor.still_has_what_was_typed()


def test_it_is_locked_for_as_long_as_the_service_asks_also_when_it_is_loaded_anew(unserved: Visitor) -> None:
    unserved.is_answered(rate_limit=FULL, **INTERNAL)
    unserved.take_clock()
    unserved.fill()
    unserved.page.clock.pause_at(unserved.page.evaluate("Date.now() / 1000 + 1"))
    unserved.send()
    unserved.sees_a_summary(DOUBT)
    expect(unserved.progress).to_have_text("Podrá enviarla en 30 segundos.")
    unserved.page.clock.run_for(28_000)
    expect(unserved.progress).to_have_text("Podrá enviarla en 2 segundos.")
    unserved.page.reload()
    unserved.sees_a_summary(DOUBT, "Se ha producido un error en nuestro servicio.", REQUEST_ID)
    again = unserved.button(AGAIN)
    unserved.solve()
    look = "element => { const style = getComputedStyle(element); return [style.backgroundColor, style.cursor]; }"

    expect(again).to_have_attribute("aria-disabled", "true")
    expect(again).to_have_accessible_description(COUNTDOWN)
    locked = again.evaluate(look)
    again.click(force=True)
    expect(unserved.status).to_have_text(COUNTDOWN)
    expect(unserved.part("question")).to_be_visible()
    assert len(unserved.posts) == 1

    unserved.page.clock.run_for(3_000)
    expect(again).not_to_have_attribute("aria-disabled", "true")
    assert again.evaluate(look) != locked
    with unserved.page.expect_request(lambda request: request.method == "POST"):
        again.click()
    assert len(unserved.posts) == 2


@pytest.mark.firefox
def test_a_message_that_is_kept_is_at_its_end(visit: Visit, tmp_path: Path) -> None:
    down = SmtpServer()
    down.port = free_port()
    with serving(tmp_path, **down.environ) as service:
        visitor = visit(service.port)
        visitor.fill_and_send("onboarding", mensaje="Primera línea.\nSegunda línea.")

        visitor.sees_the_end("Hemos guardado su solicitud")
        expect(visitor.page).to_have_title("Hemos guardado su solicitud")
        expect(visitor.confirmation).to_contain_text("No tiene que enviarla otra vez.")
        expect(visitor.confirmation).to_contain_text("Le escribiremos a maria@example.com.\n", use_inner_text=True)
        (kept,) = mailbox.Maildir(tmp_path / "mail", create=False)
        assert parseaddr(kept["Reply-To"])[1] == "maria@example.com"
        expect(visitor.confirmation).to_contain_text(kept["X-Reference"])
        expect(visitor.part("term")).to_be_hidden()
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


@pytest.mark.parametrize("may_copy", [True, False], ids=["copied", "only selected"])
def test_what_was_typed_can_be_taken_along(unserved: Visitor, *, may_copy: bool) -> None:
    if may_copy:
        unserved.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    else:
        unserved.page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden'))")
        unserved.open()
    unserved.is_answered(**OK)
    unserved.fill("ventas")
    unserved.field("tema").select_option("Otro tema")
    unserved.send()
    unserved.sees_the_end()
    copied = unserved.page.locator("pre")
    expect(copied).to_be_hidden()
    unserved.page.get_by_text("Copia de su solicitud").click()
    unserved.button("Copiar").click()

    expect(unserved.status).to_contain_text("Copiada." if may_copy else "El texto está seleccionado")
    taken = unserved.page.evaluate("navigator.clipboard.readText()" if may_copy else "`${getSelection()}`")
    assert taken == copied.text_content()
    assert taken.split("\n")[:2] == ["Hablar con ventas", "Tema: Otro tema"]
    assert taken.endswith(f"Mensaje: {FIELDS['mensaje']}")
    if may_copy:
        unserved.record("copied")
