"""From a posted form to what arrives at the sales team's mail server, with nothing replaced between the two."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
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

CALLS = list(product(["/api/v1/contact", "/contact.php"], ["json", "data"]))
"""The paths, each with the test client's arguments for the two content types."""
OWN = {f"SALES_EMAIL_{kind.upper()}": f"{kind}@example.com, Jefa <jefa@example.com>" for kind in SUBJECTS}
"""Recipients of each kind of form."""

pytestmark = pytest.mark.usefixtures("_trusted_authority")


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


def client_of(make_client: MakeClient, server: SmtpServer, **environ: str) -> ValidatingClient:
    return make_client(collaborators={"mailer": None}, **server.environ | environ)


READ = """
Nombre: María Ñúñez
Empresa: Comercio Ejemplo S.L.
Correo electrónico: maria@example.com
Teléfono: +34 600 000 000

Tema: Tarifas & «plazos»

Mensaje

Quisiera una demostración.
.
¿Es posible el jueves?
"""


@pytest.mark.parametrize(("call", "kind"), list(zip(CALLS, SUBJECTS, strict=True)))
def test_a_posted_form_arrives_field_by_field_at_the_recipients_of_its_kind(
    make_client: MakeClient, server: SmtpServer, call: tuple[str, str], kind: str
) -> None:
    path, encoding = call
    typed = contact_body(form_type=kind, tema="Tarifas & «plazos»", mensaje=READ.partition("Mensaje\n\n")[2].strip())

    response = client_of(make_client, server, **OWN).post(path, **{encoding: typed})

    assert (response.status_code, response.get_json()["ok"]) == (200, True)
    (arrival,) = server.arrivals
    assert (arrival.sender, arrival.recipients) == ("web@example.com", [f"{kind}@example.com", "jefa@example.com"])
    message = parse(arrival)
    assert [address.addr_spec for address in message["To"].addresses] == arrival.recipients
    assert message["Reply-To"].addresses[0].addr_spec == "maria@example.com"
    request_id = response.headers["X-Request-ID"]
    reference = f"{request_id[:4]}-{request_id[4:8]}".upper()
    assert message["Message-ID"].startswith(f"<{request_id}.")
    assert message["X-Reference"] == reference
    assert message["Subject"] == f"{SUBJECTS[kind]}: Comercio Ejemplo S.L. · {reference}"
    assert text_of(arrival).split("\n", 2)[2] == f"Referencia: {reference}\n{READ}"
    assert "Tarifas &amp; «plazos»" in text_of(arrival, "html")


REFUSAL = "550 5.1.1 <ventas@example.com> and <maria@example.com> are unknown here"
PRIVATE = ("María", "Comercio", "600 000", "demostración", "aB3dE", "maria@", "ventas@", "unknown here")
DETAILS = ("550", "5.1.1", HOST, "SMTP", "Refused")


def test_while_nothing_is_taken_the_answer_is_500_without_a_reason_and_afterwards_200(
    make_client: MakeClient, server: SmtpServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_of(make_client, server)

    server.replies = {"RCPT": REFUSAL}
    refused = client.post("/contact.php", json=contact_body())
    server.replies = {}
    taken = client.post("/contact.php", json=contact_body(), environ_base={"REMOTE_ADDR": "192.0.2.7"})

    assert (refused.status_code, taken.status_code, len(server.arrivals)) == (500, 200, 1)
    error = refused.get_json()["error"]
    assert (error["code"], error["details"]) == ("mail_delivery_failed", {"kept": True})
    log = "\n".join(caplog.handler.format(record) for record in caplog.records if record.name.startswith("app"))
    assert "was not delivered" in log
    assert not [text for text in PRIVATE if text in refused.text + log]
    assert not [text for text in DETAILS if text in refused.text]


def test_the_answer_is_200_only_once_the_server_has_taken_the_message(make_client: MakeClient) -> None:
    answered = threading.Event()
    too_early: list[bool] = []

    # The wait gives an answer that does not wait for the server the time to be noticed.
    with SmtpServer(on_message=lambda: too_early.append(answered.wait(0.2))) as server:
        response = client_of(make_client, server).post("/contact.php", json=contact_body())
        answered.set()

    assert (response.status_code, too_early) == (200, [False])


ADDRESSES = {"ñandú@correo.es": None, "maria@españa.es": "maria@xn--espaa-rta.es"}
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


END = "el final"
LINES = "א\n" * 2500
"""From right to left: each takes 18 times its room."""
ROWS = {f"א{number:x}": "א" for number in range(190)}
QUOTED = dict.fromkeys(map("".join, product(ascii_letters.replace("t", ""), repeat=2)), '"')


FORM, JSON = "application/x-www-form-urlencoded", "application/json"


def encoded(content_type: str, body: dict[str, Any]) -> bytes:
    """In as few bytes as the service takes."""
    if content_type == FORM:
        return "&".join(f"{name}={value}" for name, value in body.items()).encode()
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def filled(content_type: str, costly: str, **fields: Any) -> tuple[str, bytes]:
    """A body of 64 KiB: these fields, and a last one with as much of a costly text as there is room for."""
    body = {"form_type": "demo", "email": "maria@example.com", **fields, "z": END}
    room = MAX_BODY_BYTES - len(encoded(content_type, body))
    return content_type, encoded(content_type, body | {"z": costly * room + END})


HUGE = {
    # The longest message that a search has found, by far not 1 MB.
    "quotes in short fields": filled(FORM, '"', mensaje=LINES, **ROWS, **QUOTED),
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
    assert END in text_of(server.arrivals[0])
