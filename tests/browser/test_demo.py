"""``make demo``: what a visitor sends is shown in the inbox."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.visitor import FIELDS, SCREENSHOTS, VIEWPORTS, Visitor, axe_findings, take_picture
from tests.ports import free_port
from tests.server.gunicorn import DEMO, serving

REQUEST = {
    "nombre": "María Núñez",
    "empresa": "Comercios del Sur",
    "telefono": "+598 2 900 0000",
    "mensaje": "Tenemos doce tiendas y quisiéramos ver una demostración. ¿Sería posible el jueves por la mañana?",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The address of the demo's website."""
    port = free_port()
    with serving(tmp_path, command=DEMO, BIND=f"127.0.0.1:{free_port()}", DEMO_PORT=str(port)):
        yield f"http://127.0.0.1:{port}"


def test_what_a_visitor_sends_appears_in_the_open_inbox(context: BrowserContext, site: str) -> None:
    page = context.new_page()
    page.goto(f"{site}/inbox")
    company = """<b title='"'>Sol & Mar"""
    visitor = Visitor(context.new_page(), site)
    visitor.open()
    visitor.fill_and_send(empresa=company)
    visitor.sees_the_end()

    message = page.frame_locator("iframe[sandbox='']").get_by_role("main")
    expect(message.get_by_text(company)).to_be_visible()
    expect(message).to_contain_text("¿Es posible el jueves?")
    text, header = page.locator("pre").all_inner_texts()
    assert f"\nEmpresa: {company}\n" in text
    assert f"\nReply-To: {FIELDS['nombre']} <{FIELDS['email']}>\n" in header
    page.set_viewport_size(VIEWPORTS["phone"])
    take_picture(page, "inbox-phone")
    # axe-core's script does not reach into the frame, as no script does.
    assert [rule for rule, *_ in axe_findings(page)] == ["frame-tested"]


def test_readme_can_show_what_a_visitor_sends_and_what_arrives(browser: Browser, site: str) -> None:
    """``make pictures`` takes them from here."""
    with browser.new_page(locale="es-ES", viewport={"width": 680, "height": 1000}, device_scale_factor=1.4) as page:
        visitor = Visitor(page, site)
        visitor.open("/?utm_source=google&utm_medium=cpc&utm_campaign=tpv-oto%C3%B1o")
        visitor.fill(**REQUEST)
        page.locator(".contact-form").screenshot(path=SCREENSHOTS / "form.png")
        visitor.send()
        visitor.sees_the_end()
        visitor.open("/inbox")
        page.frame_locator("iframe").get_by_role("main").screenshot(path=SCREENSHOTS / "message.png")


def test_every_link_of_the_website_leads_somewhere(context: BrowserContext, site: str) -> None:
    page = context.new_page()
    page.goto(site)
    page.get_by_role("link", name="Política de privacidad").click()
    expect(page.get_by_role("heading", name="Política de privacidad")).to_be_visible()
    page.get_by_role("link", name="Volver al formulario").click()
    page.get_by_role("link", name="Demo: lo que ha llegado").click()
    expect(page.get_by_text("Todavía no ha llegado nada.")).to_be_visible()
