"""docs/mail.md, "A Postfix on the same machine": its lines are good, and it does what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mail.server import SmtpServer, authority
from tests.mta.conftest import Serve
from tests.mta.postfix import Postfix, running
from tests.pages import MAIL

HEADING = "A Postfix on the same machine"
PROVIDER = "[smtp.example.com]:587"


def documented(language: str) -> dict[str, str]:
    """The names and values of a block."""
    (block,) = MAIL.blocks(HEADING, language)
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in block.splitlines())}


MAIN = documented("ini")
SETTINGS = documented("sh")
(ACCOUNT,) = re.findall(rf"^{re.escape(PROVIDER)} (.*):(.*)$", MAIL.section(HEADING), re.MULTILINE)


def test_postfix_knows_every_line() -> None:
    with Postfix(**MAIN) as postfix:
        result = postfix.run("postconf", "-n")

    assert result.stderr == ""
    used = result.stdout
    assert {f"{name} = {value}".rstrip() for name, value in MAIN.items()} <= {
        line.rstrip() for line in used.splitlines()
    }


@contextmanager
def relaying_to(provider: SmtpServer, directory: Path, authority_file: Path, *allowed: str) -> Iterator[Postfix]:
    """A Postfix with the lines of the page, in which only names and paths are others."""
    address = f"[localhost]:{provider.port}"
    account = directory / "sasl_passwd"
    account.write_text(f"{address} {':'.join(ACCOUNT)}\n")
    account.chmod(0o600)
    ours = {
        "relayhost": address,
        "smtp_sasl_password_maps": f"texthash:{account}",
        "smtp_tls_CAfile": str(authority_file),
        "smtp_host_lookup": "native",
        "default_transport": "smtp",
    }
    with running(*allowed, **MAIN | ours) as postfix:
        yield postfix


def settings(postfix: Postfix) -> dict[str, str]:
    return postfix.environ | SETTINGS | {"SMTP_PORT": str(postfix.port), "SALES_EMAIL": "ventas@elsewhere.example"}


@pytest.fixture
def provider() -> SmtpServer:
    """Away until it is entered; it has its port already."""
    provider = SmtpServer("starttls", credentials=ACCOUNT, certificate=authority().issue_cert("localhost"))
    with provider:
        pass
    return provider


def test_a_form_is_taken_while_the_provider_is_away_and_arrives_once_it_is_back(
    provider: SmtpServer, serve: Serve, tmp_path: Path, authority_file: Path
) -> None:
    away = (r"status=deferred", r"Connection refused$")
    with relaying_to(provider, tmp_path, authority_file, *away) as postfix:
        with serve(settings(postfix)) as service:
            answer = service.post()
        postfix.wait_for("status=deferred")
        with provider:
            postfix.run("postqueue", "-f")
            postfix.wait_until(lambda: not postfix.queue())

    assert answer == (200, None)
    (arrival,) = provider.arrivals
    assert (arrival.sender, arrival.recipients) == ("web@example.com", ["ventas@elsewhere.example"])
    assert (arrival.encrypted, arrival.username) == (True, ACCOUNT[0])


def test_what_the_provider_refuses_comes_back_to_mail_from(
    provider: SmtpServer, serve: Serve, tmp_path: Path, authority_file: Path
) -> None:
    provider.replies["RCPT"] = "550 5.1.1 No such user"
    refused = (r"status=bounced", r"sender non-delivery notification")
    with provider, relaying_to(provider, tmp_path, authority_file, *refused) as postfix:
        with serve(settings(postfix)) as service:
            answer = service.post()
        (bounce,) = postfix.delivered("web")

    assert answer == (200, None)
    assert bounce["Return-Path"] == "<>"
    assert "550 5.1.1 No such user" in bounce.as_string()
