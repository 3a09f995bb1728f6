"""What several requests spend of the quotas, and when it comes back."""

import math
import time
from datetime import datetime, timedelta

import pytest
from freezegun.api import FrozenDateTimeFactory

from app.mail.message import Message
from tests.api.exchanges import NOW, send, usual
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.fakes import RecordingMailer
from tests.fuzz.inspection import State, read_state
from tests.timeline import Step, play
from tests.versions import CONTACT, INDEX, LEGACY

BEGIN = datetime.fromisoformat(NOW)


def ask(client: ValidatingClient, request: str) -> tuple[int, State]:
    response = send(client, usual(request))
    state = read_state(response.status_code, response.headers.items())
    assert abs(time.time() + state.reset_after - state.reset_at) <= 1
    return response.status_code, state


SEQUENCES = {
    "a response counts its own request": "0 GET /api -> 200 r=59 t=60; 0 GET /api -> 200 r=58 t=60",
    "nothing counted": "0 GET /openapi.json -> 200 r=60 t=60; 0 OPTIONS /contact.php -> 204 r=1 t=30",
    "the window slides": (
        "0 30x GET /api -> 200; 40 30x GET /api -> 200 r=0 t=20; 60 30x GET /api -> 200 r=0 t=40; 60 GET /api -> 429"
    ),
    "the oldest leaves first": "0 GET /api -> 200; 10.5 GET /api -> 200 r=58 t=50; 60 OPTIONS /api -> 204 r=59 t=11",
    "a refused request is not counted": (
        "0 60x GET /api -> 200; 30 60x GET /api -> 429 r=0 t=30; 60 GET /api -> 200 r=59 t=60"
    ),
    "all paths share one quota": (
        f"0 30x GET /api -> 200; 0 15x HEAD {INDEX} -> 200; 0 15x GET /api/x -> 404 r=0 t=60; 0 PUT {INDEX} -> 429"
    ),
    "a refused form waits no longer": f"0 POST {LEGACY} -> 200; 29 POST {LEGACY} -> 429 r=0 t=1; 30 POST {LEGACY} -> 200",
    "both paths share one quota": (
        f"0 POST {CONTACT} -> 200; 15 POST {LEGACY} -> 429 r=0 t=15; 30 POST {LEGACY} -> 200"
    ),
    "what does not refuse makes nobody wait": (
        f"0 60x GET /api -> 200; 55 POST {CONTACT} -> 429 r=0 t=5; 55 POST {LEGACY} -> 200 r=0 t=30;"
        f" 55 GET {CONTACT} -> 429 r=0 t=5"
    ),
    "with both spent, the longer wait is that of /api/*": (
        f"0 POST {CONTACT} -> 200; 20 58x GET /api -> 200; 20 POST {CONTACT} -> 429 r=0 t=10 wait=40;"
        f" 60 POST {CONTACT} -> 200"
    ),
    "with both spent, the longer wait is that of the forms": (
        f"0 59x GET /api -> 200; 59.5 POST {CONTACT} -> 200; 59.5 POST {CONTACT} -> 429 r=0 t=1 wait=30;"
        f" 89.5 POST {CONTACT} -> 200"
    ),
    **{
        f"{pause} s after a form": f"0 POST {LEGACY} -> 200; {pause} POST {LEGACY} -> 429 r=0 t={math.ceil(30 - pause)}"
        for pause in (0.001, 13.3, 29, 29.999)
    },
}
"""Timelines of requests; of the last answer the status, r and t of RateLimit, and the seconds of Retry-After."""


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_a_sequence(client: ValidatingClient, clock: FrozenDateTimeFactory, sequence: str) -> None:
    def happen(step: Step) -> str:
        clock.move_to(BEGIN + timedelta(seconds=step.second))
        times, _, request = step.event.rpartition("x ")
        for _ in range(int(times or 1)):
            status, state = ask(client, request)
        return step.as_far_as_told(f"{status} r={state.remaining} t={state.reset_after} wait={state.retry_after}")

    play(sequence, happen)


def test_the_state_after_a_slow_delivery_is_that_of_the_response(
    make_client: MakeClient, clock: FrozenDateTimeFactory
) -> None:
    class SlowMailer(RecordingMailer):
        def deliver(self, message: Message) -> None:
            super().deliver(message)
            clock.tick(12)

    status, state = ask(make_client(collaborators={"mailer": SlowMailer()}), f"POST {LEGACY}")

    assert (status, state.remaining, state.reset_after) == (200, 0, 18)
