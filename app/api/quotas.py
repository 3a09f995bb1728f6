"""The quotas: which ones a request counts against, and the header fields with what is left."""

import time
from http import HTTPStatus
from typing import NamedTuple

from app.api.paths import is_under_api
from app.api.request import Request
from app.errors import ApiError, ErrorCode
from app.ratelimit.window import Decision, SlidingWindow, whole_seconds


class Limits(NamedTuple):
    """The limiters of the two quotas."""

    api: SlidingWindow
    contact: SlidingWindow


class Quotas:
    """Counts requests (specification, Limits): a form against both quotas, or on /contact.php against its own alone."""

    def __init__(self, limits: Limits, contact_paths: frozenset[str]) -> None:
        self._limits = limits
        self._contact_paths = contact_paths

    def count(self, request: Request) -> None:
        """Count a request under /api, unless it is an OPTIONS; raises ApiError rate_limit_exceeded."""
        if request.method != "OPTIONS" and is_under_api(request.path):
            request.decision = self._limits.api.hit(request.client)
            if not request.decision.allowed:
                raise ApiError(ErrorCode.RATE_LIMIT_EXCEEDED)

    def count_contact(self, request: Request) -> None:
        """Count a submission; raises ApiError rate_limit."""
        request.decision = self._limits.contact.hit(request.client)
        if not request.decision.allowed:
            raise ApiError(ErrorCode.RATE_LIMIT)

    def header_fields(self, request: Request, status: int) -> list[tuple[str, str]]:
        """The fields of the request's decision, or of the present state of the path's quota."""
        decision = request.decision
        on_contact_path = request.path in self._contact_paths
        # A submission may have waited for the mail server, so its quota has changed since.
        if decision is None or (on_contact_path and status != HTTPStatus.TOO_MANY_REQUESTS):
            decision = (self._limits.contact if on_contact_path else self._limits.api).peek(request.client)
        return rate_limit_fields(decision)

    def wait(self, request: Request) -> int:
        """Seconds until every quota of a refused request would admit it."""
        waits = [request.decision.reset_after] if request.decision else [0]
        if request.method == "POST" and request.path in self._contact_paths and is_under_api(request.path):
            states = [limiter.peek(request.client) for limiter in self._limits]
            waits += [state.reset_after for state in states if not state.allowed]
        return whole_seconds(max(waits))


def rate_limit_fields(decision: Decision) -> list[tuple[str, str]]:
    """RateLimit and RateLimit-Policy (RateLimit draft; RFC 9651 lists), and the three older X-RateLimit fields."""
    policy = decision.policy
    return [
        ("RateLimit-Policy", f'"default";q={policy.quota};w={policy.window_seconds}'),
        ("RateLimit", f'"default";r={decision.remaining};t={whole_seconds(decision.reset_after)}'),
        ("X-RateLimit-Limit", str(policy.quota)),
        ("X-RateLimit-Remaining", str(decision.remaining)),
        ("X-RateLimit-Reset", str(whole_seconds(time.time_ns() + decision.reset_after))),
    ]
