"""The two bodies that the service answers with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app import envelope
from app.errors import ApiError, ErrorCode

DOCS = "https://www.example.com/openapi.json"


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        ({"message": "Recibido."}, {"ok": True, "message": "Recibido."}),
        ({"data": {"a": 1}}, {"ok": True, "data": {"a": 1}}),
        ({"data": {}}, {"ok": True, "data": {}}),
    ],
    ids=["message", "data", "empty data"],
)
def test_success_holds_what_it_is_given_and_nothing_else(parts: dict[str, Any], body: dict[str, Any]) -> None:
    assert json.loads(envelope.success(**parts)) == body


def test_failure_states_code_message_status_hint_and_docs() -> None:
    body = json.loads(envelope.failure(ApiError(ErrorCode.NOT_FOUND), retry_after=None, docs=DOCS))

    assert body == {
        "ok": False,
        "error": {
            "code": "not_found",
            "message": ErrorCode.NOT_FOUND.message,
            "status": 404,
            "hint": ErrorCode.NOT_FOUND.hint,
        },
        "docs": DOCS,
    }


def test_failure_adds_details_allowed_values_and_the_wait_where_there_are_any() -> None:
    error = ApiError(ErrorCode.TOO_FAST, details={"reason": "expired"}, allowed_values=("a", "b"))

    body = json.loads(envelope.failure(error, retry_after=7, docs=DOCS))["error"]

    assert body["details"] == {"reason": "expired"}
    assert body["allowed_values"] == ["a", "b"]
    assert body["retry_after_seconds"] == 7


def test_spanish_letters_stay_readable() -> None:
    assert "¿Señor Núñez?".encode() in envelope.success(message="¿Señor Núñez?")


def test_what_is_no_json_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        envelope.success(data={"latency_ms": float("nan")})
