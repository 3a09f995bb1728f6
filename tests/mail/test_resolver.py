"""Whom the mail layer asks for names, and how often: the DNS may hang, and then nothing else does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

from app.mail.message import Message
from app.mail.resolver import Resolver, own_name
from app.mail.smtp import Deadline
from tests.mail.conftest import MakeSender
from tests.mail.server import SmtpServer


class Dns:
    """Answers once it is told to."""

    def __init__(self) -> None:
        self.times_asked = 0
        self.answers = threading.Event()
        self.failure: OSError | None = None

    def getaddrinfo(self, _host: str, port: int, **_: Any) -> list[Any]:
        self.times_asked += 1
        assert self.answers.wait(60)
        if self.failure:
            raise self.failure
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    dns = Dns()
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
        yield dns
        dns.answers.set()


def test_all_who_need_the_addresses_wait_for_one_look_up_and_no_longer_than_they_may(dns: Dns) -> None:
    resolver = Resolver("mail.example.com", 25)

    def gives_up(_: int) -> None:
        with pytest.raises(TimeoutError, match="the time for the hand-over is up"):
            resolver.addresses(0.1)

    with ThreadPoolExecutor(51) as pool:
        list(pool.map(gives_up, range(50)))
        patient = pool.submit(resolver.addresses, 60)
        dns.answers.set()
        assert [address for *_, address in patient.result()] == [("127.0.0.1", 25)]

    assert dns.times_asked == 1


@pytest.mark.parametrize("failure", [None, socket.gaierror(socket.EAI_AGAIN, "try again")], ids=["found", "failed"])
def test_when_a_look_up_has_ended_the_next_asks_anew(dns: Dns, failure: OSError | None) -> None:
    resolver = Resolver("mail.example.com", 25)
    dns.answers.set()
    dns.failure = failure
    with pytest.raises(socket.gaierror, match="try again") if failure else nullcontext():
        resolver.addresses(60)
    dns.failure = None

    assert resolver.addresses(60)
    assert dns.times_asked == 2


def test_the_dns_is_not_asked_for_the_name_of_this_host(
    make_sender: MakeSender, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("smtplib has asked"))
    monkeypatch.setattr(socket, "gethostname", lambda: "web")
    with SmtpServer() as server:
        make_sender(server).send(message, Deadline(60), before_data_ends=lambda: None)

    assert server.connections[0].commands[0].split() == ["ehlo", "[127.0.0.1]"]


@pytest.mark.parametrize(
    ("name", "address", "said"),
    [
        *((name, "192.0.2.5", name) for name in ("web-1.example", "3.example.com", "WEB.EXAMPLE.COM")),
        *(
            (name, "192.0.2.5", "[192.0.2.5]")
            for name in ("web", "", "web_1.example.com", "web..example.com", "año.es")
        ),
        ("web.example.com\r\nNOOP", "192.0.2.5", "[192.0.2.5]"),
        ("web", "2001:db8::5", "[IPv6:2001:db8::5]"),
        ("web", "fe80::5%eth0", "[IPv6:fe80::5]"),
    ],
)
def test_the_name_of_this_host_is_a_domain_or_else_its_address(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str, said: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    assert own_name(address) == said
