"""The browser, and the three servers of the story: the website, the service and the sales team's mail server."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.browser.visitor import VIEWPORTS, Visitor
from tests.browser.website import serving_form
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server, serving

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

PATIENCE = 20_000
"""Milliseconds within which anything that is to happen has happened, however busy the machine is."""

Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "`make test-browser` installs Chromium where it is missing"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="es-ES", viewport=VIEWPORTS["desktop"], device_scale_factor=2)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def mail_server() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, mail_server: SmtpServer) -> Iterator[Server]:
    with serving(tmp_path, **mail_server.environ) as server:
        yield server


@pytest.fixture
def visit(context: BrowserContext) -> Iterator[Visit]:
    """Brings a visitor before a form that posts to the port; nothing on the page may fail by itself."""
    with ExitStack() as websites:
        failures: list[str] = []

        def visit(port: int, path: str | None = None) -> Visitor:
            url = websites.enter_context(serving_form(f"http://127.0.0.1:{port}", path))
            page = context.new_page()
            page.on("pageerror", lambda error: failures.append(str(error)))
            visitor = Visitor(page, url)
            visitor.open()
            return visitor

        yield visit
        assert failures == []


@pytest.fixture
def visitor(service: Server, visit: Visit) -> Visitor:
    return visit(service.port)


@pytest.fixture
def unserved(visit: Visit) -> Iterator[Visitor]:
    """A visitor for whom the service is out of reach: what they see comes from the form alone."""
    with socket.socket() as unreachable:
        unreachable.bind(("127.0.0.1", 0))
        yield visit(unreachable.getsockname()[1])
