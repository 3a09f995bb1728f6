"""The checks against spam besides the honeypot: age of the form, captcha. Each is a pure function."""

from app.errors import ApiError, ErrorCode

MIN_AGE_SECONDS = 2
MAX_AGE_SECONDS = 3600
CAPTCHA_LENGTH = 5


def check_age(rendered_at: int | None, now: int) -> None:
    """Refuse a form that was sent faster than a person can fill it in, or too late; both times in epoch milliseconds.

    Raises ApiError too_fast. Its ``retry_after`` is the wait until the form is old enough, or a new one if it has
    expired.
    """
    if rendered_at is None:
        return
    age = now - rendered_at
    if age > MAX_AGE_SECONDS * 1000:
        raise ApiError(ErrorCode.TOO_FAST, details={"reason": "expired"}, retry_after=MIN_AGE_SECONDS)
    if age < MIN_AGE_SECONDS * 1000:
        wait = -((age - MIN_AGE_SECONDS * 1000) // 1000)
        raise ApiError(ErrorCode.TOO_FAST, details={"reason": "too_early"}, retry_after=wait)


def check_captcha(expected: str | None, typed: str | None) -> None:
    """Raise ApiError bad_captcha when the typed code is not the one that was shown; a form without a captcha passes."""
    if expected is None and typed is None:
        return
    expected, typed = expected or "", typed or ""
    # The length is checked, too, because case folding can change it: ß becomes ss.
    if expected.casefold() != typed.casefold() or not len(expected) == len(typed) == CAPTCHA_LENGTH:
        raise ApiError(ErrorCode.BAD_CAPTCHA)
