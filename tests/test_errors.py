"""The error catalogue, row by row."""

from __future__ import annotations

import re

import pytest

from app.errors import ApiError, ErrorCode


def test_no_two_codes_share_a_message_or_a_hint() -> None:
    assert len({row.message for row in ErrorCode}) == len(ErrorCode)
    assert len({row.hint for row in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize("row", ErrorCode, ids=str)
def test_message_and_hint_are_sentences(row: ErrorCode) -> None:
    for text in (row.message, row.hint):
        assert text == text.strip()
        assert text[0].isupper()
        assert text.endswith(".")


@pytest.mark.parametrize("row", ErrorCode, ids=str)
def test_no_text_says_that_the_reader_did_something_wrong(row: ErrorCode) -> None:
    # A colleague behind the same address may have sent the other form. "Ha enviado" without a subject means the reader.
    for text in (row.message, row.hint):
        assert not re.search(r"(^|[.:;] )(No )?[Hh]a |\b[Uu]sted\b", text)


def test_the_hint_of_invalid_body_names_what_a_body_needs() -> None:
    assert all(name in ErrorCode.INVALID_BODY.hint for name in ("form_type", "nombre", "email"))


def test_the_text_of_the_exception_is_its_code() -> None:
    assert str(ApiError(ErrorCode.INVALID_EMAIL, details={"email": "maria@example.com"})) == "invalid_email"
