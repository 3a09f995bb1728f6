"""The browser, and the three servers of the story: the website, the service and the sales team's mail server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.relay import Relay, relaying
from tests.browser.visitor import VIEWPORTS, Visitor
from tests.browser.website import Website, serving_form
from tests.chromium import PATIENCE, chromium
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server, serving

Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE)
    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="es-ES", viewport=VIEWPORTS["desktop"], device_scale_factor=2)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture(scope="session")
def website() -> Iterator[Website]:
    with serving_form() as website:
        yield website


@pytest.fixture(scope="session")
def shared_mail_server() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory, shared_mail_server: SmtpServer) -> Iterator[Server]:
    # A test may hold the mail server's answer back, and the pictures that it takes meanwhile take their time.
    environ = shared_mail_server.environ | {"SMTP_TIMEOUT": "60"}
    with serving(tmp_path_factory.mktemp("service"), **environ) as server:
        yield server


@pytest.fixture(scope="session")
def relay(shared_service: Server) -> Iterator[Relay]:
    with relaying(shared_service.port) as relay:
        yield relay


@pytest.fixture
def mail_server(shared_mail_server: SmtpServer) -> SmtpServer:
    """The mail server of the sales team, to which nothing has come in this test."""
    shared_mail_server.arrivals.clear()
    shared_mail_server.on_message = lambda: None
    return shared_mail_server


@pytest.fixture
def service(shared_service: Server, relay: Relay, mail_server: SmtpServer) -> Server:  # noqa: ARG001 - it delivers there
    """The service as a client finds it that has spent nothing of its quotas."""
    relay.take_new_address()
    return replace(shared_service, port=relay.port)


@pytest.fixture
def visit(context: BrowserContext, website: Website) -> Iterator[Visit]:
    """Brings a visitor before a form that posts to the port; nothing on the page may fail by itself."""
    failures: list[str] = []

    def visit(port: int, path: str | None = None) -> Visitor:
        page = context.new_page()
        page.on("pageerror", lambda error: failures.append(str(error)))
        visitor = Visitor(page, website.address(f"http://127.0.0.1:{port}", path))
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
