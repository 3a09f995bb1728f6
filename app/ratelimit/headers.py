"""The header fields that state a client's rate limit."""

import time

from app.ratelimit.window import Decision, whole_seconds


def rate_limit_headers(decision: Decision) -> list[tuple[str, str]]:
    """RateLimit and RateLimit-Policy (RateLimit draft; RFC 9651 lists), and the three older X-RateLimit fields."""
    policy = decision.policy
    return [
        ("RateLimit-Policy", f'"default";q={policy.quota};w={policy.window_seconds}'),
        ("RateLimit", f'"default";r={decision.remaining};t={whole_seconds(decision.reset_after)}'),
        ("X-RateLimit-Limit", str(policy.quota)),
        ("X-RateLimit-Remaining", str(decision.remaining)),
        ("X-RateLimit-Reset", str(whole_seconds(time.time_ns() + decision.reset_after))),
    ]
