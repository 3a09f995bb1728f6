"""Whom the mail layer asks for names, and how often: the DNS may hang, and then nothing else does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest

from app.mail.message import Message
from app.mail.resolver import Resolver, own_name
from app.mail.smtp import Deadline, SmtpSender
from tests.mail.conftest import MakeSender
from tests.mail.server import SmtpServer

PATIENCE = 0.1
"""Seconds that a caller waits who is to give up."""

MAIL_HOST = "mail.example.com"


class Dns:
    """Answers once it is told to; an address is no question for it."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.times_asked = 0
        self.answers = threading.Event()
        self.failure: OSError | None = None
        self._look_up = socket.getaddrinfo
        self._older = set(resolvers())

    @property
    def threads(self) -> list[threading.Thread]:
        """Those that look something up, but for what an earlier test may have left."""
        return [thread for thread in resolvers() if thread not in self._older]

    def getaddrinfo(self, host: str, *wanted: Any, **options: Any) -> list[Any]:
        numeric = options | {"flags": socket.AI_NUMERICHOST}
        try:
            return self._look_up(host, *wanted, **numeric)
        except socket.gaierror:
            if options == numeric:
                raise
        self.times_asked += 1
        self.asked.release()
        assert self.answers.wait(60)
        if self.failure is not None:
            raise self.failure
        return self._look_up("127.0.0.1", *wanted, **options)

    def wait_until_asked(self) -> None:
        assert self.asked.acquire(timeout=20), "nobody has asked"


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    dns = Dns()
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    yield dns
    dns.answers.set()
    for thread in dns.threads:
        thread.join()


def resolvers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "smtp-resolver"]


def send(sender: SmtpSender, message: Message, seconds: float = 60) -> None:
    sender.send(message, Deadline(seconds), before_data_ends=lambda: None)


def gives_up(wait: Callable[[], None]) -> bool:
    with pytest.raises(TimeoutError, match="the time for the hand-over is up"):
        wait()
    return True


def test_all_who_need_the_addresses_wait_for_one_look_up_and_some_give_up(
    make_sender: MakeSender, message: Message, dns: Dns
) -> None:
    with SmtpServer() as server, ThreadPoolExecutor(52) as pool:
        sender = make_sender(server, SMTP_HOST=MAIL_HOST, SMTP_TIMEOUT=str(PATIENCE))
        assert gives_up(lambda: send(sender, message, PATIENCE))
        dns.wait_until_asked()
        patient = pool.submit(send, sender, message)  # nobody else waits any more
        impatient = [pool.submit(gives_up, lambda: send(sender, message, PATIENCE)) for _ in range(50)]
        impatient.append(pool.submit(gives_up, sender.check))
        assert all(caller.result() for caller in impatient)
        assert len(dns.threads) == dns.times_asked == 1
        dns.answers.set()
        patient.result()

    assert [arrival.content for arrival in server.taken] == [message.content]
    assert dns.times_asked == 1


def test_each_caller_raises_an_exception_of_its_own(dns: Dns) -> None:
    resolver = Resolver(MAIL_HOST, 25)
    with pytest.raises(TimeoutError) as first:
        resolver.addresses(0)
    with pytest.raises(TimeoutError) as second:
        resolver.addresses(0)

    assert len(dns.threads) == 1
    assert first.value is not second.value


@pytest.mark.parametrize("failure", [None, socket.gaierror(socket.EAI_AGAIN, "try again"), OSError(24, "too many")])
def test_when_a_look_up_has_ended_the_next_asks_anew(dns: Dns, failure: OSError | None) -> None:
    resolver = Resolver(MAIL_HOST, 25)
    dns.answers.set()
    dns.failure = failure
    with nullcontext() if failure is None else pytest.raises(type(failure), match=failure.strerror):
        resolver.addresses(60)
    dns.failure = None

    ((*_, address),) = resolver.addresses(60)

    assert address == ("127.0.0.1", 25)
    assert dns.times_asked == 2


def test_a_look_up_that_cannot_be_begun_does_not_count(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    resolver = Resolver(MAIL_HOST, 25)
    dns.answers.set()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(OSError, match="no thread"):
            resolver.addresses(60)

    assert resolver.addresses(60)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_no_question_for_the_dns(dns: Dns, address: str) -> None:
    ((*_, found),) = Resolver(address, 25).addresses(60)

    assert found[:2] == (address, 25)
    assert dns.times_asked == 0


def test_the_dns_is_not_asked_for_the_name_of_this_host(
    make_sender: MakeSender, message: Message, dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("getfqdn", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, lambda *_, name=name: pytest.fail(f"{name} was called"))
    monkeypatch.setattr(socket, "gethostname", lambda: "web")
    with SmtpServer() as server:
        send(make_sender(server), message)

    assert server.connections[0].commands[0].split() == ["ehlo", "[127.0.0.1]"]
    assert dns.times_asked == 0


DOMAINS = ("web.example.com", "web-1.example", "3.example.com", "WEB.EXAMPLE.COM")
NO_DOMAINS = ["web", "", "web.example.com.", "web..example.com", "web_1.example.com", "-web.example.com"]
NO_DOMAINS += ["web.example-.com", "año.example.com", "web.example.com\n", "web.example.com\r\nNOOP"]


@pytest.mark.parametrize(
    ("name", "address", "said"),
    [
        *((name, "192.0.2.5", name) for name in DOMAINS),
        *((name, "192.0.2.5", "[192.0.2.5]") for name in NO_DOMAINS),
        ("web", "2001:db8::5", "[IPv6:2001:db8::5]"),
        ("web", "fe80::5%eth0", "[IPv6:fe80::5]"),
    ],
)
def test_the_name_of_this_host_is_a_domain_or_else_its_address(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str, said: str
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)

    assert own_name(address) == said
