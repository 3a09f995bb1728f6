"""Whom the mail layer asks for names, and how often: the DNS may hang, and then nothing else does."""

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from app.mail.message import Message
from app.mail.smtp import own_name
from app.resolver import Resolver
from tests.mail.conftest import MakeMailer
from tests.mail.server import SmtpServer
from tests.server.gunicorn import PATIENCE, ROOT

ADDRESSES = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 25))]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Mock:
    dns = Mock(return_value=ADDRESSES)
    monkeypatch.setattr(socket, "getaddrinfo", dns)
    return dns


def test_all_who_need_the_addresses_wait_for_one_look_up_and_no_longer_than_they_may(dns: Mock) -> None:
    resolver, answers = Resolver("mail.example.com", 25), threading.Event()
    dns.side_effect = lambda *_, **__: ADDRESSES if answers.wait(60) else None

    def gives_up(_: int) -> None:
        with pytest.raises(TimeoutError, match="the time for the attempt is up"):
            resolver.addresses(0.1)

    with ThreadPoolExecutor(51) as pool:
        list(pool.map(gives_up, range(50)))
        patient = pool.submit(resolver.addresses, 60)
        assert dns.call_count <= 1
        answers.set()
        assert patient.result() == ADDRESSES


def test_a_process_that_stops_waits_for_no_look_up() -> None:
    hanging = """
import socket, threading
from app.resolver import Resolver
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
try:
    Resolver("mail.example.com", 25).addresses(0)
except TimeoutError:
    print("given up")
"""
    assert subprocess.check_output([sys.executable, "-c", hanging], cwd=ROOT, timeout=PATIENCE) == b"given up\n"


@pytest.mark.parametrize("failure", [None, socket.gaierror(socket.EAI_AGAIN, "try again")], ids=["found", "failed"])
def test_when_a_look_up_has_ended_the_next_asks_anew(dns: Mock, failure: OSError | None) -> None:
    resolver = Resolver("mail.example.com", 25)
    dns.side_effect = failure
    with pytest.raises(socket.gaierror, match="try again") if failure else nullcontext():
        resolver.addresses(60)
    dns.side_effect = None

    assert resolver.addresses(60) == ADDRESSES
    assert dns.call_count == 2


def test_the_dns_is_not_asked_for_the_name_of_this_host(
    make_mailer: MakeMailer, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("smtplib has asked"))
    monkeypatch.setattr(socket, "gethostname", lambda: "web")
    with SmtpServer() as server:
        make_mailer(server).deliver(message)

    assert server.connections[0].commands[0].split() == ["ehlo", "[127.0.0.1]"]


NAMES = {
    "web-1.example": ("192.0.2.5", "web-1.example"),
    "3.EXAMPLE.com": ("192.0.2.5", "3.EXAMPLE.com"),
    "": ("192.0.2.5", "[192.0.2.5]"),
    "web_1.example.com": ("192.0.2.5", "[192.0.2.5]"),
    "web..example.com": ("192.0.2.5", "[192.0.2.5]"),
    "web.example.com\r\nNOOP": ("192.0.2.5", "[192.0.2.5]"),
    "web": ("2001:db8::5", "[IPv6:2001:db8::5]"),
    "año": ("fe80::5%eth0", "[IPv6:fe80::5]"),
}


@pytest.mark.parametrize(("name", "address", "said"), [(name, *others) for name, others in NAMES.items()])
def test_the_name_of_this_host_is_a_domain_or_else_its_address(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str, said: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    assert own_name(address) == said
