"""Every fault of a mail server, through the whole service: the answer, what is kept, and what a resend delivers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

import pytest
import trustme
from flask import Flask

from tests.conftest import MakeApp
from tests.factories import contact_body
from tests.mail.clock import run_short_after_content
from tests.mail.scripted import Act, Connection, Script, ScriptedServer
from tests.mail.server import HOST, authority

IN_DOUBT = "in doubt"

MARGIN = 15
"""Seconds: a server that dribbles needs 40 for one reply, and one that hangs never comes to an end."""


@dataclass(frozen=True)
class Fault:
    """What the server does, the SMTP_TIMEOUT under which it is met, and how `mail list` calls what is kept."""

    script: Script = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    timeout: float = 10
    runs_short: bool = False
    """Whether little of that time is left once the content has been sent."""
    kept_as: str = "waiting"
    listening: bool = True


FAULTS = {
    "refused connection": Fault(listening=False),
    "no STARTTLS": Fault(options={"security": "none"}),
    "certificate of an unknown authority": Fault(options={"certificate": trustme.CA().issue_cert(HOST)}),
    "certificate for another name": Fault(options={"certificate": authority().issue_cert("mail.example.com")}),
    "no AUTH": Fault(options={"auth": False}),
    "greeting 421": Fault({"connect": "421 4.3.2 too busy"}),
    "greeting 554": Fault({"connect": "554 5.3.2 no service"}),
    "greeting in another protocol": Fault({"connect": "HTTP/1.1 400 Bad Request"}),
    "STARTTLS 454": Fault({"STARTTLS": "454 4.7.0 not now"}),
    "AUTH rejected": Fault({"AUTH": "535 5.7.8 wrong"}),
    "AUTH with a broken challenge": Fault({"AUTH": "334 abc"}),
    "MAIL 421": Fault({"MAIL": "421 4.3.2 closing"}),
    "MAIL 451": Fault({"MAIL": "451 4.3.0 later"}),
    "MAIL 550": Fault({"MAIL": "550 5.7.1 no"}, kept_as="refused"),
    "RCPT 450": Fault({"RCPT": "450 4.2.0 later"}),
    "RCPT 550": Fault({"RCPT": "550 5.1.1 unknown"}, kept_as="refused"),
    "RCPT 550 and DATA 354": Fault({"RCPT": "550 5.1.1 unknown", "DATA": "354 go ahead"}, kept_as="refused"),
    "DATA 452": Fault({"DATA": "452 4.3.1 full"}),
    "DATA 554": Fault({"DATA": "554 5.6.0 no"}, kept_as="refused"),
    "final dot 451": Fault({"message": "451 4.3.0 later"}),
    "final dot 554": Fault({"message": "554 5.6.0 no"}, kept_as="refused"),
    "drop at the greeting": Fault({"connect": Act.DROP}),
    "drop at the TLS handshake": Fault({"handshake": Act.DROP}),
    "drop at MAIL": Fault({"MAIL": Act.DROP}),
    "drop at DATA": Fault({"DATA": Act.DROP}),
    "drop after the final dot": Fault({"message": Act.DROP}, kept_as=IN_DOUBT),
    "reset after the final dot": Fault({"message": Act.RESET}, kept_as=IN_DOUBT),
    "nonsense after the final dot": Fault({"message": "nonsense"}, kept_as=IN_DOUBT),
}

STEPS = ["connect", "EHLO", "STARTTLS", "handshake", "second EHLO", "AUTH", "MAIL", "RCPT", "DATA"]

SLOW_FAULTS = {
    **{f"hang at {step}": Fault({step: Act.HANG}, timeout=0.3) for step in STEPS},
    **{f"dribble at {step}": Fault({step: Act.DRIBBLE}, timeout=0.3) for step in ("connect", "handshake", "RCPT")},
    "hang after the final dot": Fault({"message": Act.HANG}, runs_short=True, kept_as=IN_DOUBT),
    "dribble after the final dot": Fault({"message": Act.DRIBBLE}, runs_short=True, kept_as=IN_DOUBT),
}

pytestmark = pytest.mark.usefixtures("_trusted_authority")

CASES = [
    *(pytest.param(fault, False, id=f"{name}, one by one") for name, fault in FAULTS.items()),
    *(pytest.param(fault, True, id=f"{name}, pipelining") for name, fault in (FAULTS | SLOW_FAULTS).items()),
]

IDLE_ENDS: dict[str, Callable[[Connection], None]] = {
    "421": lambda connection: connection.end(b"421 4.4.2 idle for too long\r\n"),
    "FIN": lambda connection: connection.end(),
    "RST": lambda connection: connection.end(reset=True),
}


@pytest.fixture
def healthy() -> ScriptedServer:
    """A server without faults that listens only where a test enters it, under a port that is known before."""
    with ScriptedServer(security="starttls", auth=True) as server:
        return server


def faulty(healthy: ScriptedServer, fault: Fault, **options: Any) -> ScriptedServer:
    """What listens in its place under the same port."""
    usual: dict[str, Any] = {"security": "starttls", "auth": True, "port": healthy.port}
    return ScriptedServer(fault.script, **usual | fault.options | options)


def service(make_app: MakeApp, server: ScriptedServer, timeout: float = 10) -> Flask:
    return make_app(collaborators={"mailer": None}, **server.environ | {"SMTP_TIMEOUT": str(timeout)})


def operate(app: Flask, *arguments: str) -> tuple[int, str]:
    result = app.test_cli_runner().invoke(args=["mail", *arguments])
    return result.exit_code, result.stdout


def listed(app: Flask) -> list[tuple[str, str]]:
    """State and local part of the Message-ID of what is undelivered."""
    _, output = operate(app, "list")
    return re.findall(r"(waiting|in doubt|refused) +(\S+)$", output, re.MULTILINE)


def local_parts(contents: list[bytes]) -> list[str]:
    """The local parts of the Message-IDs."""
    ids = [str(BytesHeaderParser().parsebytes(content)["Message-ID"]) for content in contents]
    return [message_id.strip("<>").partition("@")[0] for message_id in ids]


def kept(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in (directory / "mail").rglob("*") if path.is_file()]


@pytest.mark.parametrize(("fault", "pipelining"), CASES)
def test_a_fault_is_answered_500_and_a_resend_delivers_once_what_was_kept(
    make_app: MakeApp,
    healthy: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    pipelining: bool,  # noqa: FBT001 - a case of the table
) -> None:
    app = service(make_app, healthy, fault.timeout)
    server = faulty(healthy, fault, pipelining=pipelining)
    begun = time.perf_counter()
    with server if fault.listening else nullcontext(), monkeypatch.context() as patch:
        if fault.runs_short:
            run_short_after_content(patch, allowed=fault.timeout)
        response = app.test_client().post("/contact.php", json=contact_body())
        seconds = time.perf_counter() - begun

    assert response.status_code == 500
    assert response.get_json()["error"]["code"] == "mail_delivery_failed"
    assert seconds < MARGIN
    assert server.taken == []
    ((state, local_part),) = listed(app)
    assert state == fault.kept_as
    assert local_parts(kept(tmp_path)) == [local_part]
    if fault.kept_as == IN_DOUBT:
        assert local_parts(server.received) == [local_part]

    operator = service(make_app, healthy)
    with healthy:
        status, output = operate(operator, "resend")
        again = operate(operator, "resend")

    assert (status, again) == (0, (0, ""))
    assert output.startswith(f"1/1 {local_part} delivered: 250")
    assert local_parts(healthy.received) == [local_part]
    assert len(healthy.taken) == 1
    assert kept(tmp_path) == []
    assert listed(app) == []


@pytest.mark.parametrize("end", IDLE_ENDS.values(), ids=IDLE_ENDS)
def test_an_idle_connection_that_the_server_closed_costs_no_visitor_anything(
    make_app: MakeApp, healthy: ScriptedServer, tmp_path: Path, end: Callable[[Connection], None]
) -> None:
    client = service(make_app, healthy).test_client()

    with healthy:
        client.post("/contact.php", json=contact_body())
        end(healthy.connections[0])
        response = client.post("/contact.php", json=contact_body(), environ_base={"REMOTE_ADDR": "192.0.2.7"})

    assert response.status_code == 200
    assert len(healthy.received) == len(healthy.taken) == len(set(local_parts(healthy.taken))) == 2
    assert kept(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        pytest.param("RCPT 450", "RCPT 550", "refused", id="refused for now, then for good"),
        pytest.param("RCPT 550", "RCPT 450", "waiting", id="refused for good, then for now"),
        pytest.param("RCPT 450", "refused connection", "waiting", id="refused, then the server is down"),
        pytest.param("RCPT 450", "drop after the final dot", IN_DOUBT, id="refused, then in doubt"),
        pytest.param("drop after the final dot", "drop after the final dot", IN_DOUBT, id="in doubt twice"),
        # Whether the first attempt has delivered it is not known any better than before.
        pytest.param(
            "drop after the final dot", "refused connection", IN_DOUBT, id="in doubt, then the server is down"
        ),
        pytest.param("drop after the final dot", "RCPT 450", IN_DOUBT, id="in doubt, then refused"),
        pytest.param("drop after the final dot", "final dot 451", IN_DOUBT, id="in doubt, then the message refused"),
    ],
)
def test_a_resend_in_vain_keeps_the_message_and_says_so(
    make_app: MakeApp, healthy: ScriptedServer, tmp_path: Path, first: str, second: str, state: str
) -> None:
    app = service(make_app, healthy)
    with faulty(healthy, FAULTS[first]):
        app.test_client().post("/contact.php", json=contact_body())
    ((_, local_part),) = listed(app)

    with faulty(healthy, FAULTS[second]) if FAULTS[second].listening else nullcontext():
        status, output = operate(app, "resend")

    assert status == 1
    assert "delivered: 250" not in output
    assert listed(app) == [(state, local_part)]
    assert local_parts(kept(tmp_path)) == [local_part]


def test_a_resend_delivers_all_that_was_kept_once_each_over_one_connection(
    make_app: MakeApp, healthy: ScriptedServer
) -> None:
    app = service(make_app, healthy)
    for number, fault in enumerate(("RCPT 450", "drop after the final dot", "refused connection")):
        with faulty(healthy, FAULTS[fault]) if FAULTS[fault].listening else nullcontext():
            app.test_client().post(
                "/contact.php", json=contact_body(), environ_base={"REMOTE_ADDR": f"192.0.2.{number}"}
            )
    undelivered = {local_part for _, local_part in listed(app)}

    with healthy:
        status, _ = operate(app, "resend")

    assert status == 0
    assert len(undelivered) == len(healthy.received) == 3
    assert set(local_parts(healthy.taken)) == undelivered
    assert len(healthy.connections) == 1


@pytest.mark.parametrize("fault", ["certificate of an unknown authority", "certificate for another name"])
def test_a_wrong_certificate_is_called_by_its_name(make_app: MakeApp, healthy: ScriptedServer, fault: str) -> None:
    with faulty(healthy, FAULTS[fault]):
        result = service(make_app, healthy).test_cli_runner().invoke(args=["mail", "test"])

    assert result.exit_code == 1
    assert "Error: the certificate of the mail server is not trusted: " in result.output
