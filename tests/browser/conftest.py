"""The browser, and the three servers of the story: the website, the service and the sales team's mail server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from socketserver import BaseServer
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Playwright, expect, sync_playwright

from tests.browser.relay import Relay
from tests.browser.visitor import VIEWPORTS, Visitor
from tests.browser.website import Website
from tests.chromium import PATIENCE, launch_chromium, launch_firefox
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server, serving

S = TypeVar("S", bound=BaseServer)
Visit = Callable[[int], Visitor]
Later = Callable[[], None]
Edits = dict[str, Callable[[str], str]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests that are marked so in Firefox, too, by night."""
    if metafunc.definition.get_closest_marker("firefox"):
        browsers = [launch_chromium, pytest.param(launch_firefox, marks=pytest.mark.nightly)]
        metafunc.parametrize("browser", browsers, ids=["chromium", "firefox"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest, playwright: Playwright) -> Iterator[Browser]:
    with getattr(request, "param", launch_chromium)(playwright) as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with browser.new_context(locale="es-ES", viewport=VIEWPORTS["desktop"], device_scale_factor=2) as context:
        context.set_default_timeout(PATIENCE)
        yield context


@contextmanager
def running(server: S) -> Iterator[S]:
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def website() -> Iterator[Website]:
    with running(Website()) as website:
        yield website


@pytest.fixture
def edits(website: Website) -> Iterator[Edits]:
    """What the test changes in the website's files, by their names; a visitor sees it from the next visit on."""
    yield website.edits
    website.edits.clear()


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Relay, Server, SmtpServer]]:
    with SmtpServer() as mail_server:
        # A test may hold the mail server's answer back, and the pictures that it takes meanwhile take their time.
        environ = mail_server.environ | {"SMTP_TIMEOUT": "60"}
        with serving(tmp_path_factory.mktemp("service"), **environ) as service, running(Relay(service.port)) as relay:
            yield relay, service, mail_server


@pytest.fixture
def relay(backend: tuple[Relay, Server, SmtpServer]) -> Relay:
    """Its client has spent nothing of the service's quotas."""
    backend[0].take_new_address()
    return backend[0]


@pytest.fixture
def mail_server(backend: tuple[Relay, Server, SmtpServer]) -> SmtpServer:
    """The mail server of the sales team, to which nothing has come in this test."""
    backend[2].arrivals.clear()
    backend[2].on_message = lambda: None
    return backend[2]


@pytest.fixture
def service(backend: tuple[Relay, Server, SmtpServer], relay: Relay, mail_server: SmtpServer) -> Server:  # noqa: ARG001 - it delivers there
    return replace(backend[1], port=relay.server_address[1])


@pytest.fixture
def visit(context: BrowserContext, website: Website) -> Iterator[Visit]:
    """Brings a visitor before a form that posts to the port; nothing on the page may fail by itself."""
    failures: list[str] = []

    def note(error: Error) -> None:
        # Firefox counts a request that fails among the errors of the page.
        if "CORS request did not succeed" not in error.message:
            failures.append(error.message)

    def visit(port: int) -> Visitor:
        visitor = Visitor(context.new_page(), website.address(port))
        visitor.page.on("pageerror", note)
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
