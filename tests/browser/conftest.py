"""The browser, and the three servers of the story: the website, the service and the sales team's mail server."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from socketserver import BaseServer

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, expect, sync_playwright

from tests.browser.servers import Relay, Website
from tests.browser.visitor import AGED, PATIENCE, VIEWPORTS, Visitor
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server, serving

Visit = Callable[..., Visitor]

CHROMIUM, FIREFOX = "chromium", "firefox-esr"
SHELL = "chromium-headless-shell"
"""Chromium's engine without the browser around it, which takes half of the time."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests that are marked so in each browser."""
    if metafunc.definition.get_closest_marker("every_browser"):
        browsers = [SHELL, *(pytest.param(name, marks=pytest.mark.nightly) for name in (CHROMIUM, FIREFOX))]
        metafunc.parametrize("browser", browsers, indirect=True)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def launch(playwright: Playwright) -> Iterator[Callable[[str], Browser]]:
    """Starts each of Debian's browsers once; Playwright speaks WebDriver BiDi with Firefox."""
    with ExitStack() as running:

        @cache
        def start(program: str) -> Browser:
            kind, channel = (playwright.firefox, "moz-firefox") if program == FIREFOX else (playwright.chromium, None)
            return running.enter_context(kind.launch(executable_path=shutil.which(program), channel=channel))

        yield start


@pytest.fixture
def browser(request: pytest.FixtureRequest, launch: Callable[[str], Browser]) -> Browser:
    """The one that a test's parameter names."""
    return launch(getattr(request, "param", SHELL))


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(locale="es-ES", viewport=VIEWPORTS["desktop"], device_scale_factor=2) as context:
        context.set_default_timeout(PATIENCE)
        yield context


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    with server:
        threading.Thread(target=server.serve_forever).start()
        yield
        server.shutdown()


@pytest.fixture(scope="session")
def website() -> Iterator[Website]:
    website = Website()
    with running(website):
        yield website


@pytest.fixture(scope="session")
def inbox() -> Iterator[SmtpServer]:
    with SmtpServer() as inbox:
        yield inbox


@pytest.fixture(scope="session")
def service(inbox: SmtpServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # A test may hold the mail server's answer back.
    with serving(tmp_path_factory.mktemp("service"), **inbox.environ | {"SMTP_TIMEOUT": "60"}) as service:
        yield service


@pytest.fixture(scope="session")
def relay(service: Server) -> Iterator[Relay]:
    relay = Relay(service)
    with running(relay):
        yield relay


@pytest.fixture
def mail_server(inbox: SmtpServer) -> SmtpServer:
    """The mail server of the sales team, to which nothing has come in this test."""
    inbox.arrivals.clear()
    inbox.on_message = lambda: None
    return inbox


@pytest.fixture
def visit(context: BrowserContext, website: Website) -> Iterator[Visit]:
    """Brings a visitor before a form that posts to the port; nothing on the page may fail by itself."""
    failures: list[str] = []
    website.edits.clear()

    def visit(port: int, *, has_clock: bool = True) -> Visitor:
        visitor = Visitor(context.new_page(), website.address(port), has_clock=has_clock)
        visitor.page.add_init_script(AGED)
        visitor.page.on("pageerror", lambda error: failures.append(error.message))
        visitor.open()
        return visitor

    yield visit
    # Firefox counts a request that fails among the errors of the page.
    assert [message for message in failures if "CORS request did not succeed" not in message] == []


@pytest.fixture
def visitor(visit: Visit, relay: Relay) -> Visitor:
    return visit(relay.server_port)


@pytest.fixture
def unserved(visit: Visit) -> Visitor:
    """A visitor for whom the service is unreachable: what they see comes from the form alone."""
    return visit(1)
