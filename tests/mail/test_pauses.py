"""When the checks come, and who is told that the mail server is back. The clock moves on instead of waiting."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from app.mail.health import CHECK_INTERVAL, GROWTH, MAX_AGE, MailHealth
from app.mail.redelivery import Redelivery
from app.mail.smtp import CHECK_SECONDS
from app.mail.spool import Spool
from tests.fakes import RecordingMailer
from tests.mail.clock import Pauses


class Outage(RecordingMailer):
    """A mailer whose checks fail after all the time that a check may take, until the server is back."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures
        self.pauses: Pauses | None = None
        self.ended: list[float] = []

    def check(self) -> None:
        if len(self.ended) < self.failures:
            assert self.pauses is not None
            self.pauses.passed += CHECK_SECONDS
            self.ended.append(self.pauses.passed)
            raise TimeoutError
        self.ended.append(0)


def run(
    outage: Outage, mail_dir: Path, patch: pytest.MonkeyPatch, seconds: float, recover: Callable[[bool], None]
) -> None:
    redelivery = Redelivery(outage, Spool(mail_dir), sending_seconds=10)
    patch.setattr(redelivery, "server_is_there", recover)
    health = MailHealth(outage, Spool(mail_dir), redelivery)
    assert health._server is not None
    health._server.stopped = outage.pauses = Pauses(patch, seconds)
    health._server.run()


def test_a_server_that_fails_is_checked_less_often_and_no_result_is_older_than_30_seconds(
    mail_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage = Outage(failures=5)
    with monkeypatch.context() as patch:
        run(outage, mail_dir, patch, 115, lambda _: None)

    assert outage.pauses is not None
    assert outage.pauses.lengths == [15, 15 * GROWTH, 20, 20, 20, 15, 15]
    ended = outage.ended[:5]
    assert max(later - earlier for earlier, later in pairwise(ended)) <= MAX_AGE == 30


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_the_first_check_that_passes_tells_so_and_whether_one_has_failed_before(
    mail_dir: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    told: list[tuple[int, bool]] = []
    outage = Outage(failures)
    with monkeypatch.context() as patch:
        run(outage, mail_dir, patch, 120, lambda after_outage: told.append((len(outage.ended), after_outage)))

    assert told == [(failures + 1, failures > 0)]


def test_a_disk_that_fails_is_checked_as_often_as_before(mail_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mail_dir.touch()
    mailer, spool = RecordingMailer(), Spool(mail_dir)
    health = MailHealth(mailer, spool, Redelivery(mailer, spool, sending_seconds=10))
    with monkeypatch.context() as patch:
        health._storage.stopped = pauses = Pauses(patch, 60)
        health._storage.run()

    assert health._storage.state() == "fail"
    assert pauses.lengths == [CHECK_INTERVAL] * 4
