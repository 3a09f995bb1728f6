"""docs/mail.md, "SPF, DKIM and DMARC": what a Postfix with opendkim signs and relays verifies at the provider."""

import re
from email.message import EmailMessage
from typing import Any

import dkim
import pytest

from tests.mail.server import SmtpServer, parse
from tests.mta.conftest import Serve
from tests.mta.opendkim import documented, signing
from tests.mta.postfix import HOST, PATIENCE, running
from tests.waiting import wait_until

LETTERS: dict[str, dict[str, Any]] = {
    "names": {"nombre": "Núñez, 用户 😀", "empresa": "Ñandú & Søn «Comercio» שלום"},
    "a subject of many lines": {"empresa": "Compañía Ñandú " * 10},
    "long lines": {"mensaje": "x" * 3000 + "\n" + "ñ" * 1999},
    "dots": {"mensaje": ".\n..\n...\n.x\n\n."},
    "spaces": {"mensaje": " antes\ndetrás   \n\t\n   \nen  medio \t "},
    "empty lines at the end": {"mensaje": "fin\n\n\n\r\n\r\n"},
    "lines like those of a mailbox": {"mensaje": "From aquí\n>From\n--\n-- \n=\n=3D"},
    "nothing": {"mensaje": None, "nombre": None, "empresa": None, "telefono": None},
}
"""The fields that are added to a form."""


def signature_of(message: EmailMessage) -> dict[str, str]:
    """The tags of the only signature."""
    (value,) = message.get_all("DKIM-Signature", [])
    tags = (tag.partition("=") for tag in re.sub(r"\s", "", value).split(";"))
    return {name: text for name, _, text in tags}


@pytest.mark.nightly
def test_every_letter_verifies_with_the_record_of_the_page(serve: Serve) -> None:
    changed = {
        "SMTP_SECURITY": "none",
        "SALES_EMAIL": "ventas@elsewhere.example",
        "MAIL_FROM": "Formulario Ñandú <web@example.com>",
    }
    with SmtpServer() as provider, signing() as signer:
        relay = {"relayhost": f"[{HOST}]:{provider.port}", "default_transport": "smtp"}
        with running(**relay, **signer.milter) as postfix, serve(postfix.environ | changed) as service:
            answers = [service.post(**fields) for fields in LETTERS.values()]
            wait_until(lambda: len(provider.arrivals) == len(LETTERS), seconds=PATIENCE)

    assert answers == [200] * len(LETTERS)
    for arrival in provider.arrivals:
        message = parse(arrival)
        assert dkim.verify(arrival.content, dnsfunc=signer.resolve), message["Subject"]
        # These are equal, so both DKIM and SPF speak for the domain that DMARC asks about.
        signature, domain = signature_of(message), message["From"].addresses[0].domain
        assert (signature["d"], str(arrival.sender).partition("@")[2]) == (domain, domain)
        assert "l" not in signature  # it would leave the end of the body unsigned
    name, record = re.findall(r'^(\S+)\. +TXT "(v=DKIM1; .*)…"$', documented("zone"), re.MULTILINE)[0]
    assert (name, signer.record[: len(record)]) == (signer.name, record)
