"""A picture of the message for each mail client, in which axe-core finds nothing: build/messages."""

from __future__ import annotations

import pytest

from tests.chromium import axe_findings
from tests.message.clients import CLIENTS
from tests.message.pages import ORDINARY, html_of
from tests.message.reader import Reader


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_a_picture_is_kept(letter: Reader, view: tuple[str, str], theme: str) -> None:
    client, layout = view
    letter.choose_theme(theme, CLIENTS[client])

    letter.take_picture(f"rich-{client}-{layout}-{theme}")

    # Of the page around the message, every other client has one of its own.
    assert axe_findings(letter.page, None if client == "as-sent" else "body > *") == []


@pytest.mark.parametrize(
    ("client", "layout", "theme"),
    [
        ("as-sent", "desktop", "light"),
        ("as-sent", "phone", "dark"),
        ("gmail", "phone", "light"),
        ("outlook-windows", "desktop", "light"),
    ],
)
@pytest.mark.parametrize("kind", ORDINARY)
def test_a_picture_of_each_kind_is_kept(reader: Reader, kind: str, client: str, layout: str, theme: str) -> None:
    reader.open(html_of(ORDINARY[kind]), CLIENTS[client], layout)
    reader.choose_theme(theme, CLIENTS[client])

    reader.take_picture(f"{kind}-{client}-{layout}-{theme}")

    assert axe_findings(reader.page, None if client == "as-sent" else "body > *") == []
