"""What several requests spend of the quotas, and when it comes back."""

from __future__ import annotations

import math
import time
from datetime import timedelta

import pytest
from freezegun.api import FrozenDateTimeFactory

from app.mail.message import Message
from tests.api.exchanges import MS, form, send, usual
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.fakes import RecordingMailer
from tests.fuzz.inspection import State, read_state
from tests.versions import CONTACT, INDEX, LEGACY


def ask(client: ValidatingClient, request: str) -> tuple[int, State]:
    response = send(client, usual(request))
    state = read_state(response.status_code, response.headers.items())
    assert abs(time.time() + state.reset_after - state.reset_at) <= 1
    return response.status_code, state


STORIES = {
    "a response counts its own request": "GET /api: 200 59 60 | GET /api: 200 58 60",
    "nothing counted": "GET /openapi.json: 200 60 60 | OPTIONS /contact.php: 204 1 30",
    "the window slides": "30 GET /api: 200 | +40 | 30 GET /api: 200 0 20 | +20 | 30 GET /api: 200 0 40 | GET /api: 429",
    "the oldest leaves first": "GET /api: 200 | +10.5 | GET /api: 200 58 50 | +49.5 | OPTIONS /api: 204 59 11",
    "a refused request is not counted": "60 GET /api: 200 | +30 | 60 GET /api: 429 0 30 | +30 | GET /api: 200 59 60",
    "all paths share one quota": (
        f"30 GET /api: 200 | 15 HEAD {INDEX}: 200 | 15 GET /api/x: 404 0 60 | PUT {INDEX}: 429"
    ),
    "a refused form waits no longer": f"POST {LEGACY}: 200 | +29 | POST {LEGACY}: 429 0 1 | +1 | POST {LEGACY}: 200",
    "both paths share one quota": f"POST {CONTACT}: 200 | +15 | POST {LEGACY}: 429 0 15 | +15 | POST {LEGACY}: 200",
    "what does not refuse makes nobody wait": (
        f"60 GET /api: 200 | +55 | POST {CONTACT}: 429 0 5 | POST {LEGACY}: 200 0 30 | GET {CONTACT}: 429 0 5"
    ),
    "with both spent, the longer wait is that of /api/*": (
        f"POST {CONTACT}: 200 | +20 | 58 GET /api: 200 | POST {CONTACT}: 429 0 10 40 | +40 | POST {CONTACT}: 200"
    ),
    "with both spent, the longer wait is that of the forms": (
        f"59 GET /api: 200 | +59.5 | POST {CONTACT}: 200 | POST {CONTACT}: 429 0 1 30 | +30 | POST {CONTACT}: 200"
    ),
    **{
        f"{pause} s after a form": f"POST {LEGACY}: 200 | +{pause} | POST {LEGACY}: 429 0 {math.ceil(30 - pause)}"
        for pause in (0.001, 13.3, 29, 29.999)
    },
}
"""Requests and pauses. A colon, then what the last answer states: status, requests left, seconds to the reset, wait."""


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_sequence(client: ValidatingClient, clock: FrozenDateTimeFactory, story: str) -> None:
    for step in story.split(" | "):
        if step.startswith("+"):
            clock.tick(timedelta(seconds=float(step)))
            continue
        asked, _, stated = step.partition(": ")
        *times, method, path = asked.split()
        for _ in range(int(times[0]) if times else 1):
            status, state = ask(client, f"{method} {path}")
        seen = [status, state.remaining, state.reset_after, state.retry_after]
        assert [*map(int, stated.split())] == seen[: len(stated.split())], step


def test_the_state_after_a_slow_delivery_is_that_of_the_response(
    make_client: MakeClient, clock: FrozenDateTimeFactory
) -> None:
    class SlowMailer(RecordingMailer):
        def deliver(self, message: Message) -> None:
            super().deliver(message)
            clock.tick(12)

    status, state = ask(make_client(collaborators={"mailer": SlowMailer()}), f"POST {LEGACY}")

    assert (status, state.remaining, state.reset_after) == (200, 0, 18)


@pytest.mark.parametrize("age", [-3_590_000, 0, 1_999, 3_600_001])
def test_a_form_that_was_sent_too_early_or_too_late_passes_after_the_wait(
    client: ValidatingClient, clock: FrozenDateTimeFactory, age: int
) -> None:
    expired, too_early = form(200), form(200, ts=MS - age)
    refused = send(client, too_early._replace(request=f"POST {LEGACY}"))

    clock.tick(int(refused.headers["Retry-After"]))

    again = expired if age > 3_600_000 else too_early
    assert refused.status_code == 429
    assert send(client, again._replace(request=f"POST {LEGACY}")).status_code == 200
