"""The error catalogue, row by row, and the body in which an error is answered."""

import re

import pytest

from app.api.body import MAX_BODY_BYTES
from app.errors import ApiError, ErrorCode
from tests.client import ValidatingClient


@pytest.mark.parametrize("text", ["message", "hint"])
def test_no_two_codes_share_a_message_or_a_hint(text: str) -> None:
    assert len({getattr(row, text) for row in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize("text", ["message", "hint"])
@pytest.mark.parametrize("row", ErrorCode, ids=str)
def test_a_text_is_sentences_that_do_not_blame_the_reader(row: ErrorCode, text: str) -> None:
    written = getattr(row, text)

    assert re.fullmatch(r"\S.*\.", written)
    assert written[0].isupper()
    # A colleague behind the same address may have sent the other form. "Ha enviado" without a subject means the reader.
    assert not re.search(r"(^|[.:;] )(No )?[Hh]a |\b[Uu]sted\b", written)


def test_the_hint_of_invalid_body_names_what_a_body_needs() -> None:
    assert all(
        name in ErrorCode.INVALID_BODY.hint
        for name in ("form_type", "nombre", "email", f" {MAX_BODY_BYTES // 1024} KiB ")
    )


def test_a_body_is_compact_json_with_readable_letters_in_this_order_and_one_line(client: ValidatingClient) -> None:
    message, hint = ErrorCode.NOT_FOUND.message, ErrorCode.NOT_FOUND.hint
    expected = (
        f'{{"ok":false,"error":{{"code":"not_found","message":"{message}","status":404,"hint":"{hint}"}},'
        '"docs":"http://localhost/openapi.json"}\n'
    )

    assert client.get("/x").data == expected.encode()
    assert ErrorCode.ENDPOINT_NOT_FOUND.message.encode() in client.get("/api/x").data


def test_the_text_of_the_exception_is_its_code() -> None:
    assert str(ApiError(ErrorCode.INVALID_EMAIL, details={"email": "maria@example.com"})) == "invalid_email"
