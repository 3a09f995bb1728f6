"""How the tests read messages."""

from __future__ import annotations

from email.headerregistry import HeaderRegistry
from email.policy import compat32, default
from functools import lru_cache

# email.policy.default parses a field anew at every look. The parser looks at each Content-Type some ten times.
READER = default.clone(header_factory=lru_cache(maxsize=1_000)(HeaderRegistry()))
"""The modern reader, with a memory for the fields that it has parsed."""

POLICIES = (READER, compat32)
"""The two readers of the email package. They do not agree on everything."""
