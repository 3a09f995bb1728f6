"""Attacks that succeeded once: text that hides, covers or forges what the sales team reads."""

from __future__ import annotations

import email
import re
import unicodedata
from email.policy import default
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.contact.composer import HTML, TEXT, Composer
from app.contact.schema import validate
from app.contact.visible_text import one_line, visible
from app.mailbox import Mailbox
from tests.contact.submissions import checked, letter_of
from tests.factories import REQUEST_ID, contact_body

COMPOSER = Composer(Mailbox("web@example.com"), lambda _: [Mailbox("ventas@example.com")], ZoneInfo("UTC"))

SPACES = ["\u1680", "\u2003", "\u3000"]
BLANK_IN_ADDRESSES = ["\u034f", "\u115f", "\u2800", "\u3164", "\ufe0f", "\uffa0"]

MARKS = "\u0301\u0489\u05b0\u0610\u064e\u06d6\u0e34\u0e48\u1ab0\u1dc0\u20dd\ua66f\ua674\ufe20"
"""One of each range of marks."""

TOWERS = {
    **{ascii(mark): mark * 500 for mark in MARKS},
    "different marks": "\u0301\u0489\u20dd\u0e48" * 125,
    "marks with invisible characters between them": ("\u0301" * 6 + "\u200b\u200d") * 80,
}

ENDS_OF_WORDS = {
    "Malayalam": "അവന്\u200d",
    "Malayalam in parentheses": "(മോഹന്\u200d)",
    "Kurdish": "کوردستانه\u200c له",
    "a Persian abbreviation": "۱۴۴۵ ه\u200d. ق.",  # noqa: RUF001 - no Latin letters
    "Bengali": "হঠাত্\u200c করে",
}

ENCODED_HEADERS = ["=?utf-8?q?a=0D=0ABcc:_x=40example.com?=", "=?utf-8?q?=0ABcc:_x=40example.com"]


def compose(**changes: Any) -> bytes:
    return COMPOSER.compose(checked(**changes), REQUEST_ID).content


def text(**changes: Any) -> str:
    return TEXT.render(letter=letter_of(**changes))


@pytest.mark.parametrize("space", SPACES, ids=ascii)
@pytest.mark.parametrize("follower", ["\u200c", "\u200d", "\ufe0f"], ids=ascii)
def test_a_joiner_or_selector_behind_a_space_is_invisible(space: str, follower: str) -> None:
    assert one_line(f"{space}{follower}{space}") == ""


@pytest.mark.parametrize("tower", TOWERS.values(), ids=TOWERS)
def test_a_tower_of_marks_does_not_reach_other_lines(tower: str) -> None:
    assert visible(f"a{tower}b") == f"a{tower[:6]}b"


@pytest.mark.parametrize(
    "tema",
    [
        {"Correo electrónico": "jefa@banco.example"},
        "Precios\n\nCorreo electrónico: jefa@banco.example",
        f"Precios{' ' * 80}Correo electrónico: jefa@banco.example",
    ],
    ids=["an object", "lines", "spaces that a window wraps"],
)
def test_what_the_form_asked_for_cannot_pass_for_other_fields(tema: object) -> None:
    asked = text(tema=tema).partition("Otros datos")[0].partition("Tema:")[2]

    assert "Correo electrónico:" not in asked or asked.startswith(" Precios Correo electrónico:")


@pytest.mark.parametrize("blank", BLANK_IN_ADDRESSES, ids=ascii)
def test_an_address_holds_nothing_invisible(blank: str) -> None:
    assert "email" in validate(contact_body(email=f"je{blank}fa@example.com"))[1]


def test_the_parts_of_an_address_do_not_change_places() -> None:
    assert "jefa.בנק@רע.com" not in text(email="jefa.בנק@רע.com")


@pytest.mark.parametrize("company", ENCODED_HEADERS)
def test_a_subject_that_is_written_again_starts_no_header(company: str) -> None:
    content = compose(form_type="ventas", empresa=company)
    for _ in range(3):
        content = email.message_from_bytes(content, policy=default.clone(refold_source="all")).as_bytes()

    assert "Bcc" not in email.message_from_bytes(content)


def test_a_name_that_is_written_again_as_utf_8_can_be_read() -> None:
    rewriting = default.clone(refold_source="all", utf8=True)
    again = email.message_from_bytes(compose(nombre=".ñ"), policy=rewriting).as_bytes()

    (mailbox,) = email.message_from_bytes(again, policy=default)["Reply-To"].addresses

    assert mailbox.addr_spec == contact_body()["email"]


def test_no_header_line_is_too_long() -> None:
    for length in range(30, 80):
        lines = compose(form_type="onboarding", empresa="A" * length).partition(b"\r\n\r\n")[0].split(b"\r\n")

        assert max(map(len, lines)) <= 78


@pytest.mark.parametrize("words", ENDS_OF_WORDS.values(), ids=ENDS_OF_WORDS)
def test_joiners_at_the_end_of_a_word_stay(words: str) -> None:
    assert visible(words) == words


@pytest.mark.parametrize("before", ["", "a ", "a\n", "\t", "\0", "\u2028", "\u200b", "_", "-"], ids=ascii)
@pytest.mark.parametrize("mark", ["\u0338", "\u0338\u0301"], ids=ascii)
def test_no_mark_can_join_the_end_of_a_tag(before: str, mark: str) -> None:
    typed = f"{before}{mark}x"
    changes: dict[str, Any] = dict.fromkeys(("nombre", "empresa", "telefono", "mensaje", "tema", "otro"), typed)
    html = HTML.render(letter=letter_of(**changes, lista=[typed, [typed]], objeto={typed: typed}, **{typed: typed}))

    assert not re.search(f"[>\\s]{mark[0]}", html)
    assert unicodedata.normalize("NFC", html).count(">") == html.count(">")
