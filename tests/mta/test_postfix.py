"""What the service hands over to a real mail server, and what that one thinks of it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from functools import partial
from threading import Event

import pytest

from app.contact.submission import SUBJECTS
from tests.mta.conftest import Serve, Service
from tests.mta.postfix import CLOSED_WHILE_IDLE, Postfix, running

ACCEPTED = (200, None)
FAILED = (500, "mail_delivery_failed")

NO_SUCH_USER = r"reject: RCPT from \S+ 550 5\.1\.1 <nadie@example\.com>: "
NO_ROOM = r"452 4\.3\.1 Insufficient system storage|not enough free space in mail queue"
REFUSED = r"smtpd\[\d+\]: (lost connection after DATA from \S+|disconnect from .* data=0/1 commands=\d+/\d+)$"
"""The service closes the connection on which a whole message was refused. The refused commands are counted."""

OWN_AFFAIRS = r"^(?!.*(\[127\.0\.0\.1\]|fatal:|panic:))"
"""A line about no client. A reload may separate two processes of Postfix that talk to each other: they try again."""

INTERNATIONAL = {
    "ñandú@correo.es": None,
    "maria@españa.es": "María Ñúñez <maria@xn--espaa-rta.es>",
    "用户@例子.公司": None,
}
"""Addresses of visitors, and how a header without SMTPUTF8 can name them."""


def text_of(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    assert isinstance(part, EmailMessage)
    return str(part.get_content())


def shown_in(message: EmailMessage) -> str:
    """The visitor's address in the text."""
    (address,) = re.findall(r"^Correo electrónico: (\S+)$", text_of(message), re.MULTILINE)
    return str(address)


def undelivered(service: Service) -> list[str]:
    """The local parts of the Message-IDs of what lies in MAIL_DIR."""
    return re.findall(r"[0-9a-f]{32}\.[0-9a-f]{16}$", service.mail("list").stdout, re.MULTILINE)


def test_every_kind_of_form_arrives_encrypted(serve: Serve) -> None:
    with running() as postfix, serve(postfix.environ) as service:
        answers = [service.post(form_type=kind, mensaje=f"Soy de {kind}.\n.\nÑandú") for kind in SUBJECTS]
        delivered = {message["X-Form-Type"]: message for message in postfix.delivered()}

        assert answers == [ACCEPTED] * 4
        assert delivered.keys() == SUBJECTS.keys()
        assert len(postfix.delivered()) == 4
        for kind, message in delivered.items():
            assert text_of(message).endswith(f"\nMensaje\n\nSoy de {kind}.\n.\nÑandú\n")
            assert message["Subject"].startswith(f"{SUBJECTS[kind]}: ")
            assert message["Return-Path"] == "<web@example.com>"
            assert message["Reply-To"] == "María Ñúñez <maria@example.com>"
            assert "using TLSv1.3" in message["Received"]
            assert "with ESMTPS" in message["Received"]


@pytest.mark.nightly
def test_international_addresses_arrive(serve: Serve) -> None:
    sales = {"SALES_EMAIL": "ventas@xn--bcher-kva.example"}
    with running() as postfix, serve(postfix.environ | sales) as service:
        answers = [service.post(email=address) for address in INTERNATIONAL]
        delivered = postfix.delivered()

    assert answers == [ACCEPTED] * len(INTERNATIONAL)
    assert {shown_in(message): message["Reply-To"] for message in delivered} == INTERNATIONAL
    assert len(delivered) == len(INTERNATIONAL)


@pytest.mark.nightly
def test_a_recipient_who_is_refused_takes_nothing_from_another(serve: Serve) -> None:
    sales = {"SALES_EMAIL": "nadie@example.com,ventas@example.com"}
    with running(NO_SUCH_USER, r" rcpt=1/2 ") as postfix, serve(postfix.environ | sales) as service:
        answer = service.post()
        (message,) = postfix.delivered()
        log = service.server.log

        assert answer == ACCEPTED
        assert undelivered(service) == []
        assert f"the mail server refused a recipient of {message['Message-ID']} with 550" in log
        assert "nadie" not in log


@pytest.mark.nightly
def test_the_operator_is_told_who_is_refused(serve: Serve) -> None:
    sales = {"SALES_EMAIL": "nadie@example.com,ventas@example.com"}
    with running(NO_SUCH_USER, r" rcpt=1/2 ") as postfix, serve(postfix.environ | sales) as service:
        result = service.mail("test")

        assert result.returncode == 1
        assert "nadie@example.com: refused: 550 5.1.1" in result.stdout
        assert "ventas@example.com: accepted" in result.stdout
        assert len(postfix.delivered()) == 1


@pytest.mark.nightly
def test_a_message_whose_recipients_are_all_refused_is_kept(serve: Serve) -> None:
    sales = {"SALES_EMAIL": "nadie@example.com"}
    with running(NO_SUCH_USER, REFUSED) as postfix, serve(postfix.environ | sales) as service:
        answer = service.post()

        assert answer == FAILED
        assert len(undelivered(service)) == 1
        assert "SMTPRecipientsRefused 550" in service.server.log
        assert postfix.delivered() == []


@pytest.mark.nightly
def test_what_meets_a_full_queue_is_kept_and_can_be_sent_once_there_is_room(serve: Serve) -> None:
    no_room = str(10**15)  # octets; Postfix compares it with the room on the disk
    with running(REFUSED, NO_ROOM, queue_minfree=no_room) as postfix:
        with serve(postfix.environ) as service:
            answer = service.post()
            kept = undelivered(service)

            assert answer == FAILED
            assert len(kept) == 1
            assert "SMTPSenderRefused 452" in service.server.log

        postfix.reload(queue_minfree="0")
        resent = service.mail("resend")

        assert resent.returncode == 0, resent
        assert [message["Message-ID"] for message in postfix.delivered()] == [f"<{name}@example.com>" for name in kept]
        assert undelivered(service) == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("interrupt", "times"),
    [pytest.param(Postfix.reload, 8, id="reload"), pytest.param(Postfix.restart, 3, id="restart")],
)
def test_no_form_is_lost_while_postfix_is_interrupted(
    interrupt: Callable[[Postfix], None], times: int, serve: Serve
) -> None:
    done = Event()
    numbers = itertools.count(1)
    answers: dict[str, int] = {}

    def trickle(service: Service) -> None:
        while not done.wait(0.02):
            name = f"Comercio {next(numbers)}"
            answers[name], _ = service.post(empresa=name)

    def answered(enough: int) -> bool:
        return len(answers) >= enough

    with running(OWN_AFFAIRS) as postfix:
        with serve(postfix.environ) as service, ThreadPoolExecutor(4) as pool:
            try:
                visitors = [pool.submit(trickle, service) for _ in range(4)]
                for _ in range(times):
                    postfix.wait_until(partial(answered, len(answers) + 10))
                    interrupt(postfix)
                postfix.wait_until(partial(answered, len(answers) + 10))
            finally:
                done.set()
            for visitor in visitors:
                visitor.result()
        resent = service.mail("resend")
        # Postfix delivers once more what it was delivering when it was stopped. Such copies have the same Received.
        taken = {(str(message["Subject"]), str(message["Received"])) for message in postfix.delivered()}
        delivered = Counter(subject.partition(": ")[2].partition(" · ")[0] for subject, _ in taken)

    assert resent.returncode == 0, resent
    assert set(answers.values()) <= {200, 500}
    assert delivered.keys() == answers.keys()
    assert [name for name, status in answers.items() if status == 200 and delivered[name] != 1] == []


@pytest.mark.nightly
def test_a_form_arrives_after_postfix_has_closed_an_idle_connection(serve: Serve) -> None:
    with running(CLOSED_WHILE_IDLE, smtpd_timeout="5s") as postfix, serve(postfix.environ) as service:
        postfix.wait_for("timeout after EHLO")
        postfix.wait_until_all_have_left()
        postfix.reload(smtpd_timeout="300s")
        answer = service.post()

        assert answer == ACCEPTED
        assert len(postfix.delivered()) == 1
