"""The numbers of one process, without gunicorn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.mail.mailer import MaildirMailer
from app.mail.spool import Spool
from app.metrics.recorder import Recorder


class Broken(MaildirMailer):
    """A mailer with a mistake in its code."""

    redeliver: Any

    def __init__(self, spool: Spool) -> None:
        super().__init__(spool)
        self.redeliver = self.break_off

    def break_off(self, *_: object) -> None:
        raise LookupError


def test_a_retry_that_breaks_off_is_no_delivery(tmp_path: Path) -> None:
    recorder = Recorder(frozenset())
    redeliver: Any = recorder.measured(Broken(Spool(tmp_path))).redeliver

    with pytest.raises(LookupError):
        redeliver(None, None)

    (retries,) = recorder._retries.collect()
    assert not any(sample.value for sample in retries.samples if sample.name == "mail_retries_total")
