"""The order of the checks on a parsed body, then delivery."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from app.contact.composer import Composer
from app.contact.service import ContactService
from app.errors import ApiError, ErrorCode
from app.mail.mailer import Mailer
from app.mailbox import Mailbox
from tests.factories import REQUEST_ID, UTC_ZONE, WRONG_BODY, contact_body
from tests.fakes import RecordingMailer

MENDING: list[tuple[dict[str, Any], str]] = [
    ({}, "discarded"),
    ({"_bp_check": ""}, "too_fast"),
    ({"ts": ""}, "bad_captcha"),
    ({"captcha_input": "AB3DE"}, "invalid_form_type"),
    ({"form_type": "demo"}, "invalid_email"),
    ({"email": "maria@example.com"}, "invalid_body"),
    ({"nombre": "María"}, "delivered"),
]
"""Steps that mend the body one check at a time, and what becomes of it after each."""

LEFT_TO_THE_REMAINING_FIELDS: dict[str, Any] = {
    "_bp_check": ["x"],
    "ts": "ayer",
    "captcha_expected": 12345,
    "captcha_input": {"a": "b"},
}
"""Values of a wrong type in the fields of the earlier checks."""


@pytest.fixture
def service(mailer: RecordingMailer) -> ContactService:
    composer = Composer(Mailbox("web@example.com"), lambda _: [Mailbox("ventas@example.com")], UTC_ZONE)
    return ContactService(composer, cast("Mailer", mailer))


def outcome(service: ContactService, mailer: RecordingMailer, body: dict[str, Any]) -> str:
    mailer.messages.clear()
    try:
        service.submit(body, REQUEST_ID)
    except ApiError as error:
        assert not mailer.messages
        return error.code
    return "delivered" if mailer.messages else "discarded"


def test_the_first_check_that_fails_answers(service: ContactService, mailer: RecordingMailer) -> None:
    body = WRONG_BODY
    outcomes = []

    for step, _ in MENDING:
        body = body | step
        outcomes.append(outcome(service, mailer, body))

    assert outcomes == [expected for _, expected in MENDING]


@pytest.mark.parametrize("name", LEFT_TO_THE_REMAINING_FIELDS)
@pytest.mark.parametrize(("fault", "code"), [({"form_type": 5}, "invalid_form_type"), ({"email": 5}, "invalid_email")])
def test_form_type_and_email_come_before_a_wrong_type_elsewhere(
    service: ContactService, mailer: RecordingMailer, name: str, fault: dict[str, Any], code: str
) -> None:
    body = contact_body(**{name: LEFT_TO_THE_REMAINING_FIELDS[name]}, **fault)

    assert outcome(service, mailer, body) == code


@pytest.mark.parametrize("name", LEFT_TO_THE_REMAINING_FIELDS)
def test_a_wrong_type_elsewhere_is_an_invalid_body(service: ContactService, name: str) -> None:
    with pytest.raises(ApiError) as refusal:
        service.submit(contact_body(**{name: LEFT_TO_THE_REMAINING_FIELDS[name]}), REQUEST_ID)

    assert refusal.value.code == "invalid_body"
    assert refusal.value.details is not None
    assert list(refusal.value.details["fields"]) == [name]


@pytest.mark.parametrize("text", ["x", " ", "\t", "\n", "\u00a0", "\u200b", "0"], ids=ascii)
def test_any_text_fills_the_honeypot(service: ContactService, mailer: RecordingMailer, text: str) -> None:
    assert outcome(service, mailer, contact_body(_bp_check=text)) == "discarded"


@pytest.mark.parametrize("value", [None, ""])
def test_what_is_no_text_leaves_the_honeypot_empty(
    service: ContactService, mailer: RecordingMailer, value: str | None
) -> None:
    assert outcome(service, mailer, contact_body(_bp_check=value)) == "delivered"


def test_an_invalid_form_type_lists_the_four(service: ContactService) -> None:
    with pytest.raises(ApiError) as refusal:
        service.submit(contact_body(form_type="soporte"), REQUEST_ID)

    assert refusal.value.allowed_values == ("demo", "ventas", "onboarding", "distribuidor")


@pytest.mark.parametrize("kept", [True, False])
def test_a_failed_delivery_is_told(service: ContactService, mailer: RecordingMailer, *, kept: bool) -> None:
    mailer.broken, mailer.keeps = True, kept

    with pytest.raises(ApiError) as refusal:
        service.submit(contact_body(), REQUEST_ID)

    assert refusal.value.code is ErrorCode.MAIL_DELIVERY_FAILED
    assert refusal.value.details == {"kept": kept}


def test_an_accepted_submission_is_delivered_once(service: ContactService, mailer: RecordingMailer) -> None:
    service.submit(contact_body(), REQUEST_ID)

    assert len(mailer.messages) == 1


def test_every_message_has_an_id_of_its_own_even_if_a_proxy_repeats_the_request_s(
    service: ContactService, mailer: RecordingMailer
) -> None:
    service.submit(contact_body(), REQUEST_ID)
    service.submit(contact_body(), REQUEST_ID)

    first, second = mailer.messages
    assert first.message_id != second.message_id


def test_a_discarded_submission_is_logged(service: ContactService, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    service.submit(contact_body(_bp_check="x"), REQUEST_ID)

    assert "honeypot" in caplog.text
