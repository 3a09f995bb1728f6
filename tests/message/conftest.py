"""Chromium, and someone who reads messages in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.chromium import chromium
from tests.message.clients import CLIENTS
from tests.message.pages import RICH, html_of
from tests.message.reader import VIEWS, Reader, reading


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def reader(browser: Browser) -> Iterator[Reader]:
    with reading(browser) as reader:
        yield reader


@pytest.fixture(scope="module", params=VIEWS, ids="-".join)
def view(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A mail client and a layout."""
    client, layout = request.param
    return client, layout


@pytest.fixture(scope="module")
def letter(browser: Browser, view: tuple[str, str]) -> Iterator[Reader]:
    """The letter with everything, opened."""
    client, layout = view
    with reading(browser) as reader:
        reader.open(html_of(RICH), CLIENTS[client], layout)
        yield reader
