"""When the checks come, and what the redelivery hears of them. The clock moves on instead of waiting."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from app.mail.health import CHECK_INTERVAL, MAX_AGE, MailHealth
from app.mail.redelivery import Redelivery
from app.mail.smtp import CHECK_SECONDS
from app.mail.spool import Spool
from tests.fakes import RecordingMailer
from tests.mail.service import Clock


class Outage(RecordingMailer):
    """A mailer whose checks fail after all the time that a check may take, until the server is back."""

    def __init__(self, failures: int, clock: Clock) -> None:
        super().__init__()
        self.failures = failures
        self.ended: list[float] = []
        self._clock = clock

    def check(self) -> None:
        if len(self.ended) < self.failures:
            self._clock.passed += CHECK_SECONDS
            self.ended.append(self._clock.passed)
            raise TimeoutError
        self.ended.append(0)


def test_checks_come_every_15_seconds_and_no_result_is_older_than_30(
    mail_dir: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[bool] = []
    outage, spool = Outage(5, clock), Spool(mail_dir)
    redelivery = Redelivery(outage, spool, patience=10)  # type: ignore[arg-type]
    monkeypatch.setattr(redelivery, "server_checked", results.append)
    (server, _) = MailHealth(outage, spool, redelivery).checks  # type: ignore[arg-type]
    pauses = []
    for _ in range(7):
        pauses.append(server.run())
        clock.passed += pauses[-1]

    assert pauses == [15] * 7
    assert max(later - earlier for earlier, later in pairwise(outage.ended[:5])) <= MAX_AGE == 30
    assert results == [False] * 5 + [True] * 2


def test_a_disk_that_fails_is_checked_as_often_as_before(mail_dir: Path) -> None:
    mail_dir.touch()
    mailer, spool = RecordingMailer(), Spool(mail_dir)
    redelivery = Redelivery(mailer, spool, patience=10)  # type: ignore[arg-type]
    (_, storage) = MailHealth(mailer, spool, redelivery).checks  # type: ignore[arg-type]

    assert [storage.run() for _ in range(4)] == [CHECK_INTERVAL] * 4
    assert storage.state() == "fail"
