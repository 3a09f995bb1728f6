"""What several requests spend of the quotas, and when it comes back."""

from __future__ import annotations

import math
import re
import time
from datetime import timedelta

import pytest
from freezegun.api import FrozenDateTimeFactory
from hypothesis import example, given, settings
from hypothesis import strategies as st

import app
from app.mail.message import Message
from app.ratelimit.window import Policy
from tests.api.exchanges import CLIENT, CONTACT, form, send, usual
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.fakes import RecordingMailer
from tests.fuzz.cases import LONGER_CASES, addresses, fuzzed
from tests.fuzz.inspection import State, read_state

VERSIONED, LEGACY = CONTACT
STEP = re.compile(r"(?:@(\S+) )?(?:(\d+) )?([A-Z]+) (/\S*)(?: (\d{3}))?(?: (\d+)/(\d+)(?:/(\d+))?)?")
"""Client, times, method, path, then what the last answer states: status, requests left, seconds to the reset, wait."""


def ask(client: ValidatingClient, request: str, address: str = CLIENT) -> tuple[int, State]:
    response = send(client, usual(request), address)
    state = read_state(response.status_code, response.headers.items())
    assert abs(time.time() + state.reset_after - state.reset_at) <= 1
    return response.status_code, state


def play(client: ValidatingClient, clock: FrozenDateTimeFactory, story: str) -> str:
    """The story as it went: every step with what it states, where the story states something."""
    went = []
    for step in story.split(" | "):
        if step.startswith("+"):
            clock.tick(timedelta(seconds=float(step)))
            went.append(step)
            continue
        parts = STEP.fullmatch(step)
        assert parts, step
        address, times, method, path, *stated = parts.groups()
        for _ in range(int(times or 1)):
            status, state = ask(client, f"{method} {path}", address or CLIENT)
        seen = f" {status}"
        if stated[1] is not None:
            seen += f" {state.remaining}/{state.reset_after}"
            seen += f"/{state.retry_after}" if state.retry_after not in (None, state.reset_after) else ""
        went.append(re.sub(r" \d{3}(?: \S+)?$", "", step) + seen)
    return " | ".join(went)


STORIES = {
    "a response counts its own request": "GET /api 200 59/60 | GET /api 200 58/60 | GET /api 200 57/60",
    "nothing counted": "GET /openapi.json 200 60/60 | OPTIONS /contact.php 204 1/30",
    "60 pass": "60 GET /api 200 | +20.4 | GET /api 429 0/40 | +39 | GET /api 429 0/1 | +1 | GET /api 200",
    "the window slides": "30 GET /api 200 | +40 | 30 GET /api 200 0/20 | +20 | 30 GET /api 200 0/40 | GET /api 429",
    "the oldest leaves first": "GET /api 200 | +10.5 | GET /api 200 58/50 | +49.5 | OPTIONS /api 204 59/11",
    "a refused request is not counted": "60 GET /api 200 | +30 | 60 GET /api 429 0/30 | +30 | GET /api 200 59/60",
    "all paths share one quota": "30 GET /api 200 | 15 HEAD /api/v1 200 | 15 GET /api/x 404 0/60 | PUT /api/v1 429",
    "clients do not": "@192.0.2.1 61 GET /api 429 | @192.0.2.2 GET /api 200 59/60 | @192.0.2.1 GET /api 429",
    "nor of forms": f"@192.0.2.1 POST {LEGACY} 200 | @192.0.2.2 POST {LEGACY} 200 | @192.0.2.1 POST {LEGACY} 429",
    "a form waits": f"POST {LEGACY} 200 | +10.5 | POST {LEGACY} 429 0/20 | +19 | POST {LEGACY} 429 0/1 | +1",
    "a refused form waits no longer": f"POST {LEGACY} 200 | +29 | POST {LEGACY} 429 0/1 | +1 | POST {LEGACY} 200",
    "both paths share one quota": (
        f"POST {VERSIONED} 200 | +15 | POST {LEGACY} 429 | +15 | POST {LEGACY} 200 | +15 | POST {VERSIONED} 429 0/15"
    ),
    "what does not refuse makes nobody wait": (
        f"60 GET /api 200 | +55 | POST {VERSIONED} 429 0/5 | POST {LEGACY} 200 0/30 | GET {VERSIONED} 429 0/5"
    ),
    "nor what does not count": f"60 GET /api 200 | POST {LEGACY} 200 0/30 | POST {LEGACY} 429 0/30",
    "with both spent, the longer wait is that of /api/*": (
        f"POST {VERSIONED} 200 | +20 | 58 GET /api 200 | POST {VERSIONED} 429 0/10/40 | +40 | POST {VERSIONED} 200"
    ),
    "with both spent, the longer wait is that of the forms": (
        f"59 GET /api 200 | +59.5 | POST {VERSIONED} 200 | POST {VERSIONED} 429 0/1/30 | +30 | POST {VERSIONED} 200"
    ),
    **{
        f"{pause} s after the first of 60": f"60 GET /api 200 | +{pause} | GET /api 429 0/{math.ceil(60 - pause)}"
        for pause in (0.001, 0.5, 0.999, 1, 17.3, 59, 59.999)
    },
    **{
        f"{pause} s after a form": f"POST {LEGACY} 200 | +{pause} | POST {LEGACY} 429 0/{math.ceil(30 - pause)}"
        for pause in (0.5, 13.3, 29.999)
    },
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_sequence(make_client: MakeClient, clock: FrozenDateTimeFactory, story: str) -> None:
    assert play(make_client(), clock, story) == story


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("policy", "request_"), [(app.API_POLICY, "GET /api"), (app.CONTACT_POLICY, f"POST {LEGACY}")], ids=str
)
def test_an_app_grants_the_quotas_of_the_service(make_client: MakeClient, policy: Policy, request_: str) -> None:
    client = make_client(collaborators={"limits": None})

    states = [ask(client, request_)[1] for _ in range(policy.quota + 1)]

    assert {state.policy for state in states} == {policy}
    assert [state.remaining for state in states] == [*reversed(range(policy.quota)), 0]


def test_the_state_after_a_slow_delivery_is_that_of_the_response(
    make_client: MakeClient, clock: FrozenDateTimeFactory
) -> None:
    class SlowMailer(RecordingMailer):
        def deliver(self, message: Message) -> None:
            super().deliver(message)
            clock.tick(12)

    status, state = ask(make_client(collaborators={"mailer": SlowMailer()}), f"POST {LEGACY}")

    assert (status, state.remaining, state.reset_after) == (200, 0, 18)


REQUESTS = ["GET /api", "GET /api/x", "HEAD /openapi.json", f"OPTIONS {VERSIONED}", f"PUT {LEGACY}"]
REQUESTS += [f"POST {VERSIONED}", f"POST {LEGACY}"]
EDGES = [0.000001, 0.5, 1.0, 29.999999, 30.0, 59.999999, 60.0]
PAUSES = (st.sampled_from(EDGES) | st.floats(0.000001, 61)).map(lambda seconds: round(seconds, 6))
STEPS = PAUSES | st.tuples(st.sampled_from(REQUESTS), st.integers(1, 3) | st.integers(55, 62))
FRACTIONS = st.integers(0, 999_999)


@settings(fuzzed, max_examples=LONGER_CASES)
@given(steps=st.lists(STEPS, min_size=1, max_size=12), microseconds=FRACTIONS)
def test_whoever_waits_as_told_passes_and_nothing_is_gained_without_waiting(
    client: ValidatingClient, clock: FrozenDateTimeFactory, steps: list[float | tuple[str, int]], microseconds: int
) -> None:
    clock.tick(timedelta(microseconds=microseconds))
    address = next(addresses)
    left: dict[tuple[int, int], int] = {}
    for step in steps:
        if isinstance(step, float):
            clock.tick(timedelta(seconds=step))
            left.clear()
            continue
        for _ in range(step[1]):
            now = time.time_ns()
            _, state = ask(client, step[0], address)
            assert state.remaining <= left.get(state.policy, state.policy[0])
            assert 0 <= state.reset_at * 10**9 - now - (state.reset_after - 1) * 10**9 < 2 * 10**9
            left[state.policy] = state.remaining
            if state.retry_after is not None:
                clock.tick(timedelta(seconds=state.retry_after))
                left.clear()
                status, _ = ask(client, step[0], address)
                assert status != 429


@settings(fuzzed, max_examples=LONGER_CASES)
@given(age=st.integers(-3_590_000, 1_999) | st.integers(3_600_001, 10**10), microseconds=FRACTIONS)
@example(age=1_999, microseconds=999_999)
def test_a_form_that_was_sent_too_early_or_too_late_passes_after_the_wait(
    client: ValidatingClient, clock: FrozenDateTimeFactory, age: int, microseconds: int
) -> None:
    clock.tick(timedelta(microseconds=microseconds))
    now, address = time.time_ns() // 10**6, next(addresses)
    first = send(client, form("too_fast", ts=now - age)._replace(request=f"POST {LEGACY}"), address)

    clock.tick(int(first.headers["Retry-After"]))

    rendered = now if age > 3_600_000 else now - age
    assert first.status_code == 429
    assert send(client, form(200, ts=rendered)._replace(request=f"POST {LEGACY}"), address).status_code == 200
