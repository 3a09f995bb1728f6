"""The header fields that state a client's rate limit."""

from __future__ import annotations

import time
from functools import cache

from app.ratelimit.window import Decision, Policy, whole_seconds


@cache
def _constant_fields(policy: Policy) -> list[tuple[str, str]]:
    return [
        ("RateLimit-Policy", f'"default";q={policy.quota};w={policy.window_seconds}'),
        ("X-RateLimit-Limit", str(policy.quota)),
    ]


def rate_limit_fields(decision: Decision) -> list[tuple[str, str]]:
    """RateLimit and RateLimit-Policy (RateLimit draft; RFC 9651 lists), and the three older X-RateLimit fields."""
    return [
        *_constant_fields(decision.policy),
        ("RateLimit", f'"default";r={decision.remaining};t={whole_seconds(decision.reset_after)}'),
        ("X-RateLimit-Remaining", str(decision.remaining)),
        ("X-RateLimit-Reset", str(whole_seconds(time.time_ns() + decision.reset_after))),
    ]
