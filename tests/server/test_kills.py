"""A worker that is killed at any step of a hand-over loses no message, and none is sent twice."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from email.parser import BytesHeaderParser
from email.utils import parseaddr
from pathlib import Path
from typing import NamedTuple

import pytest

from app.mail.kept import Kept, State
from app.mail.spool import Spool
from tests.mail.server import SmtpServer
from tests.server.gunicorn import Server, serving
from tests.waiting import wait_until

WELL: dict[str, str] = {}
LATER = {"RCPT": "450 4.3.0 later"}

ACCEPTED = (200, None)
KEPT = (500, True)
"""The status, and whether the message is kept."""

MESSAGES = 6
"""What the service is handing over again at the time of the kill."""

KILLED = "was sent SIGKILL"


class Fate(NamedTuple):
    """What becomes of the message that the killed process had in hand."""

    in_doubt: bool
    taken: set[int]
    """How often the mail server may have taken it."""


NEVER_STORED = Fate(in_doubt=False, taken={0})
DELIVERED = Fate(in_doubt=False, taken={1})
NOT_SENT = Fate(in_doubt=True, taken={0})
PERHAPS_SENT = Fate(in_doubt=True, taken={0, 1})
SENT = Fate(in_doubt=True, taken={1})


def around(*steps: str) -> list[str]:
    return [f"{moment} {step}" for step in steps for moment in ("before", "after")]


# To store is to rename the file out of tmp/.
STORING = dict.fromkeys([*around("create", "write", "fsync"), "before store"], NEVER_STORED)
STORED = {"after store": DELIVERED}

# The note is of an attempt that the mail server has refused. What has the mark is in doubt.
HANDING_OVER = (
    dict.fromkeys([*around("MAIL", "note", "DATA"), "before mark"], DELIVERED)
    | dict.fromkeys(["after mark", "before content", "half content"], NOT_SENT)
    | dict.fromkeys(["after content"], PERHAPS_SENT)
    | dict.fromkeys([*around("reply"), "before unlink"], SENT)
    | {"after unlink": DELIVERED}
)

PIPELINED = dict.fromkeys(around("DATA"), DELIVERED)

BY_DAY = {"form after store", "form half content", "kept before unlink"}
"""Kept without the mark, with the mark, and sent. ``make test`` tries these; the others come by night."""

CASES = [
    pytest.param(
        f"{message} {moment}",
        fate,
        pipelining,
        id=f"{message} {moment}{' pipelined' if pipelining else ''}",
        marks=() if f"{message} {moment}" in BY_DAY else pytest.mark.nightly,
    )
    for message, moments, pipelining in [
        ("form", STORING | STORED | HANDING_OVER, False),
        ("kept", HANDING_OVER, False),
        ("form", PIPELINED, True),
        ("kept", PIPELINED, True),
    ]
    for moment, fate in moments.items()
]


def send(service: Server, visitor: int) -> tuple[int, bool | None] | None:
    """Sends a visitor's form; returns the status and whether it is kept, or None if the connection broke."""
    try:
        response, answer = service.new_client().post_form(email=f"{visitor}@example.com")
    except (OSError, http.client.HTTPException):
        return None
    return response.status, json.loads(answer).get("error", {}).get("details", {}).get("kept")


def taken(relay: SmtpServer, field: str = "Message-ID") -> Counter[str]:
    """How often the relay took each message, by an address. What it could not answer any more counts, too."""
    headers = (BytesHeaderParser().parsebytes(arrival.content) for arrival in relay.arrivals)
    return Counter(parseaddr(str(header[field]))[1].partition("@")[0] for header in headers)


def kept(service: Server, *states: State) -> dict[str, Kept]:
    """The messages that are kept, by their Message-ID: all, or those in these states."""
    messages = Spool(service.mail_dir).kept()
    return {message.local_part: message for message in messages if not states or message.state in states}


@pytest.mark.parametrize(("kill_at", "fate", "pipelining"), CASES)
def test_a_kill_loses_no_message_and_sends_none_twice(
    tmp_path: Path, kill_at: str, fate: Fate, *, pipelining: bool
) -> None:
    of_form = kill_at.startswith("form")
    kill_file = tmp_path / "kill"
    environ = {
        "GUNICORN_CMD_ARGS": "--config tests/server/killed_gunicorn.py --workers 2",
        "KILL_AT": kill_at,
        "KILL_FILE": str(kill_file),
        "RETRY_SECONDS": "1",
        "THREADS": "4",
    }
    victim, late, last = range(MESSAGES, MESSAGES + 3)
    with (
        SmtpServer(replies=LATER, pipelining=pipelining) as relay,
        serving(tmp_path, **relay.environ | environ) as service,
    ):
        assert [send(service, visitor) for visitor in range(MESSAGES)] == [KEPT] * MESSAGES
        wait_until(lambda: all(message.tries > 1 for message in kept(service).values()))

        kill_file.touch()
        relay.replies = LATER if kill_at.endswith("note") else WELL
        assert not of_form or send(service, victim) is None
        wait_until(lambda: KILLED in service.log)

        # What is in doubt is older than this message, and would be sent again before it.
        relay.replies = LATER
        assert send(service, late) == KEPT
        relay.replies = WELL
        messages = MESSAGES + 1 + (of_form and fate != NEVER_STORED)
        wait_until(lambda: len({*taken(relay), *kept(service, State.IN_DOUBT)}) >= messages)
        assert send(service, last) == ACCEPTED

    left, arrived, senders = kept(service), taken(relay), taken(relay, "Reply-To")
    # Besides the form, which it tried once, the killed process may have been sending a kept message.
    victims = [message_id for message_id, message in left.items() if not of_form or message.tries == 1]
    assert service.log.count(KILLED) == 1
    assert {message.state for message in left.values()} <= {State.IN_DOUBT}
    assert max(arrived.values()) == 1
    assert len({*arrived, *left}) == messages + 1
    assert len(victims) == fate.in_doubt
    assert len(left) <= len(victims) + of_form
    assert all(arrived[message_id] in fate.taken for message_id in victims)
    assert not of_form or senders[str(victim)] in fate.taken
    assert senders[str(last)] == 1
