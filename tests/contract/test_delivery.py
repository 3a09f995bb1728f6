"""From a posted form to what arrives at the sales team's mail server, with nothing replaced between the two."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from string import ascii_letters
from typing import Any

import pytest

from app.api.body import MAX_BODY_BYTES
from app.mail.spool import Spool
from tests.client import ValidatingClient
from tests.conftest import MakeApp, MakeClient
from tests.factories import SUBJECTS, contact_body
from tests.mail.server import HOST, SmtpServer, parse, text_of
from tests.waiting import wait_until

PATHS = ["/api/v1/contact", "/contact.php"]
CALLS = list(product(PATHS, ["json", "data"]))
"""The paths, each with the test client's arguments for the two content types."""
OWN = {f"SALES_EMAIL_{kind.upper()}": f"{kind}@example.com, Jefa <jefa@example.com>" for kind in SUBJECTS}
"""Recipients of each kind of form."""
ANOTHER = {"REMOTE_ADDR": "192.0.2.7"}
"""Another client than the usual one."""

pytestmark = pytest.mark.usefixtures("_trusted_authority")


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


def client_of(make_client: MakeClient, server: SmtpServer, **environ: str) -> ValidatingClient:
    return make_client(collaborators={"mailer": None}, **server.environ | environ)


ASKED = {
    "tema": "Tarifas & «plazos»",
    "tipo_de_partner": "integrador",
    "sector": "Hostelería",
    "volumen_mensual": "Hasta 10.000 €",
}
READ = """
Nombre: María Ñúñez
Empresa: Comercio Ejemplo S.L.
Correo electrónico: maria@example.com
Teléfono: +34 600 000 000

Tema: Tarifas & «plazos»
Tipo de colaboración: integrador
Sector: Hostelería
Volumen mensual: Hasta 10.000 €

Mensaje

Quisiera una demostración.
¿Es posible el jueves?
"""


@pytest.mark.parametrize(("call", "kind"), list(zip(CALLS, SUBJECTS, strict=True)))
def test_a_posted_form_arrives_field_by_field_at_the_recipients_of_its_kind(
    make_client: MakeClient, server: SmtpServer, call: tuple[str, str], kind: str
) -> None:
    path, encoding = call

    response = client_of(make_client, server, **OWN).post(path, **{encoding: contact_body(form_type=kind, **ASKED)})

    assert response.status_code == 200
    assert response.get_json()["ok"] is True
    (arrival,) = server.arrivals
    assert (arrival.sender, arrival.recipients) == ("web@example.com", [f"{kind}@example.com", "jefa@example.com"])
    message = parse(arrival)
    assert [address.addr_spec for address in message["To"].addresses] == arrival.recipients
    assert message["From"].addresses[0].addr_spec == "web@example.com"
    assert message["Reply-To"].addresses[0].addr_spec == "maria@example.com"
    request_id = response.headers["X-Request-ID"]
    reference = f"{request_id[:4]}-{request_id[4:8]}".upper()
    assert re.fullmatch(rf"<{request_id}\.[0-9a-f]{{16}}@example\.com>", message["Message-ID"])
    assert message["X-Reference"] == reference
    assert message["Subject"] == f"{SUBJECTS[kind]}: Comercio Ejemplo S.L. · {reference}"
    assert text_of(arrival).split("\n", 2)[2] == f"Referencia: {reference}\n{READ}"
    html = text_of(arrival, "html")
    shown = (
        "María Ñúñez",
        "Comercio Ejemplo S.L.",
        "+34 600 000 000",
        "Tarifas &amp; «plazos»",
        "integrador",
        reference,
    )
    assert [text for text in shown if text not in html] == []


REFUSAL = "550 5.1.1 <ventas@example.com> and <maria@example.com> are unknown here"
PRIVATE = ("María", "Comercio", "600 000", "demostración", "aB3dE", "maria@", "ventas@", "unknown here")
DETAILS = ("550", "5.1.1", HOST, "SMTP", "Refused")


@pytest.mark.parametrize("path", PATHS)
def test_while_nothing_is_taken_the_answer_is_500_without_a_reason_and_afterwards_200(
    make_client: MakeClient, server: SmtpServer, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_of(make_client, server)

    server.replies = {"RCPT": REFUSAL}
    refused = client.post(path, json=contact_body())
    server.replies = {}
    taken = client.post(path, json=contact_body(), environ_base=ANOTHER)

    assert (refused.status_code, taken.status_code, len(server.arrivals)) == (500, 200, 1)
    error = refused.get_json()["error"]
    assert (error["code"], error["details"]) == ("mail_delivery_failed", {"kept": True})
    log = "\n".join(caplog.handler.format(record) for record in caplog.records if record.name.startswith("app"))
    assert "was not delivered" in log
    assert not [text for text in PRIVATE if text in refused.text + log]
    assert not [text for text in DETAILS if text in refused.text]


@pytest.mark.parametrize(("path", "encoding"), CALLS)
def test_a_discarded_form_sends_nothing_and_is_answered_like_an_accepted_one(
    make_client: MakeClient, server: SmtpServer, path: str, encoding: str
) -> None:
    client = client_of(make_client, server)

    discarded = client.post(path, **{encoding: contact_body(_bp_check=" ")})
    arrivals = len(server.arrivals)
    accepted = client.post(path, **{encoding: contact_body()}, environ_base=ANOTHER)

    assert (arrivals, len(server.arrivals)) == (0, 1)
    assert (discarded.status_code, discarded.data) == (accepted.status_code, accepted.data)


def test_the_answer_is_200_only_once_the_server_has_taken_the_message(make_client: MakeClient) -> None:
    answered = threading.Event()
    too_early: list[bool] = []

    # The wait gives an answer that does not wait for the server the time to be noticed.
    with SmtpServer(on_message=lambda: too_early.append(answered.wait(0.2))) as server:
        response = client_of(make_client, server).post("/contact.php", json=contact_body())
        answered.set()

    assert (response.status_code, too_early) == (200, [False])


ADDRESSES = {"ñandú@correo.es": None, "用户@例子.公司": None, "maria@españa.es": "maria@xn--espaa-rta.es"}
"""Addresses that not every mail server takes, and what the answer of the sales team goes to."""


@pytest.mark.parametrize("extension", ["8BITMIME", "SMTPUTF8"])
@pytest.mark.parametrize(("address", "reply_to"), ADDRESSES.items())
def test_an_internationalised_address_is_delivered(
    make_client: MakeClient, address: str, reply_to: str | None, extension: str
) -> None:
    with SmtpServer({"EHLO": f"250-mail.example.com\r\n250 {extension}"}) as server:
        response = client_of(make_client, server).post("/contact.php", json=contact_body(email=address))

    assert response.status_code == 200
    (arrival,) = server.arrivals
    assert arrival.content.isascii()
    assert parse(arrival)["Reply-To"] == (f"María Ñúñez <{reply_to}>" if reply_to else None)
    assert f"Correo electrónico: {address}\n" in text_of(arrival)


@pytest.mark.parametrize(
    "text", ["a\r\nBcc: x@example.com", "=?utf-8?q?a=0D=0ABcc:_x=40example.com?=", "a\u2028Bcc: x"], ids=ascii
)
def test_what_a_visitor_typed_adds_no_header_and_no_recipient(
    make_client: MakeClient, server: SmtpServer, text: str
) -> None:
    client = client_of(make_client, server)
    client.post("/contact.php", json=contact_body())
    changes = {"nombre": text, "empresa": text, "telefono": text[:40], "mensaje": f"{text}\r\n.\r\nQUIT", text: text}
    typed = contact_body(form_type="ventas", **changes)

    response = client.post("/contact.php", json=typed, environ_base=ANOTHER)

    usual, injected = server.arrivals
    assert response.status_code == 200
    assert injected.recipients == ["ventas@example.com"]
    assert parse(injected).keys() == parse(usual).keys()


def test_the_longest_texts_arrive(make_client: MakeClient, server: SmtpServer) -> None:
    body = contact_body(nombre="支" * 200, empresa="ñ" * 200, telefono="0" * 40, mensaje="😀" * 5000)

    response = client_of(make_client, server).post("/contact.php", json=body)

    assert response.status_code == 200
    text = text_of(server.arrivals[0])
    assert f"Nombre: {'支' * 200}\n" in text
    assert text.endswith(f"\nMensaje\n\n{'😀' * 5000}\n")


FORM, JSON = "application/x-www-form-urlencoded", "application/json"
ENCODERS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    FORM: lambda body: "&".join(f"{name}={value}" for name, value in body.items()).encode(),
    JSON: lambda body: json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(),
}


def filled(content_type: str, costly: str, **fields: Any) -> tuple[str, bytes]:
    """A body of 64 KiB: these fields, and a last one with as much of a costly text as there is room for."""
    body = {"form_type": "demo", "email": "maria@example.com", **fields, "z": "el final"}
    room = MAX_BODY_BYTES - len(ENCODERS[content_type](body))
    return content_type, ENCODERS[content_type](body | {"z": costly * room + "el final"})


def named(letters: str, value: str) -> dict[str, str]:
    """Many fields, each with a name of two letters."""
    return dict.fromkeys(map("".join, product(letters, repeat=2)), value)


LINES = "א\n" * 2500
"""From right to left: each takes 18 times its room."""
ROWS = {f"א{number:x}": "א" for number in range(190)}
HUGE = {
    # The longest message that a search has found, by far not 1 MB.
    "quotes in short fields": filled(FORM, '"', mensaje=LINES, **ROWS, **named(ascii_letters.replace("t", ""), '"')),
    "control characters": filled(FORM, "\x01", mensaje=LINES, **ROWS, **named(bytes(range(32)).decode(), "x")),
    "apostrophes in JSON": filled(JSON, "'", mensaje=LINES, **ROWS),
    "objects in objects": filled(JSON, "x", dato=[{"": {"": 1}}] * 5000),
    "fields": filled(FORM, "x", **{f"{number:x}": 1 for number in range(8000)}),
}


@pytest.mark.parametrize(("content_type", "body"), HUGE.values(), ids=HUGE)
def test_a_form_of_64_kib_is_kept_and_arrives_when_the_server_is_back(
    make_app: MakeApp, server: SmtpServer, tmp_path: Path, content_type: str, body: bytes
) -> None:
    app = make_app(collaborators={"mailer": None}, **server.environ)
    server.replies = {"RCPT": "450 4.2.0 later"}
    response = app.test_client().post("/contact.php", data=body, content_type=content_type)
    kept = len(Spool(tmp_path / "mail").kept())
    server.replies = {}
    for passed in (False, True):
        app.extensions["background"].redelivery.server_checked(passed)
    wait_until(lambda: server.arrivals)

    assert (len(body), response.status_code) == (MAX_BODY_BYTES, 500)
    assert (response.get_json()["error"]["details"], kept) == ({"kept": True}, 1)
    assert len(server.arrivals[0].content) < 1_000_000  # MOST_ROWS of the letter bounds what a form can make
    assert "el final" in text_of(server.arrivals[0])
