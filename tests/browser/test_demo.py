"""``make demo``: what a visitor sends is shown in the inbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.visitor import FIELDS, RULES, SCREENSHOTS, VIEWPORTS, Visitor
from tests.chromium import axe_findings
from tests.ports import free_port
from tests.server.gunicorn import DEMO, Server, serving

DEMO_PORT = free_port()
SITE = f"http://127.0.0.1:{DEMO_PORT}"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Server]:
    """The service of a demo whose website is at SITE."""
    environ = {"BIND": f"127.0.0.1:{free_port()}", "DEMO_PORT": str(DEMO_PORT)}
    with serving(tmp_path, command=DEMO, **environ) as server:
        yield server


@pytest.fixture
def inbox(context: BrowserContext, service: Server) -> Visitor:  # noqa: ARG001 - its messages are shown
    inbox = Visitor(context.new_page(), f"{SITE}/inbox")
    inbox.open()
    return inbox


@pytest.mark.parametrize("path", ["/", "/index.html"])
def test_what_a_visitor_sends_appears_in_the_open_inbox(context: BrowserContext, inbox: Visitor, path: str) -> None:
    company = """<b title='"'>Sol & Mar"""
    visitor = Visitor(context.new_page(), SITE + path)
    visitor.open()
    visitor.fill_and_send(empresa=company)
    visitor.sees_the_end()

    page = inbox.page
    letter = page.frame_locator("iframe[sandbox='']").get_by_role("main")
    expect(letter.get_by_text(company)).to_be_visible()
    expect(letter).to_contain_text("¿Es posible el jueves?")
    expect(page.get_by_role("heading", level=2)).to_contain_text(company)
    text, header = page.locator("pre").all_inner_texts()
    assert f"\nEmpresa: {company}\n" in text
    assert f"\nReply-To: {FIELDS['nombre']} <{FIELDS['email']}>\n" in header
    for layout, size in VIEWPORTS.items():
        page.set_viewport_size(size)
        page.screenshot(path=SCREENSHOTS / f"inbox-{layout}.png", full_page=True, scale="css")
        # axe-core's script does not reach into the frame, as no script does.
        assert [rule for rule, *_ in axe_findings(page, rules=RULES)] == ["frame-tested"]


def test_the_letter_that_is_read_stays_while_others_arrive(service: Server, inbox: Visitor) -> None:
    letters = inbox.page.get_by_role("listitem")
    read = inbox.page.get_by_role("main").locator("pre").first

    replace(service, client="127.0.0.2").post_form(nombre="Ana")
    expect(letters).to_have_count(1)
    expect(read).to_contain_text("Nombre: Ana")
    replace(service, client="127.0.0.3").post_form(nombre="Luis")
    expect(letters).to_have_count(2)
    expect(read).to_contain_text("Nombre: Luis")
    letters.last.get_by_role("link").click()
    replace(service, client="127.0.0.4").post_form(nombre="Eva")
    expect(letters).to_have_count(3)
    expect(read).to_contain_text("Nombre: Ana")

    expect(inbox.page.locator("[aria-current]")).to_have_count(1)


def test_every_link_of_the_website_leads_somewhere(context: BrowserContext, service: Server) -> None:  # noqa: ARG001 - the website is its demo's
    page = context.new_page()
    page.goto(SITE)

    page.get_by_role("link", name="Política de privacidad").click()

    expect(page.get_by_role("heading", name="Política de privacidad")).to_be_visible()
    page.get_by_role("link", name="Volver al formulario").click()
    page.get_by_role("link", name="Demo: lo que ha llegado").click()
    expect(page.get_by_text("Todavía no ha llegado nada.")).to_be_visible()
    page.goto(f"{SITE}/inbox/delivered")
    expect(page.get_by_text("Este mensaje ya no está aquí.")).to_be_visible()
