"""The form on slow and broken networks: what was sent is sent once, or the visitor decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Edits, Later, Visit
from tests.browser.relay import Relay
from tests.browser.steps import DOUBT, OK, RECEIVED, adding, answer_with, lines_of
from tests.browser.visitor import FIELDS, VIEWPORTS, Visitor
from tests.mail.server import SmtpServer, parse
from tests.server.gunicorn import Server
from tests.waiting import wait_until

REPEATED = "Aviso: Puede estar repetida: se perdió la respuesta al primer envío."


def patient(milliseconds: int) -> str:
    """A script that lets the page do nothing by itself after so long a time, however long the pictures take."""
    return f"(set => {{ window.setTimeout = (run, ms) => ms >= {milliseconds} ? 0 : set(run, ms); }})(setTimeout)"


@pytest.fixture
def answer(mail_server: SmtpServer) -> Iterator[threading.Event]:
    """The service answers once it is set: until then it waits for its mail server."""
    answer = threading.Event()
    mail_server.on_message = lambda: None if answer.wait(60) else mail_server.disconnect()
    yield answer
    answer.set()  # the service would not stop before


@pytest.mark.firefox
def test_while_it_is_sent_nothing_can_be_edited_and_the_button_keeps_the_focus(
    visitor: Visitor, mail_server: SmtpServer, answer: threading.Event
) -> None:
    visitor.page.evaluate(patient(10_000))
    visitor.fill()
    visitor.field("captcha_input").press("Enter")

    expect(visitor.button("Enviando…")).to_be_focused()
    expect(visitor.button("Enviando…")).to_be_disabled()
    expect(visitor.status).to_have_text("Enviando…")
    for name in FIELDS:
        expect(visitor.field(name)).to_be_disabled()
    visitor.page.keyboard.type(" ")
    visitor.page.keyboard.press("Enter")
    # From here on it takes longer than it should.
    expect(visitor.progress).to_have_text("Está tardando más de lo habitual.")
    expect(visitor.button("Dejar de esperar")).to_be_hidden()
    visitor.record("sending")
    answer.set()
    visitor.sees_the_end()
    assert len(visitor.posts) == len(mail_server.arrivals) == 1


def test_who_gives_up_after_ten_seconds_is_asked_before_it_is_sent_again(
    visitor: Visitor, mail_server: SmtpServer, later: Later, answer: threading.Event
) -> None:
    visitor.page.evaluate(patient(30_000))
    visitor.fill()
    visitor.send()
    wait_until(lambda: mail_server.arrivals)
    visitor.page.clock.run_for(10_000)
    visitor.record("giving-up")
    visitor.button("Dejar de esperar").click()

    visitor.sees_a_summary(DOUBT, "Hemos dejado de esperar la respuesta.", "¿Quiere enviarla otra vez?")
    expect(visitor.button("Enviar solicitud")).to_be_hidden()
    visitor.still_has_what_was_typed()
    visitor.record("question")
    # No way leads around the question, and a "no" loses nothing.
    visitor.field("nombre").press("Enter")
    expect(visitor.summary).to_be_focused()
    visitor.button("No, dejarlo así").click()
    expect(visitor.summary).to_be_hidden()
    expect(visitor.button("Enviar otra vez")).to_be_focused()
    expect(visitor.status).to_have_text("No se ha enviado otra vez.")
    visitor.still_has_what_was_typed()
    assert len(visitor.posts) == 1

    answer.set()
    later()
    visitor.button("Enviar otra vez").click()
    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert REPEATED in lines_of(mail_server, 1)


def test_without_an_answer_for_half_a_minute_the_page_asks(
    visitor: Visitor, mail_server: SmtpServer, later: Later, answer: threading.Event
) -> None:
    visitor.fill()
    visitor.send()
    wait_until(lambda: mail_server.arrivals)
    visitor.page.clock.run_for(30_000)

    visitor.sees_a_summary(DOUBT, "Hemos esperado la respuesta 30 segundos y no ha llegado.")
    answer.set()
    later()
    visitor.button("Enviar otra vez").click()
    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert REPEATED in lines_of(mail_server, 1)
    assert not [line for line in lines_of(mail_server, 1) if line.startswith("Ts")]


@pytest.mark.firefox
def test_a_connection_that_breaks_after_the_message_has_arrived(
    visitor: Visitor, mail_server: SmtpServer, relay: Relay
) -> None:
    mail_server.on_message = relay.cut
    visitor.fill()
    visitor.send()

    visitor.sees_a_summary(DOUBT, "La conexión se ha cortado antes de que llegara nuestra respuesta.")
    expect(visitor.request_id).to_be_hidden()
    visitor.still_has_what_was_typed()
    mail_server.on_message = lambda: None
    relay.take_new_address()
    visitor.button("Enviar otra vez").click()
    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert REPEATED in lines_of(mail_server, 1)


def test_in_airplane_mode_nothing_is_in_doubt(visitor: Visitor, mail_server: SmtpServer) -> None:
    visitor.fill()
    visitor.page.context.set_offline(True)
    visitor.send()

    visitor.sees_a_summary("Su solicitud no se ha enviado", "No hay conexión a internet: envíela cuando la recupere.")
    visitor.still_has_what_was_typed()
    visitor.record("offline")
    visitor.page.context.set_offline(False)
    visitor.button("Enviar otra vez").click()

    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert not [line for line in lines_of(mail_server) if "Aviso" in line]


@pytest.mark.parametrize("way", ["reloaded", "left and come back to"])
def test_a_page_that_was_left_while_it_was_sent_asks(
    visitor: Visitor, mail_server: SmtpServer, relay: Relay, answer: threading.Event, way: str
) -> None:
    visitor.fill("ventas")
    visitor.field("tema").select_option("Otro tema")
    visitor.send()
    wait_until(lambda: mail_server.arrivals)
    visitor.leave(way)

    visitor.sees_a_summary(DOUBT, "¿Quiere enviarla otra vez?")
    answer.set()
    relay.take_new_address()
    visitor.still_has_what_was_typed()
    expect(visitor.field("tema")).to_have_value("Otro tema")
    visitor.field("captcha_input").fill(visitor.hear_captcha())
    visitor.button("Enviar otra vez").click()
    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert {"Tema: Otro tema", REPEATED} <= set(lines_of(mail_server, 1))
    visitor.page.reload()
    expect(visitor.summary).to_be_hidden()


@pytest.mark.parametrize("way", ["reloaded", "left and come back to"])
def test_a_confirmation_comes_back_and_can_be_corrected(
    visitor: Visitor, mail_server: SmtpServer, later: Later, way: str
) -> None:
    visitor.fill("ventas")
    visitor.send()
    visitor.sees_the_end()
    visitor.leave(way)
    visitor.sees_the_end()
    reference = parse(mail_server.arrivals[0])["X-Reference"]
    expect(visitor.confirmation).to_contain_text(reference)
    expect(visitor.confirmation.locator("pre")).to_contain_text(FIELDS["mensaje"])

    visitor.button("Corregir el correo").click()
    visitor.leave(way)
    note = f"Esta solicitud corrige el correo de la solicitud {reference}."
    expect(visitor.page.get_by_text(note)).to_be_visible()
    visitor.still_has_what_was_typed()
    later()
    visitor.field("captcha_input").fill(visitor.hear_captcha())
    visitor.send()
    visitor.sees_the_end()
    assert f"Aviso: {note}" in lines_of(mail_server, 1)


@pytest.mark.parametrize("button", ["Dejar de esperar", "No, dejarlo así"])
def test_a_double_click_on_a_button_that_gives_way_to_another_does_not_send(
    visitor: Visitor, mail_server: SmtpServer, later: Later, answer: threading.Event, button: str
) -> None:
    visitor.page.set_viewport_size(VIEWPORTS["phone"])  # on which one button takes the place of the other
    visitor.fill()
    visitor.send()
    wait_until(lambda: mail_server.arrivals)
    visitor.page.clock.run_for(10_000)
    if button != "Dejar de esperar":
        visitor.button("Dejar de esperar").click()
    visitor.button(button).dblclick()

    expect(visitor.button("Enviar otra vez")).to_be_visible()
    answer.set()
    later()
    visitor.button("Enviar otra vez").click()
    expect(visitor.confirmation).to_contain_text(RECEIVED)
    assert len(visitor.posts) == len(mail_server.arrivals) == 2


BOLETIN = '<label><input type="checkbox" name="boletin" value="si"> Boletín</label><input type="file" name="plano">'


def test_a_page_that_is_left_comes_back_as_it_was(service: Server, visit: Visit, edits: Edits) -> None:
    edits["index.html"] = adding(BOLETIN)
    visitor = visit(service.port, query="?tipo=ventas")
    visitor.fill("onboarding")
    visitor.field("sector").select_option("Servicios")
    visitor.field("boletin").check()

    def comes_back() -> None:
        visitor.leave("left and come back to")
        visitor.still_has_what_was_typed()
        expect(visitor.field("sector")).to_have_value("Servicios")
        expect(visitor.field("tema")).to_be_hidden()
        expect(visitor.field("boletin")).to_be_checked()

    comes_back()
    visitor.page.route("**/api/v1/contact", lambda route: route.abort())
    visitor.field("captcha_input").fill(visitor.hear_captcha())
    visitor.send()
    visitor.sees_a_summary(DOUBT)
    comes_back()
    visitor.sees_a_summary(DOUBT)


def test_another_form_has_nothing_of_the_one_before(unserved: Visitor) -> None:
    answer_with(unserved, **OK)
    unserved.fill()
    unserved.send()
    unserved.sees_the_end()
    unserved.button("Corregir el correo").click()
    unserved.field("nombre").fill("")
    unserved.field("email").fill("maria@gmial.com")
    unserved.send()
    unserved.field("nombre").fill("María")
    unserved.page.unroute_all()
    unserved.field("captcha_input").fill(unserved.hear_captcha())
    unserved.send()
    unserved.send()
    unserved.sees_a_summary(DOUBT)
    unserved.button("Cancelar la corrección").click()
    expect(unserved.confirmation).to_contain_text("Le escribiremos a maria@example.com.")
    expect(unserved.field("email")).to_have_value("maria@example.com")
    unserved.button("Enviar otra solicitud").click()
    for said in (".error", "[role=alert]", "[data-part=question]", "[data-part=slip]", "[data-part=correction]"):
        expect(unserved.page.locator(said).locator("visible=true")).to_have_count(0)
    unserved.page.reload()
    expect(unserved.button("Enviar solicitud")).to_be_enabled()
    expect(unserved.field("nombre")).to_have_value("")
