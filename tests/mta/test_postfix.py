"""The messages of the service at a real mail server, and its opinion of them."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.forms import FORM_TITLES
from tests.messages import body_of
from tests.mta.conftest import Serve
from tests.mta.postfix import SALES, running

NO_SUCH_USER = r"reject: RCPT from \S+ 550 5\.1\.1 <nadie@example\.com>: | rcpt=1/2 "
OWN_AFFAIRS = r"^(?!.*(\[127\.0\.0\.1\]|fatal:|panic:))"
"""A line about no client. A reload may separate two processes of Postfix that talk to each other: they try again."""

VISITORS = {
    "demo": ("maria@example.com", "María Ñúñez <maria@example.com>"),
    "onboarding": ("maria@españa.es", "María Ñúñez <maria@xn--espaa-rta.es>"),
    "ventas": ("ñandú@correo.es", None),
    "distribuidor": ("用户@例子.公司", None),
}
"""The address of the visitor in each form type, and how a header without SMTPUTF8 can name it."""


def test_every_kind_of_form_arrives_encrypted_and_from_every_visitor(serve: Serve) -> None:
    with running() as postfix, serve(postfix.environ) as service:
        visitors = VISITORS.items()
        answers = [service.post(form_type=kind, email=address, mensaje=".\nÑandú") for kind, (address, _) in visitors]
        arrived = {message["X-Form-Type"]: message for message in postfix.delivered()}

    assert answers == [200] * 4
    assert arrived.keys() == VISITORS.keys()
    assert {kind: message["Reply-To"] for kind, message in arrived.items()} == {
        kind: reply_to for kind, (_, reply_to) in visitors
    }
    for kind, message in arrived.items():
        assert f"\nCorreo electrónico: {VISITORS[kind][0]}\n" in body_of(message)
        assert body_of(message).endswith("\nMensaje\n\n.\nÑandú\n")
        assert message["Subject"].startswith(f"{FORM_TITLES[kind].short}: ")
        assert message["Return-Path"] == "<web@example.com>"
        assert "using TLSv1.3" in message["Received"]


@pytest.mark.nightly
def test_a_recipient_who_is_refused_takes_nothing_from_another_and_the_operator_is_told(serve: Serve) -> None:
    sales = {"SALES_EMAIL": f"nadie@example.com,{SALES}"}
    with running(NO_SUCH_USER) as postfix, serve(postfix.environ | sales) as service:
        answer = service.post()
        (message,) = postfix.delivered()
        tested = service.mail("test")
        log = service.server.log

    assert answer == 200
    assert f"the mail server refused a recipient of {message['Message-ID']} with 550" in log
    assert "nadie" not in log
    assert tested.returncode == 1
    assert "nadie@example.com: refused: 550 5.1.1" in tested.stdout
    assert f"{SALES}: accepted" in tested.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("commands", [["reload"], ["stop", "start"]], ids=["reload", "restart"])
def test_no_form_is_lost_while_postfix_is_interrupted(commands: list[str], serve: Serve) -> None:
    names = [f"Comercio {number}" for number in range(40)]  # `resend` needs a second for each that fails

    def post(name: str) -> int:
        time.sleep(0.25)  # so that some come during the interruption; no result depends on it
        return service.post(empresa=name)

    with running(OWN_AFFAIRS) as postfix:
        with serve(postfix.environ | {"SMTP_TIMEOUT": "10"}) as service, ThreadPoolExecutor(4) as pool:
            answered = pool.map(post, names)
            first = next(answered)
            for command in commands:
                postfix.run(command)
            answers = dict(zip(names, [first, *answered], strict=True))
        resent = service.mail("resend")
        # Postfix delivers once more what it was delivering when it was stopped. Such copies have the same Received.
        taken = {(str(message["Subject"]), str(message["Received"])) for message in postfix.delivered()}
        delivered = Counter(subject.partition(": ")[2].partition(" · ")[0] for subject, _ in taken)

    assert resent.returncode == 0, resent
    assert set(answers.values()) <= {200, 500}
    assert delivered.keys() == answers.keys()
    assert [name for name, status in answers.items() if status == 200 and delivered[name] != 1] == []
