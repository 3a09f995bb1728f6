"""The form on slow and broken networks: what was sent is sent once, or the visitor decides."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.servers import Relay
from tests.browser.visitor import AGAIN, ASKED_AGAIN, DOUBT, SMALL_PHONE, WAYS, Visitor, lines_of
from tests.mail.server import SmtpServer
from tests.waiting import wait_until

REPEATED = "Aviso: Puede estar repetida: se perdió la respuesta al primer envío."
STOP = "Dejar de esperar"


@pytest.fixture
def answer(mail_server: SmtpServer) -> Iterator[threading.Event]:
    """The service answers once it is set: until then it waits for its mail server."""
    answer = threading.Event()
    mail_server.on_message = lambda: None if answer.wait(60) else mail_server.disconnect()
    yield answer
    answer.set()  # the service would not stop before


def send_and_wait(visitor: Visitor, mail_server: SmtpServer, seconds: int) -> None:
    """So long after the message has arrived there is still no answer."""
    visitor.send()
    wait_until(lambda: mail_server.arrivals)
    visitor.page.clock.run_for(seconds * 1000)


LOSSES = {
    "half a minute passes": "Hemos esperado la respuesta 30 segundos y no ha llegado.",
    "the visitor gives up": "Hemos dejado de esperar la respuesta.",
    "the connection breaks": "La conexión se ha cortado antes de que llegara nuestra respuesta.",
}


@pytest.mark.every_browser
@pytest.mark.parametrize("loss", LOSSES)
def test_without_an_answer_the_visitor_decides_whether_it_is_sent_again(
    visitor: Visitor, mail_server: SmtpServer, relay: Relay, answer: threading.Event, loss: str
) -> None:
    visitor.fill()
    if loss == "the connection breaks":
        relay.loses_answer = True
        answer.set()
    send_and_wait(visitor, mail_server, 30 if loss == "half a minute passes" else 10)
    if loss == "the visitor gives up":
        visitor.send(STOP)

    visitor.sees_a_summary(DOUBT, f"{LOSSES[loss]} {ASKED_AGAIN}")
    expect(visitor.request_id).to_be_hidden()
    visitor.still_has_what_was_typed()
    if loss == "the visitor gives up":
        visitor.record("question")
    assert len(visitor.posts) == 1
    answer.set()
    visitor.wait()
    visitor.send(AGAIN)
    visitor.sees_the_end()
    assert [line for line in lines_of(mail_server, 1) if line.startswith(("Aviso", "Ts"))] == [REPEATED]


@pytest.mark.parametrize("way", WAYS)
def test_a_page_that_was_left_while_it_was_sent_asks(
    visitor: Visitor, mail_server: SmtpServer, answer: threading.Event, way: str
) -> None:
    visitor.fill("ventas")
    visitor.field("tema").select_option("Otro tema")
    visitor.send()
    wait_until(lambda: mail_server.arrivals)
    WAYS[way](visitor.page)

    visitor.sees_a_summary(DOUBT, ASKED_AGAIN)
    answer.set()
    visitor.still_has_what_was_typed()
    visitor.solve()
    visitor.send(AGAIN)
    visitor.sees_the_end()
    assert {"Tema: Otro tema", REPEATED} <= set(lines_of(mail_server, 1))
    visitor.page.reload()
    expect(visitor.summary).to_be_hidden()


@pytest.mark.every_browser
def test_while_it_is_sent_nothing_can_be_edited_and_the_button_keeps_the_focus(
    visitor: Visitor, mail_server: SmtpServer, answer: threading.Event
) -> None:
    visitor.fill()
    visitor.page.clock.pause_at(visitor.page.evaluate("Date.now() / 1000 + 1"))
    visitor.field("captcha_input").press("Enter")

    expect(visitor.button("Enviando…")).to_be_focused()
    expect(visitor.button("Enviando…")).to_be_disabled()
    expect(visitor.status).to_have_text("Enviando…")
    expect(visitor.page.locator("form :is(input, textarea):enabled")).to_have_count(0)
    visitor.page.keyboard.press("Enter")
    visitor.page.clock.run_for(2000)
    expect(visitor.progress).to_have_text("Está tardando más de lo habitual.")
    expect(visitor.button(STOP)).to_be_hidden()
    answer.set()
    visitor.sees_the_end()
    assert len(visitor.posts) == len(mail_server.arrivals) == 1


def test_no_way_leads_around_the_question_and_a_no_loses_nothing(
    visitor: Visitor, mail_server: SmtpServer, answer: threading.Event
) -> None:
    visitor.page.set_viewport_size(SMALL_PHONE)  # on which one button takes the place of the other
    visitor.fill()
    send_and_wait(visitor, mail_server, 10)
    visitor.sees(visitor.button(STOP), visitor.progress)
    visitor.button(STOP).dblclick()

    expect(visitor.button("Enviar solicitud")).to_be_hidden()
    visitor.field("nombre").press("Enter")
    expect(visitor.summary).to_be_focused()
    visitor.button("No, dejarlo así").click()
    expect(visitor.summary).to_be_hidden()
    expect(visitor.button(AGAIN)).to_be_focused()
    expect(visitor.status).to_have_text("No se ha enviado otra vez.")
    visitor.still_has_what_was_typed()
    answer.set()
    visitor.wait()
    visitor.send(AGAIN)
    visitor.sees_the_end()
    assert REPEATED in lines_of(mail_server, 1)
    assert len(visitor.posts) == 2


def test_a_page_that_is_left_comes_back_as_it_was(visitor: Visitor) -> None:
    visitor.open("?tipo=ventas")
    visitor.fill("onboarding")
    visitor.field("sector").select_option("Servicios")
    WAYS["left and come back to"](visitor.page)

    visitor.still_has_what_was_typed()
    expect(visitor.field("sector")).to_have_value("Servicios")
    expect(visitor.field("tema")).to_be_hidden()
