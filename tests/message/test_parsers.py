"""Another program reads in a message what was typed. tests/contact holds the message itself to what it must be."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time

from tests.contact.reading import compose
from tests.factories import REFERENCE

COMPOSED_AT = "2030-01-01T02:30:00.000Z"
PATIENCE = 120
"""Seconds after which the program hangs."""

TEXTS = {
    "Spanish": "¿Cuánto cuesta? ¡Mañana! — «señal» €",
    "spaces at both ends of lines": "  a \n\tb\t\nc \t \ne ",
    "lines like an mbox separator": "a\nFrom b\n>From c\n\nFrom d@example.com Tue Jan  1 00:00:00 2030",
    "long lines": "palabra " * 300 + "\n" + "ñ" * 500 + "\n" + "x" * 1_200,
    "wide characters": "支付服务😀👩‍👩‍👧 " * 60,
    "boundaries": "a\n--\n-- \n--=_\n--=_0--\nb",
    "headers": "Subject: x\nContent-Type: text/html\n\n<b>x</b>",
}
NAMES = ["Maria (Comercio) Lopez", "María ?= Ñúñez", "محمد عبد الله", "ñ" * 150, "x <jefa@banco.example>, y"]
CASES: dict[str, dict[str, Any]] = {
    **{f"message: {what}": {"mensaje": text} for what, text in TEXTS.items()},
    **{f"name: {name}": {"nombre": name} for name in NAMES},
    "all fields": {"tema": "Precios", "volumenMensual": 40_000, "productos": ["Cobros"], "tienda": {"ciudad": "Cádiz"}},
    "Bcc in each field": dict.fromkeys(["nombre", "empresa", "telefono", "mensaje"], "a\r\nBcc: x@example.com"),
}
with freeze_time(COMPOSED_AT):
    SENT = {what: compose(**typed) for what, typed in CASES.items()}


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What mailparser reads, which is started once for all messages."""
    folder = tmp_path_factory.mktemp("messages")
    paths: list[Path] = []
    for number, message in enumerate(SENT.values()):
        paths.append(folder / f"{number}.eml")
        paths[-1].write_bytes(message.content)
    output = subprocess.check_output(["node", Path(__file__).with_name("parse.mjs"), *paths], timeout=PATIENCE)
    return dict(zip(SENT, json.loads(output), strict=True))


@pytest.mark.parametrize("what", SENT)
def test_another_program_reads_what_was_typed(readings: dict[str, dict[str, Any]], what: str) -> None:
    read, typed = readings[what], CASES[what]
    name = typed.get("nombre", "María Ñúñez")
    shown = "" if "@" in name else name  # it could become another address

    assert read["sender"] == [["Formulario de España", "web@example.com"]]
    assert read["recipients"] == [["Ventas, Uruguay", "ventas@example.com"]]
    assert read["reply_to"] == [[shown, "maria@example.com"]]
    assert read["subject"].startswith("Demo: ")
    assert read["subject"].endswith(f" · {REFERENCE}")
    assert datetime.fromisoformat(read["date"]) == datetime(2030, 1, 1, 2, 30, tzinfo=UTC)
    assert read["message_id"] == SENT[what].message_id
    assert (read["headers"]["x-auto-response-suppress"], read["headers"]["x-form-type"]) == ("OOF, AutoReply", "demo")
    assert read["headers"].keys().isdisjoint(("auto-submitted", "bcc"))
    assert f"{typed.get('mensaje', '')}\n".replace("\r\n", "\n") in read["text"]
    assert read["html"].startswith("<!doctype html>")
