"""The Postfix of the tests: it complains of what it should, and nothing is left of it."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.mta.postfix import HOST, PATIENCE, Postfix, complaints

SHORT_LIMITS = {"smtpd_junk_command_limit": "5", "smtpd_hard_error_limit": "2"}
GREETING = b"EHLO client.example\r\n"
MAIL = [GREETING, b"MAIL FROM:<web@example.com>\r\n"]
TO_NOBODY = b"RCPT TO:<nadie@example.com>\r\n"
TO_SALES = b"RCPT TO:<ventas@example.com>\r\n"
DATA = b"DATA\r\n"
QUIT = b"QUIT\r\n"


def talk(port: int, *parts: bytes) -> None:
    """Send each part once something has been answered to the one before; then read until Postfix hangs up."""
    with closing(socket.create_connection((HOST, port), timeout=PATIENCE)) as client:
        for part in parts:
            client.recv(65536)
            client.sendall(part)
        while client.recv(65536):
            pass


@pytest.fixture(scope="module")
def postfix() -> Iterator[Postfix]:
    with Postfix(**SHORT_LIMITS) as postfix:
        yield postfix


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        pytest.param([GREETING + b"NOOP\r\n"], "improper command pipelining after EHLO", id="sent too early"),
        pytest.param([GREETING, *[b"NOOP\r\n"] * 7], "too many errors after NOOP", id="too many checks"),
        pytest.param([GREETING, b"SEND\r\n", QUIT], "disconnect from .* unknown=0/1 ", id="an unknown command"),
        pytest.param([b"GET / HTTP/1.1\r\n"], "non-SMTP command from", id="HTTP"),
        pytest.param([*MAIL, TO_NOBODY, QUIT], "reject: RCPT from .* 550 ", id="an unknown recipient"),
        pytest.param(
            [*MAIL, TO_SALES, DATA, b"\n\r\n.\r\n", QUIT], "END-OF-MESSAGE .* bare <LF>", id="a bare line feed"
        ),
    ],
)
def test_a_client_without_manners_is_complained_of(postfix: Postfix, parts: list[bytes], complaint: str) -> None:
    before = len(postfix.log)

    talk(postfix.port, *parts)
    postfix.wait_until(lambda: "disconnect from" in postfix.log[before:])

    assert re.search(complaint, "\n".join(complaints(postfix.log[before:])))


def test_a_client_that_hangs_up_is_complained_of(postfix: Postfix) -> None:
    before = len(postfix.log)

    socket.create_connection((HOST, postfix.port), timeout=PATIENCE).close()
    postfix.wait_until(lambda: "disconnect from" in postfix.log[before:])

    assert re.search("lost connection after CONNECT", "\n".join(complaints(postfix.log[before:])))


def test_a_client_that_says_nothing_is_complained_of() -> None:
    with Postfix(smtpd_timeout="1s") as postfix:
        talk(postfix.port)
        postfix.wait_for("disconnect from")

        assert re.search("timeout after CONNECT", "\n".join(complaints(postfix.log)))


def test_a_client_with_manners_is_not_complained_of() -> None:
    with Postfix() as postfix:
        talk(postfix.port, *MAIL, TO_SALES, DATA, b"Subject: a\r\n\r\n.\r\n", QUIT)
        postfix.wait_for("disconnect from")

        assert len(postfix.delivered()) == 1
        assert complaints(postfix.log) == []


def test_a_clock_is_complained_of_unless_the_turn_of_a_second_explains_it() -> None:
    cleanup = "Nov 22 20:29:36 mail postfix/cleanup[7858]: warning: "
    ahead = [f"{cleanup}file system clock is {seconds} seconds ahead of local clock" for seconds in (1, 2, 11)]
    reset = f"{cleanup}resetting file time stamps - this hurts performance"

    assert complaints("\n".join([*ahead, reset])) == ahead[1:]


def fail_beside(postfix: Postfix) -> None:
    with postfix, socket.create_connection((HOST, postfix.port), timeout=PATIENCE) as client:
        client.recv(65536)
        assert {"master", "smtpd"} <= set(postfix.processes().values())
        raise ZeroDivisionError


def test_nothing_is_left_of_it_after_a_test_that_failed() -> None:
    postfix = Postfix()

    with pytest.raises(ZeroDivisionError):
        fail_beside(postfix)

    assert postfix.processes() == {}
    assert not postfix.directory.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, postfix.port), timeout=PATIENCE)
