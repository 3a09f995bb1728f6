"""How hard the properties are tried: FUZZ_CASES says how many hostile requests each gets."""

import itertools
import os
from ipaddress import IPv4Address

from hypothesis import HealthCheck, settings

BOUNDED = "FUZZ_CASES" not in os.environ
"""A bounded run tries the same cases each time; a long one looks for new ones."""

CASES = int(os.environ.get("FUZZ_CASES", "33"))
"""Hostile requests of each kind."""

LONGER_CASES = max(CASES // 8, 20)
"""Sequences of requests, and schemathesis' cases of each operation in its fuzzing phase, for these take longer."""

fuzzed = settings(
    max_examples=CASES,
    # One client or server serves all cases: each comes from an address of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""Decorates a property."""

addresses = map(str, map(IPv4Address, itertools.count(int(IPv4Address("10.0.0.0")))))
"""Clients that have sent nothing yet."""
