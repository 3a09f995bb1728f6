"""From a posted form to what arrives at the sales team's mail server, with nothing replaced between the two."""

import logging
import re
from collections.abc import Iterator

import pytest

from app.forms import FORM_TITLES, FORM_TYPES
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import contact_body
from tests.mail.server import HOST, SmtpServer, parse, text_of
from tests.versions import CONTACT

OWN = {f"SALES_EMAIL_{kind.upper()}": f"{kind}@example.com, Jefa <jefa@example.com>" for kind in FORM_TYPES}
"""Recipients of each form type."""

pytestmark = pytest.mark.usefixtures("_trusted_authority")


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with SmtpServer() as server:
        yield server


def client_of(make_client: MakeClient, server: SmtpServer, **environ: str) -> ValidatingClient:
    return make_client(collaborators={"mailer": None}, **server.environ | environ)


FORMS = [
    (CONTACT, "json", "demo", "maria@example.com", "maria@example.com"),
    (CONTACT, "data", "ventas", "maria@españa.es", "maria@xn--espaa-rta.es"),
    ("/contact.php", "json", "onboarding", "ñandú@correo.es", None),
    ("/contact.php", "data", "distribuidor", "用户@例子.公司", None),
]
"""Path, the test client's argument for the content type, kind, address, and what an answer goes to (no SMTPUTF8)."""
READ = """
Nombre: María Ñúñez
Empresa: Comercio Ejemplo S.L.
Correo electrónico: {}
Teléfono: +34 600 000 000

Tema: Tarifas & «plazos»

Mensaje

Quisiera una demostración.
.
¿Es posible el jueves?
"""


@pytest.mark.parametrize("form", FORMS)
def test_a_posted_form_arrives_field_by_field_at_the_recipients_of_its_kind(
    make_client: MakeClient, server: SmtpServer, form: tuple[str, str, str, str, str | None]
) -> None:
    path, encoding, kind, address, reply_to = form
    text = "Quisiera una demostración.\n.\n¿Es posible el jueves?"
    typed = contact_body(form_type=kind, email=address, tema="Tarifas & «plazos»", mensaje=text)

    response = client_of(make_client, server, **OWN).post(path, **{encoding: typed})

    assert (response.status_code, response.get_json()["ok"]) == (200, True)
    (arrival,) = server.arrivals
    assert (arrival.sender, arrival.recipients) == ("web@example.com", [f"{kind}@example.com", "jefa@example.com"])
    message = parse(arrival)
    assert [address.addr_spec for address in message["To"].addresses] == arrival.recipients
    assert message["Reply-To"] == (f"María Ñúñez <{reply_to}>" if reply_to else None)
    request_id = response.headers["X-Request-ID"]
    reference = f"{request_id[:4]}-{request_id[4:8]}".upper()
    assert message["Message-ID"].startswith(f"<{request_id}.")
    assert message["X-Reference"] == reference
    assert message["Subject"] == f"{FORM_TITLES[kind].short}: Comercio Ejemplo S.L. · {reference}"
    read = re.sub("Para responder: .*\n", "", text_of(arrival))
    assert read.split("\n", 2)[2] == f"Referencia: {reference}\n{READ.format(address)}"
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
