"""GET /api/v1/health beside the check of the mail server: tests/mail/test_health.py has what the check finds."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.conftest import MakeClient
from tests.fakes import RecordingMailer


class CountingMailer(RecordingMailer):
    checks = 0

    def check(self) -> None:
        self.checks += 1
        super().check()


@pytest.mark.parametrize(("mail_fails", "status", "check"), [(False, "ok", "ok"), (True, "degraded", "fail")])
def test_all_callers_share_one_check(make_client: MakeClient, status: str, check: str, *, mail_fails: bool) -> None:
    mailer = CountingMailer()
    mailer.broken = mail_fails
    client = make_client(collaborators={"mailer": mailer})

    answers = [client.get("/api/v1/health").get_json()["data"] for _ in range(20)]

    assert answers[0].keys() == {"status", "version", "timestamp", "checks"}
    assert datetime.fromisoformat(answers[0]["timestamp"]).tzinfo is not None
    assert {answer["status"] for answer in answers} == {status}
    assert [answer["checks"] for answer in answers] == [{"api": "ok", "mail": check}] * 20
    assert mailer.checks == 1
