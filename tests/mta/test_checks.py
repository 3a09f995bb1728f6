"""The mail checks and the kept connections, without the service around them and on a clock that a test moves."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from app.mail.health import CHECK_INTERVAL
from app.mail.smtp import Deadline, SmtpSender
from tests.factories import make_settings
from tests.mail.conftest import letter
from tests.mta.postfix import CLOSED_WHILE_IDLE, PATIENCE, Postfix, running

pytestmark = pytest.mark.nightly

CHECKS = int(3600 / CHECK_INTERVAL)
LOGINS = 12
"""An idle process logs in at most so many times an hour."""
SHORT_LIMITS = {"smtpd_junk_command_limit": "25", "smtpd_soft_error_limit": "1", "smtpd_hard_error_limit": "2"}
"""After 25 commands without a message each further one is an error, and with the second error Postfix hangs up."""


class Clock:
    def __init__(self) -> None:
        self._real = time.monotonic
        self._moved = 0.0

    def move(self, seconds: float) -> None:
        self._moved += seconds

    def __call__(self) -> float:
        return self._real() + self._moved


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def sender_to(postfix: Postfix, directory: Path) -> SmtpSender:
    return SmtpSender(make_settings(directory / "mail", **postfix.environ))


def send(sender: SmtpSender, number: int) -> None:
    sender.send(letter(number), Deadline(PATIENCE), before_data_ends=lambda: None)


@pytest.mark.usefixtures("_trusted_authority")
def test_postfix_has_nothing_to_say_against_an_hour_of_checks(tmp_path: Path, clock: Clock) -> None:
    with running(**SHORT_LIMITS) as postfix, closing(sender_to(postfix, tmp_path)) as sender:
        for _ in range(CHECKS):
            sender.check()
            clock.move(CHECK_INTERVAL)
        send(sender, 1)

        assert len(postfix.delivered()) == 1
        assert postfix.log.count("]: connect from ") <= LOGINS


@pytest.mark.usefixtures("_trusted_authority")
def test_a_message_after_a_check_arrives_when_postfix_has_closed_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "app.mail.smtp")
    idle = running(CLOSED_WHILE_IDLE, smtpd_timeout="5s")
    with idle as postfix, closing(sender_to(postfix, tmp_path)) as sender:
        sender.check()
        postfix.wait_for("timeout after EHLO")
        postfix.wait_until_all_have_left()
        postfix.reload(smtpd_timeout="300s")
        send(sender, 1)

        assert [message["Message-ID"] for message in postfix.delivered()] == [letter(1).message_id]
    assert "the mail server takes no further message in a kept connection" in caplog.text
