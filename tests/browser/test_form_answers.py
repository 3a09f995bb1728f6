"""What a visitor sees of each answer of the service that is no confirmation."""

import json
import mailbox
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import expect

from app import CONTACT_POLICY
from app.contact.antispam import MIN_AGE_SECONDS
from tests.browser.conftest import Visit
from tests.browser.visitor import (
    AGAIN,
    ASKED_AGAIN,
    COUNTDOWN,
    COUNTDOWN_ENDS,
    DOUBT,
    SMALL_PHONE,
    Visitor,
    lines_of,
)
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


WAIT = Kind("Espere unos segundos para enviar su solicitud", "", has_id=False)
DENIED = Kind("Su solicitud no se ha enviado", "Lo que ha escrito sigue aquí.", AGAIN)
UNKNOWN = Kind(DOUBT, ASKED_AGAIN, AGAIN)
SITE = Kind("No podemos recibir su solicitud por esta página", "Póngase en contacto con nosotros por otro medio.")
UNAVAILABLE = "El servicio no está disponible en este momento o no ha respondido como debía."
MANY = "Llegan muchas peticiones desde su misma conexión a internet."


def error(code: str, **details: Any) -> str:
    return json.dumps({"error": {"code": code} | ({"details": details} if details else {})})


ANSWERS = {
    "a proxy's page": (502, "<h1>502 Bad Gateway</h1>", UNKNOWN, UNAVAILABLE),
    "a page in place of JSON": (200, "<h1>Hola</h1>", UNKNOWN, UNAVAILABLE),
    "an error": (500, error("internal_error"), UNKNOWN, "Se ha producido un error en nuestro servicio."),
    "not kept": (500, error("mail_delivery_failed", kept=False), DENIED, "No hemos podido entregarla ni guardarla"),
    "too large": (400, error("invalid_body", reason="too_large"), DENIED, "Es más larga de lo que podemos recibir"),
    "a network's own limit": (429, "<h1>No</h1>", WAIT, MANY),
    "the quota of all paths": (429, error("rate_limit_exceeded"), WAIT, MANY),
    "a firewall's page": (403, "<h1>No</h1>", SITE, "Detalle técnico: 403"),
    "an unknown 4xx": (418, error("brand_new"), SITE, "Detalle técnico: brand_new"),
    "a wrong address": (404, error("endpoint_not_found"), SITE, "Es un error nuestro, no de lo que ha escrito."),
    "retired": (410, error("api_version_sunset"), SITE, "Detalle técnico: api_version_sunset"),
}
PICTURES = {"a proxy's page", "not kept", "a wrong address"}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_explained_above_the_button(unserved: Visitor, name: str) -> None:
    status, body, kind, text = ANSWERS[name]
    unserved.page.set_viewport_size(SMALL_PHONE)
    unserved.is_answered(status, body)
    unserved.fill_and_send()

    unserved.sees_a_summary(kind.title, text, kind.ending)
    if kind is not SITE:
        unserved.sees(unserved.part("question" if kind is UNKNOWN else "send"), unserved.progress)
    expect(unserved.progress).to_have_text("" if kind is SITE else COUNTDOWN)
    expect(unserved.request_id).to_be_visible(visible=kind.has_id)
    if kind.has_id:  # it is the last of what a screen reader says
        assert unserved.summary.inner_text().endswith(REQUEST_ID)
    expect(unserved.button(kind.button)).to_be_enabled(enabled=kind is SITE)
    unserved.still_has_what_was_typed()
    if name in PICTURES:
        unserved.record(name.replace(" ", "-"))
    unserved.page.reload()
    expect(unserved.summary).to_be_visible(visible=kind is UNKNOWN)  # what is answered leaves no doubt behind


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        ("invalid_email", "email", "El correo no es válido. Ejemplo: nombre@example.com"),
        ("invalid_form_type", "form_type", "Revise este dato."),
        ("bad_captcha", "captcha_input", "El código no coincide con la imagen. La hemos cambiado: escriba el código"),
    ],
)
def test_a_field_that_the_service_refuses_has_the_focus(unserved: Visitor, code: str, name: str, text: str) -> None:
    unserved.page.set_viewport_size(SMALL_PHONE)
    unserved.is_answered(400, error(code))
    unserved.fill()
    shown = unserved.hear_captcha()
    unserved.send()

    unserved.sees_a_fault_at(name, re.compile(re.escape(text)))
    expect(unserved.progress).to_have_text(COUNTDOWN)
    unserved.record(f"refused-{name}")
    assert (unserved.hear_captcha() != shown) == (code == "bad_captcha")


def test_fields_that_only_the_service_refuses_are_listed(unserved: Visitor) -> None:
    fields = {name: ["No."] for name in ("nombre", "telefono", "otro")}
    unserved.is_answered(400, error("invalid_body", fields=fields))
    unserved.fill_and_send()

    unserved.sees_a_list_of_faults("Revise este dato.", "Revise este dato.")
    expect(unserved.error("telefono")).to_have_text("Revise este dato.")


@pytest.mark.parametrize(("minutes", "direction"), [(-61, "atrasado"), (10, "adelantado")])
def test_a_visitor_whose_clock_is_wrong_has_to_change_nothing(
    visitor: Visitor, mail_server: SmtpServer, minutes: int, direction: str
) -> None:
    visitor.page.add_init_script(f"(now => {{ Date.now = () => now() + {minutes * 60_000}; }})(Date.now.bind(Date))")
    visitor.open()
    visitor.fill_and_send()
    visitor.sees_a_summary(
        WAIT.title, f"El reloj de su dispositivo está {direction}. Ya lo hemos tenido en cuenta", "no tiene que cambiar"
    )
    # The form has taken over the service's clock, so that nobody waits for ten minutes.
    expect(visitor.progress).to_have_text(re.compile(r"en \d+ segundos"))
    (left,) = re.findall(r"\d+", visitor.progress.inner_text())
    assert int(left) <= CONTACT_POLICY.window_seconds
    visitor.still_has_what_was_typed()

    time.sleep(MIN_AGE_SECONDS + 1)  # the service finds that it has waited long enough; its clock was told in seconds
    visitor.wait()
    visitor.send()
    visitor.sees_the_end()
    assert "Nombre: María Ñúñez" in lines_of(mail_server)


@pytest.mark.every_browser
def test_the_quota_is_waited_for_with_a_countdown(visit: Visit, service: Server) -> None:
    visitor = visit(service.port)
    visitor.fill()
    # Others behind the same address have just sent their forms.
    for _ in range(CONTACT_POLICY.quota):
        service.request("POST", "/contact.php", b"{}", {"Content-Type": "application/json"})
    with visitor.page.expect_response(lambda response: response.status == 429) as refused:
        visitor.send()

    visitor.sees_a_summary(WAIT.title, "otra solicitud desde su misma conexión a internet.")
    expect(visitor.status).to_have_text(COUNTDOWN)
    expect(visitor.button("Enviar solicitud")).to_be_disabled()
    announced, shown = visitor.status.inner_text(), visitor.progress.inner_text()
    visitor.page.clock.run_for(2000)
    assert visitor.progress.inner_text() != shown
    assert visitor.status.inner_text() == announced, "screen readers are not told of each second"
    # Whoever tries all the same is told how long it takes.
    visitor.button("Enviar solicitud").dispatch_event("click")
    expect(visitor.status).not_to_have_text(announced)
    visitor.record("quota")

    visitor.page.clock.fast_forward(int(refused.value.headers["retry-after"]) * 1000)
    expect(visitor.button("Enviar solicitud")).to_be_enabled()
    expect(visitor.button("Enviar solicitud")).to_be_focused()  # as the notice was
    expect(visitor.status).to_have_text(COUNTDOWN_ENDS)
    expect(visitor.summary).to_be_hidden()  # nothing says any longer that there is something to wait for
    visitor.still_has_what_was_typed()


def test_it_is_locked_for_as_long_as_the_service_asks_also_when_it_is_loaded_anew(unserved: Visitor) -> None:
    unserved.is_answered(500, error("internal_error"))
    unserved.fill()
    unserved.page.clock.pause_at(unserved.page.evaluate("Date.now() / 1000 + 1"))
    unserved.send()
    unserved.sees_a_summary(DOUBT)
    unserved.page.clock.run_for(28_000)
    expect(unserved.progress).to_have_text("Podrá enviarla en 2 segundos.")
    unserved.page.reload()
    unserved.sees_a_summary(DOUBT, "Se ha producido un error en nuestro servicio.", REQUEST_ID)
    again = unserved.button(AGAIN)
    unserved.solve()

    expect(again).to_have_attribute("aria-disabled", "true")
    expect(again).to_have_accessible_description(COUNTDOWN)
    again.click(force=True)
    expect(unserved.status).to_have_text(COUNTDOWN)
    expect(unserved.part("question")).to_be_visible()
    assert len(unserved.posts) == 1

    unserved.page.clock.run_for(3_000)
    with unserved.page.expect_request(lambda request: request.method == "POST"):
        again.click()


def test_a_message_that_is_kept_is_at_its_end(visit: Visit, tmp_path: Path) -> None:
    down = SmtpServer()
    down.port = free_port()
    with serving(tmp_path, **down.environ) as service:
        visitor = visit(service.port)
        visitor.fill_and_send("onboarding")

        visitor.sees_the_end("Hemos guardado su solicitud")
        expect(visitor.confirmation).to_contain_text("No tiene que enviarla otra vez.")
        expect(visitor.confirmation).to_contain_text(
            "Le responderemos a maria@example.com. Corregir el correo\n", use_inner_text=True
        )
        (kept,) = mailbox.Maildir(tmp_path / "mail", create=False)
        expect(visitor.confirmation).to_contain_text(kept["X-Reference"])
        expect(visitor.part("term")).to_be_hidden()
        visitor.record("kept")
        copy = "Nombre y apellidos: María Ñúñez\nEmpresa: Comercio Ejemplo S.L.\n"
        expect(visitor.page.locator("pre")).to_contain_text(f"Dar de alta mi comercio\n{copy}", use_inner_text=True)
        visitor.page.context.grant_permissions(["clipboard-write"])
        visitor.button("Copiar").click()
        expect(visitor.status).to_contain_text("Copiada.")
