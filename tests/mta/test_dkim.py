"""docs/mail.md, "SPF, DKIM and DMARC": what a Postfix with opendkim signs and relays verifies at the provider."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import dkim
import pytest

from app import create_app
from app.contact.submission import FORM_TYPES
from app.mail.mailer import Mailer
from app.mail.message import Message
from app.mail.smtp import Deadline, SmtpSender
from tests.factories import contact_body, make_limits, make_settings
from tests.fakes import RecordingMailer
from tests.mail.server import Arrival, SmtpServer
from tests.mta.opendkim import Signer, documented, milter, signing
from tests.mta.postfix import HOST, PATIENCE, running

pytestmark = pytest.mark.nightly

SALES = "ventas@elsewhere.example"

LETTERS: dict[str, dict[str, Any]] = {kind: {"form_type": kind} for kind in FORM_TYPES} | {
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


@dataclass(frozen=True)
class Relayed:
    """Each letter as it was handed over and as it arrived."""

    signer: Signer
    canonicalization: str
    letters: Mapping[str, tuple[bytes, Arrival]]

    def verifies(self, content: bytes) -> bool:
        """The judgement of a verifier that shares nothing with opendkim."""
        return bool(dkim.verify(content, dnsfunc=self.signer.resolve))


def write_letters(directory: Path) -> list[Message]:
    """The messages that the service writes."""
    mailer = RecordingMailer()
    settings = make_settings(directory, MAIL_FROM="Formulario Ñandú <web@example.com>", SALES_EMAIL=SALES)
    client = create_app(settings, mailer=cast("Mailer", mailer), limits=make_limits()).test_client()
    for number, fields in enumerate(LETTERS.values(), start=1):
        visitor = {"REMOTE_ADDR": f"192.0.2.{number}"}
        assert client.post("/api/v1/contact", json=contact_body(**fields), environ_base=visitor).status_code == 200
    return mailer.messages


@pytest.fixture(scope="module", params=["relaxed/relaxed", "simple/simple"])
def relayed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Relayed:
    directory = tmp_path_factory.mktemp("mail")
    messages = write_letters(directory)
    with SmtpServer() as provider, signing(request.param) as signer:
        relay = {"relayhost": f"[{HOST}]:{provider.port}", "default_transport": "smtp"}
        with running(**relay | milter(signer.port)) as postfix:
            here = {"SMTP_SECURITY": "none", "SALES_EMAIL": SALES}
            sender = SmtpSender(make_settings(directory, **postfix.environ | here))
            for message in messages:
                sender.send(message, Deadline(PATIENCE), before_data_ends=lambda: None)
            sender.close()
            postfix.wait_until(lambda: not postfix.queue())
        sent = {message.message_id: message.content for message in messages}
        arrivals = {str(parse(arrival.content)["Message-ID"]): arrival for arrival in provider.arrivals}
    pairs = [(sent[message.message_id], arrivals[message.message_id]) for message in messages]
    return Relayed(signer, request.param, dict(zip(LETTERS, pairs, strict=True)))


def parse(content: bytes) -> email.message.EmailMessage:
    return email.message_from_bytes(content, policy=email.policy.default)


def signature_of(content: bytes) -> dict[str, str]:
    """The tags of the only signature."""
    (value,) = parse(content).get_all("DKIM-Signature", [])
    tags = (tag.partition("=") for tag in re.sub(r"\s", "", value).split(";"))
    return {name: text for name, _, text in tags}


def test_every_letter_verifies(relayed: Relayed) -> None:
    assert [name for name, (_, arrival) in relayed.letters.items() if not relayed.verifies(arrival.content)] == []


def test_the_signature_is_that_of_the_sender(relayed: Relayed) -> None:
    for _, arrival in relayed.letters.values():
        signature = signature_of(arrival.content)
        assert signature["c"] == relayed.canonicalization
        assert "l" not in signature  # it would leave the end of the body unsigned
        # These three are equal, so both DKIM and SPF speak for the domain that DMARC asks about.
        domain = parse(arrival.content)["From"].addresses[0].domain
        assert arrival.sender is not None
        assert (signature["d"], arrival.sender.partition("@")[2]) == (domain, domain)


def test_the_relay_changes_nothing(relayed: Relayed) -> None:
    for sent, arrival in relayed.letters.values():
        assert arrival.content.endswith(sent)
        added = parse(arrival.content.removesuffix(sent) + b"\r\n")
        assert sorted(added.keys()) == ["DKIM-Signature", "Received"]


def test_the_record_of_the_page_is_the_one_that_its_commands_make(relayed: Relayed) -> None:
    name, record = re.findall(r'^(\S+)\. +TXT "(v=DKIM1; .*)…"$', documented("zone"), re.MULTILINE)[0]

    assert name == relayed.signer.name
    assert relayed.signer.record.startswith(record)
