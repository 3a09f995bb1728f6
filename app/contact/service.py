"""The handling of a submission: the checks in their order, then the delivery."""

import logging
import time
from typing import Any

from app.contact.antispam import check_age, check_captcha
from app.contact.composer import Composer
from app.contact.schema import validate
from app.errors import ApiError, ErrorCode
from app.forms import FORM_TYPES, HONEYPOT, Outcome
from app.mail.mailer import DeliveryError, Mailer

logger = logging.getLogger(__name__)


class ContactService:
    """Checks the parsed body of a contact request and delivers it to the sales team."""

    def __init__(self, composer: Composer, mailer: Mailer) -> None:
        self._compose = composer.compose
        self._deliver = mailer.deliver
        self._accepted = Outcome.DELIVERED if mailer.transport == "smtp" else Outcome.STORED

    def submit(self, body: dict[str, Any], request_id: str, *, is_json: bool = True) -> Outcome:
        """Check a submission, then deliver it or discard it as spam. Its Message-ID holds the request's id.

        Raises ApiError for the first check that fails, in the order of the contract, or for a failed delivery.
        """
        values, errors = validate(body)
        if values.get(HONEYPOT):  # even if it is only white space
            logger.info("submission discarded: honeypot")
            return Outcome.DISCARDED
        check_age(values.get("ts"), now=time.time_ns() // 1_000_000)
        if "captcha_expected" not in errors and "captcha_input" not in errors:
            check_captcha(values.get("captcha_expected"), values.get("captcha_input"))
        if "form_type" in errors:
            # JSON without its content type; on Windows, curl also sends the single quotes around it.
            looks_like_json = not is_json and next(iter(body), "").startswith(("{", "'{"))
            details = {"reason": "content_type"} if looks_like_json else None
            raise ApiError(ErrorCode.INVALID_FORM_TYPE, allowed_values=FORM_TYPES, details=details)
        if "email" in errors:
            raise ApiError(ErrorCode.INVALID_EMAIL)
        if errors:
            raise ApiError(ErrorCode.INVALID_BODY, details={"fields": errors})
        try:
            self._deliver(self._compose(values, request_id))
        except DeliveryError as error:
            raise ApiError(ErrorCode.MAIL_DELIVERY_FAILED, details={"kept": error.kept}) from error
        return self._accepted
