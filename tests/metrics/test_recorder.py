"""The numbers of one process, without gunicorn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.mail.mailer import Mailer
from app.mail.smtp import SmtpSender
from app.mail.spool import Spool
from app.metrics.recorder import Recorder
from tests.factories import make_settings
from tests.mail.conftest import letter


class Broken(SmtpSender):
    """A sender with a mistake in its code."""

    def send(self, *_: object, **__: object) -> Any:
        raise LookupError


def test_a_retry_that_breaks_off_is_no_delivery(tmp_path: Path) -> None:
    recorder = Recorder(frozenset())
    settings = make_settings(tmp_path, SMTP_HOST="127.0.0.1", SALES_EMAIL="a@example.com", MAIL_FROM="b@example.com")
    spool = Spool(tmp_path)
    mailer = Mailer(settings, spool, Broken(settings), recorder)
    claim = spool.store(letter(1))
    with pytest.raises(LookupError):
        mailer.redeliver(claim)
    claim.release()

    (retries,) = recorder._retries.collect()
    counted = {sample.labels["outcome"]: sample.value for sample in retries.samples if sample.name.endswith("_total")}
    assert {outcome for outcome, value in counted.items() if value} == {"waiting"}
