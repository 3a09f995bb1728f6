"""The two bodies that the service answers with."""

from __future__ import annotations

from app import envelope
from app.errors import ApiError, ErrorCode
from tests.client import ValidatingClient

DOCS = "https://www.example.com/openapi.json"


def test_a_body_is_compact_json_with_readable_letters_in_this_order_and_one_line(client: ValidatingClient) -> None:
    expected = (
        '{"ok":false,"error":{"code":"not_found","message":"El recurso solicitado no existe.","status":404,'
        '"hint":"Revise la ruta; GET /api enumera lo que ofrece el servicio."},"docs":"http://localhost/openapi.json"}\n'
    )

    assert client.get("/x").data == expected.encode()
    assert "ningún recurso".encode() in client.get("/api/x").data


def test_failure_adds_details_allowed_values_and_the_wait_where_there_are_any() -> None:
    error = ApiError(ErrorCode.TOO_FAST, details={"reason": "expired"}, allowed_values=("a", "b"))

    body = envelope.failure(error, retry_after=7, docs=DOCS)

    extra = {"details": {"reason": "expired"}, "retry_after_seconds": 7, "allowed_values": ("a", "b")}
    plain = envelope.failure(ApiError(ErrorCode.TOO_FAST), retry_after=None, docs=DOCS)
    assert body["error"] == plain["error"] | extra
    assert plain["error"].keys() == {"code", "message", "status", "hint"}
    assert body["docs"] == DOCS
