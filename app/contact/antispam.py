"""The checks that keep machines out: honeypot, age of the form, captcha. Each is a pure function."""

from __future__ import annotations

from app.errors import ApiError, ErrorCode

MIN_AGE_SECONDS = 2
MAX_AGE_SECONDS = 3600
CAPTCHA_LENGTH = 5


def is_honeypot_filled(value: object) -> bool:
    """Whether the field that no person sees holds text; white space is text."""
    return isinstance(value, str) and value != ""


def check_age(rendered_at: int | None, now: int) -> None:
    """Refuse a form that was filled in faster than a person can, or too long ago; both times in epoch milliseconds.

    Raises ApiError too_fast; ``retry_after`` is the wait until the form (a fresh one, if it expired) is old enough.
    """
    if rendered_at is None:
        return
    age = now - rendered_at
    # A negative time is no moment at which a form was rendered: it is expired, whatever the clock says.
    if rendered_at < 0 or age > MAX_AGE_SECONDS * 1000:
        raise ApiError(ErrorCode.TOO_FAST, details={"reason": "expired"}, retry_after=MIN_AGE_SECONDS)
    if age < MIN_AGE_SECONDS * 1000:
        wait = -((age - MIN_AGE_SECONDS * 1000) // 1000)
        raise ApiError(ErrorCode.TOO_FAST, details={"reason": "too_early"}, retry_after=wait)


def check_captcha(expected: str | None, typed: str | None) -> None:
    """Refuse a typed code that is not the one shown; no captcha at all passes.

    Raises ApiError bad_captcha.
    """
    if expected is None and typed is None:
        return
    if expected is None or typed is None or expected.casefold() != typed.casefold():
        raise ApiError(ErrorCode.BAD_CAPTCHA)
    # Case folding can change a length: ß folds into ss.
    if len(expected) != CAPTCHA_LENGTH or len(typed) != CAPTCHA_LENGTH:
        raise ApiError(ErrorCode.BAD_CAPTCHA)
