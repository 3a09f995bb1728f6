"""The messages that an operator names: by Message-ID, by the reference of a submission or by the id of its request."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from app.mail.kept import Name
from app.mail.message import reference
from app.mail.spool import Spool, Stored

_MADE_OF_REQUEST = re.compile(r"([0-9a-f]{32})\.[0-9a-f]{16}")
"""The local part of a Message-ID that begins with the id of the request. An older release made others."""

_REFERENCE = re.compile(r"[0-9a-f]{4}-?[0-9a-f]{4}")

_LOOKS = 3
"""Times that the folders are read to find a message: the service may rename it at that moment."""


class AmbiguousError(Exception):
    """A reference, or the id of a request, stands for several messages; the text lists them."""

    def __init__(self, identifier: str, message_ids: Iterable[str]) -> None:
        lines = [f"{identifier} stands for several messages. Name one of them:", *sorted(message_ids)]
        super().__init__("\n".join(lines))


class Found:
    """The messages that identifiers stand for."""

    def __init__(self, identifiers: Iterable[str]) -> None:
        self.foreign: list[str] = []
        """The places of files that have the name of such a message and are none."""
        self._matches: dict[str, dict[str, tuple[Stored, bytes]]] = {_spelled(text): {} for text in identifiers}

    @property
    def missing(self) -> list[str]:
        """The identifiers without a message."""
        return [identifier for identifier, matches in self._matches.items() if not matches]

    @property
    def messages(self) -> list[tuple[Stored, bytes]]:
        """Each message once, with its content; the oldest first."""
        found = {place: match for matches in self._matches.values() for place, match in matches.items()}
        return sorted(found.values(), key=lambda match: match[0].name.unique)

    def look(self, spool: Spool) -> None:
        """Look for what is missing. Only the files that have the name of such a message are opened."""
        wanted = defaultdict(list)
        for identifier in self.missing:
            wanted[f"{identifier[1:].partition('@')[0]}@" if "@" in identifier else identifier].append(identifier)
        self.foreign.clear()
        for place, name in spool.names():
            for key in _keys(name) if name else ():
                for identifier in wanted.get(key, ()):
                    self._take(spool, place, identifier)

    def _take(self, spool: Spool, place: str, identifier: str) -> None:
        try:
            stored, content = spool.open(place)
        except FileNotFoundError:
            return
        except OSError:
            self.foreign.append(place)
            return
        if "@" not in identifier or stored.message_id == identifier:
            self._matches[identifier][place] = stored, content

    def require_clear(self) -> None:
        """Raise AmbiguousError when a reference or the id of a request stands for several messages."""
        for identifier, matches in self._matches.items():
            message_ids = {stored.message_id for stored, _ in matches.values()}
            if len(message_ids) > 1:
                raise AmbiguousError(identifier, message_ids)


def find(spool: Spool, identifiers: Iterable[str]) -> Found:
    """The messages of the identifiers; raises AmbiguousError, or OSError when MAIL_DIR cannot be read."""
    found = Found(identifiers)
    for _ in range(_LOOKS):
        found.look(spool)
        if not found.missing:
            break
    found.require_clear()
    return found


def reference_of(name: Name) -> str | None:
    """The reference of the submission; None for a message of an older release."""
    made = _MADE_OF_REQUEST.fullmatch(name.local_part)
    return reference(made[1]) if made else None


def _keys(name: Name) -> Iterable[str]:
    made = _MADE_OF_REQUEST.fullmatch(name.local_part)
    return (f"{name.local_part}@", reference(made[1]), made[1]) if made else (f"{name.local_part}@",)


def _spelled(identifier: str) -> str:
    """The one spelling of an identifier, as it is shown."""
    if "@" in identifier:
        return f"<{identifier.strip('<>')}>"  # a shell wants <> quoted
    lower = identifier.lower()
    return reference(lower.replace("-", "")) if _REFERENCE.fullmatch(lower) else lower
