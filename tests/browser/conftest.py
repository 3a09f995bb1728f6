"""The browser, and the three servers of the story: the website, the service and the sales team's mail server."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Playwright, expect, sync_playwright

from tests.browser.relay import Relay, relaying
from tests.browser.visitor import VIEWPORTS, Visitor
from tests.browser.website import Website, serving_form
from tests.chromium import PATIENCE, launch_chromium, launch_firefox
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server, serving

Visit = Callable[..., Visitor]
Later = Callable[[], None]
Edits = dict[str, Callable[[str], str]]

LAUNCH = {"chromium": launch_chromium, "firefox": launch_firefox}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests that are marked so in Firefox, too, by night."""
    if metafunc.definition.get_closest_marker("firefox"):
        browsers = ["chromium", pytest.param("firefox", marks=pytest.mark.nightly)]
        metafunc.parametrize("browser", browsers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest, playwright: Playwright) -> Iterator[Browser]:
    browser = LAUNCH[getattr(request, "param", "chromium")](playwright)
    yield browser
    browser.close()


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


@pytest.fixture
def edits(website: Website) -> Iterator[Edits]:
    """What the test changes in the website's files, by their names; a visitor sees it from the next visit on."""
    yield website.edits
    website.edits.clear()


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

    def note(error: Error) -> None:
        # Firefox counts a request that fails among the errors of the page.
        if "CORS request did not succeed" not in error.message:
            failures.append(error.message)

    def visit(port: int, path: str | None = None, query: str = "", *, is_slow: bool = True) -> Visitor:
        page = context.new_page()
        page.on("pageerror", note)
        visitor = Visitor(page, website.address(f"http://127.0.0.1:{port}", path, query), is_slow=is_slow)
        visitor.open()
        return visitor

    yield visit
    assert failures == []


@pytest.fixture
def visitor(service: Server, visit: Visit) -> Visitor:
    return visit(service.port)


@pytest.fixture
def later(visitor: Visitor, relay: Relay) -> Later:
    """Half a minute passes for the visitor, and for the service a new one comes."""
    visitor.take_clock()

    def wait() -> None:
        visitor.page.clock.fast_forward(31_000)
        relay.take_new_address()

    return wait


@pytest.fixture
def unserved(visit: Visit) -> Iterator[Visitor]:
    """A visitor for whom the service is out of reach: what they see comes from the form alone."""
    with socket.socket() as unreachable:
        unreachable.bind(("127.0.0.1", 0))
        yield visit(unreachable.getsockname()[1])
