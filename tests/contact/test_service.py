"""What becomes of a parsed body, where no exchange shows it (tests/api/exchanges.py has the order of the checks)."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from app.contact.service import ContactService
from app.errors import ApiError, ErrorCode
from app.mail.mailer import Mailer
from tests.contact.reading import COMPOSER
from tests.factories import REQUEST_ID, contact_body
from tests.fakes import RecordingMailer

OF_EARLIER_CHECKS: dict[str, Any] = {"_bp_check": ["x"], "ts": "ayer", "captcha_expected": 12345, "captcha_input": {}}
"""Values of a wrong type in the fields of the earlier checks."""


@pytest.fixture
def service(mailer: RecordingMailer) -> ContactService:
    return ContactService(COMPOSER, cast("Mailer", mailer))


@pytest.mark.parametrize("name", OF_EARLIER_CHECKS)
@pytest.mark.parametrize(
    ("fault", "code"),
    [({"form_type": 5}, "invalid_form_type"), ({"email": 5}, "invalid_email"), ({}, "invalid_body")],
)
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

    assert refusal.value.code is ErrorCode.MAIL_DELIVERY_FAILED
    assert refusal.value.details == {"kept": kept}


def test_two_messages_of_one_request_id_differ(service: ContactService, mailer: RecordingMailer) -> None:
    for _ in range(2):  # a trusted proxy may repeat it
        service.submit(contact_body(), REQUEST_ID)

    first, second = mailer.messages
    assert first.message_id != second.message_id


def test_a_discarded_submission_is_logged(service: ContactService, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    service.submit(contact_body(_bp_check="x"), REQUEST_ID)

    assert "honeypot" in caplog.text
