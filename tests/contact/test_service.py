"""What becomes of a parsed body, where no exchange shows it (tests/api/exchanges.py has the checks and their order)."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from app.contact.antispam import check_age
from app.contact.service import ContactService
from app.errors import ApiError, ErrorCode
from app.mail.mailer import Mailer
from tests.contact.reading import COMPOSER
from tests.factories import REQUEST_ID, contact_body
from tests.fakes import RecordingMailer

NOW = 1_800_000_000_000
HOUR = 3_600_000
TOO_FAST = {
    "1 ms missing": (NOW - 1999, "too_early", 1),
    "1 s missing": (NOW - 1000, "too_early", 1),
    "a little over 1 s missing": (NOW - 999, "too_early", 2),
    "just rendered": (NOW, "too_early", 2),
    "half a second ahead": (NOW + 500, "too_early", 3),
    "1 ms too old": (NOW - HOUR - 1, "expired", 2),
    "before 1970": (-1, "expired", 2),
}
"""When a form was rendered, why it is refused, and the wait. Over HTTP that for the quota is never shorter."""
OF_EARLIER_CHECKS: dict[str, Any] = {"_bp_check": ["x"], "ts": "ayer", "captcha_expected": 12345, "captcha_input": {}}
"""Values of a wrong type in the fields of the earlier checks."""


@pytest.fixture
def service(mailer: RecordingMailer) -> ContactService:
    return ContactService(COMPOSER, cast("Mailer", mailer))


@pytest.mark.parametrize("rendered_at", [NOW - 2000, NOW - HOUR, None])
def test_a_form_between_two_seconds_and_one_hour_old_passes(rendered_at: int | None) -> None:
    check_age(rendered_at, now=NOW)


@pytest.mark.parametrize(("rendered_at", "reason", "wait"), TOO_FAST.values(), ids=TOO_FAST)
def test_any_other_age_is_refused_with_its_reason_and_the_wait(rendered_at: int, reason: str, wait: int) -> None:
    with pytest.raises(ApiError) as refusal:
        check_age(rendered_at, now=NOW)

    assert refusal.value.code is ErrorCode.TOO_FAST
    assert (refusal.value.details, refusal.value.retry_after) == ({"reason": reason}, wait)


@pytest.mark.parametrize("name", OF_EARLIER_CHECKS)
@pytest.mark.parametrize(("fault", "code"), [({"email": 5}, "invalid_email"), ({}, "invalid_body")])
def test_a_wrong_type_elsewhere_comes_last(
    service: ContactService, name: str, fault: dict[str, Any], code: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        service.submit(contact_body(**{name: OF_EARLIER_CHECKS[name]}, **fault), REQUEST_ID)

    assert refusal.value.code == code
    assert fault or (refusal.value.details or {})["fields"].keys() == {name}


@pytest.mark.parametrize("kept", [True, False])
def test_a_failed_delivery_is_told(service: ContactService, mailer: RecordingMailer, *, kept: bool) -> None:
    mailer.broken, mailer.keeps = True, kept

    with pytest.raises(ApiError) as refusal:
        service.submit(contact_body(), REQUEST_ID)

    assert (refusal.value.code, refusal.value.details) == (ErrorCode.MAIL_DELIVERY_FAILED, {"kept": kept})


def test_a_discarded_submission_is_logged(service: ContactService, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    service.submit(contact_body(_bp_check="x"), REQUEST_ID)

    assert "honeypot" in caplog.text
