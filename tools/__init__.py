"""Writes and lays out what the code knows: ``make docs`` and ``make format``."""

import re


def put(text: str, pattern: str, known: object) -> str:
    """The text with what the code knows wherever the pattern stands; what its first group found stays before it.

    Raises LookupError where it stands nowhere: a sentence in new words would otherwise go stale unseen.
    """
    written, found = re.subn(pattern, lambda match: f"{match[1] if match.re.groups else ''}{known}", text)
    if not found:
        raise LookupError(f"nothing that make docs could write for {pattern!r}")
    return written
