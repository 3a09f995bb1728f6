"""The headers of every response, and what consumes which quota."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory
from werkzeug.test import TestResponse

import app
from app.mail.message import Message
from app.ratelimit.window import Policy
from tests.client import ValidatingClient
from tests.conftest import MakeClient
from tests.factories import REQUEST_ID, SUNSET, contact_body
from tests.fakes import RecordingMailer

NOW = "2030-05-01T12:00:00.25"
API_POLICY = '"default";q=60;w=60'
CONTACT_POLICY = '"default";q=1;w=30'

RESPONSES: dict[str, tuple[str, str, int, str]] = {
    "index": ("GET", "/api", 200, API_POLICY),
    "versioning": ("GET", "/api/versioning", 200, API_POLICY),
    "version": ("GET", "/api/v1", 200, API_POLICY),
    "health": ("GET", "/api/v1/health", 200, API_POLICY),
    "document": ("GET", "/openapi.json", 200, API_POLICY),
    "HEAD": ("HEAD", "/api", 200, API_POLICY),
    "OPTIONS": ("OPTIONS", "/api", 204, API_POLICY),
    "OPTIONS of the document": ("OPTIONS", "/openapi.json", 204, API_POLICY),
    "OPTIONS of contact": ("OPTIONS", "/api/v1/contact", 204, CONTACT_POLICY),
    "OPTIONS of the alias": ("OPTIONS", "/contact.php", 204, CONTACT_POLICY),
    "OPTIONS of nothing": ("OPTIONS", "/api/x", 404, API_POLICY),
    "wrong parameter": ("GET", "/api?section=x", 400, API_POLICY),
    "empty contact": ("POST", "/api/v1/contact", 400, CONTACT_POLICY),
    "empty alias": ("POST", "/contact.php", 400, CONTACT_POLICY),
    "wrong method": ("POST", "/api", 405, API_POLICY),
    "wrong method of contact": ("GET", "/api/v1/contact", 405, CONTACT_POLICY),
    "wrong method of the alias": ("HEAD", "/contact.php", 405, CONTACT_POLICY),
    "unknown path": ("GET", "/x", 404, API_POLICY),
    "unknown endpoint": ("GET", "/api/x", 404, API_POLICY),
    "unknown version": ("POST", "/api/v9/contact", 404, API_POLICY),
    "below contact": ("POST", "/api/v1/contact/", 404, API_POLICY),
}
"""A request of each kind, the status of its answer and the policy that this states."""

CONSUMING = [
    ("GET", "/api"),
    ("HEAD", "/api"),
    ("GET", "/api/versioning"),
    ("GET", "/api/v1"),
    ("GET", "/api/v1/health"),
    ("GET", "/api/"),
    ("GET", "/api/x"),
    ("GET", "/api/v9/x"),
    ("GET", "/api?section=x"),
    ("DELETE", "/api"),
    ("GET", "/api/v1/contact"),
    ("POST", "/api/v1/contact"),
    ("TRACE", "/api/x"),
]
"""What counts against the /api/* quota."""

FREE = [
    ("OPTIONS", "/api"),
    ("OPTIONS", "/api/v1/contact"),
    ("OPTIONS", "/api/x"),
    ("OPTIONS", "/contact.php"),
    ("POST", "/contact.php"),
    ("GET", "/contact.php"),
    ("GET", "/openapi.json"),
    ("HEAD", "/openapi.json"),
    ("POST", "/openapi.json"),
    ("GET", "/"),
    ("GET", "/apix"),
    ("GET", "/x/api"),
]
"""What does not."""


@dataclass(frozen=True)
class Stated:
    """What the rate-limit headers of a response say."""

    quota: int
    window: int
    remaining: int
    reset_after: int
    limit: int
    x_remaining: int
    reset_at: int


def stated(response: TestResponse) -> Stated:
    policy = re.fullmatch(r'"default";q=(\d+);w=(\d+)', response.headers["RateLimit-Policy"])
    state = re.fullmatch(r'"default";r=(\d+);t=(\d+)', response.headers["RateLimit"])
    assert policy
    assert state
    fields = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
    return Stated(*map(int, (*policy.groups(), *state.groups(), *(response.headers[name] for name in fields))))


def api_remaining(client: ValidatingClient) -> int:
    """Asks for the state of the /api/* quota without changing it."""
    return stated(client.get("/openapi.json")).remaining


def contact_remaining(client: ValidatingClient) -> int:
    return stated(client.options("/contact.php")).remaining


def spend_api_quota(client: ValidatingClient) -> None:
    for _ in range(60):
        assert client.get("/api").status_code == 200


@pytest.fixture
def clock() -> Iterator[FrozenDateTimeFactory]:
    with freeze_time(NOW) as clock:
        assert isinstance(clock, FrozenDateTimeFactory)
        yield clock


@pytest.mark.parametrize(("method", "path", "status", "policy"), RESPONSES.values(), ids=RESPONSES.keys())
def test_every_response_carries_the_headers_of_the_contract_once(
    client: ValidatingClient, method: str, path: str, status: int, policy: str
) -> None:
    response = client.open(path, method=method)

    assert response.status_code == status
    assert response.headers.getlist("API-Version") == ["v1"]
    assert response.headers.getlist("Vary") == ["Accept, Accept-Encoding, Origin"]
    assert response.headers.getlist("X-Content-Type-Options") == ["nosniff"]
    assert len(response.headers.getlist("Cache-Control")) == 1
    assert (response.headers["Cache-Control"] == "no-store") == (path != "/openapi.json" or method == "OPTIONS")
    assert response.headers.getlist("RateLimit-Policy") == [policy]
    assert len(response.headers.getlist("RateLimit")) == 1
    assert len(response.headers.getlist("X-Request-ID")) == 1
    limits = stated(response)
    assert limits.limit == limits.quota
    assert limits.x_remaining == limits.remaining
    assert response.content_type == (None if status == 204 else "application/json")


@pytest.mark.parametrize(
    ("policy", "method", "path"), [(app.API_POLICY, "GET", "/api"), (app.CONTACT_POLICY, "POST", "/contact.php")]
)
def test_an_app_grants_the_quotas_of_the_service(
    make_client: MakeClient, policy: Policy, method: str, path: str
) -> None:
    client = make_client(collaborators={"limits": None})

    states = [stated(client.open(path, method=method)) for _ in range(policy.quota + 1)]

    assert {(state.quota, state.window) for state in states} == {tuple(policy)}
    assert [state.remaining for state in states] == [*reversed(range(policy.quota)), 0]


def test_accepted_and_failed_submissions_state_the_contact_policy(
    client: ValidatingClient, mailer: RecordingMailer
) -> None:
    for broken, status in ((False, 200), (True, 500)):
        mailer.broken = broken
        response = client.post(
            "/api/v1/contact", json=contact_body(), environ_overrides={"REMOTE_ADDR": f"192.0.2.{status % 256}"}
        )
        assert response.status_code == status
        assert response.headers["RateLimit-Policy"] == CONTACT_POLICY


def test_a_document_that_was_not_modified_states_the_api_policy(client: ValidatingClient) -> None:
    response = client.get("/openapi.json", headers={"If-None-Match": "*"})

    assert response.status_code == 304
    assert response.headers["RateLimit-Policy"] == API_POLICY
    assert response.headers.getlist("Vary") == ["Accept, Accept-Encoding, Origin"]


def test_a_sunset_contact_endpoint_states_the_contact_policy(make_client: MakeClient) -> None:
    response = make_client(**SUNSET).post("/api/v1/contact", json=contact_body())

    assert response.status_code == 410
    assert response.headers["RateLimit-Policy"] == CONTACT_POLICY
    assert stated(response).remaining == 1


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/v1/contact"), ("GET", "/api/v1/contact")])
def test_a_contact_request_that_the_api_quota_refuses_states_the_api_policy(
    client: ValidatingClient, method: str, path: str
) -> None:
    spend_api_quota(client)

    response = client.open(path, method=method, json=contact_body())

    assert response.get_json()["error"]["code"] == "rate_limit_exceeded"
    assert response.headers["RateLimit-Policy"] == API_POLICY
    assert stated(response).remaining == 0


@pytest.mark.parametrize(("method", "path"), CONSUMING)
def test_every_request_under_api_consumes_one(client: ValidatingClient, method: str, path: str) -> None:
    client.open(path, method=method)

    assert api_remaining(client) == 59


@pytest.mark.parametrize(("method", "path"), FREE)
def test_nothing_else_consumes_of_the_api_quota(client: ValidatingClient, method: str, path: str) -> None:
    client.open(path, method=method)

    assert api_remaining(client) == 60


def test_a_doubled_slash_in_front_lies_outside_api(client: ValidatingClient) -> None:
    client.get("/", environ_overrides={"PATH_INFO": "//api"})

    assert api_remaining(client) == 60


def test_a_sunset_version_consumes_of_the_api_quota_alone(make_client: MakeClient) -> None:
    client = make_client(**SUNSET)

    client.post("/api/v1/contact", json=contact_body())

    assert api_remaining(client) == 59
    assert contact_remaining(client) == 1


def test_the_response_counts_its_own_request(client: ValidatingClient) -> None:
    assert [stated(client.get("/api")).remaining for _ in range(3)] == [59, 58, 57]


def test_with_nothing_counted_the_whole_window_is_stated(
    client: ValidatingClient, clock: FrozenDateTimeFactory
) -> None:
    clock.tick(1000)

    api, contact = stated(client.get("/openapi.json")), stated(client.options("/contact.php"))

    assert (api.remaining, api.reset_after) == (60, 60)
    assert (contact.remaining, contact.reset_after) == (1, 30)


def test_the_reset_is_when_the_oldest_request_leaves_rounded_up(
    client: ValidatingClient, clock: FrozenDateTimeFactory
) -> None:
    client.get("/api")
    clock.tick(10.5)
    client.get("/api")

    first = stated(client.get("/openapi.json"))
    clock.tick(49.5)
    second = stated(client.get("/openapi.json"))

    assert (first.remaining, first.reset_after) == (58, 50)
    assert (second.remaining, second.reset_after) == (59, 11)


@pytest.mark.parametrize("pause", [0, 0.001, 0.5, 0.75, 0.999, 1, 17.3, 59, 59.999])
def test_reset_t_and_retry_after_agree(client: ValidatingClient, clock: FrozenDateTimeFactory, pause: float) -> None:
    spend_api_quota(client)
    clock.tick(pause)

    response = client.get("/api")

    state = stated(response)
    retry_after = int(response.headers["Retry-After"])
    assert response.get_json()["error"]["retry_after_seconds"] == retry_after
    assert 1 <= retry_after == state.reset_after
    assert abs(time.time() + retry_after - state.reset_at) <= 1


@pytest.mark.parametrize("path", ["/api/v1/contact", "/contact.php"])
@pytest.mark.parametrize("pause", [0, 0.5, 13.3, 29.999])
def test_they_agree_on_the_contact_quota_too(
    client: ValidatingClient, clock: FrozenDateTimeFactory, path: str, pause: float
) -> None:
    client.post(path, json=contact_body())
    clock.tick(pause)

    response = client.post(path, json=contact_body())

    state = stated(response)
    retry_after = int(response.headers["Retry-After"])
    assert response.get_json()["error"]["code"] == "rate_limit"
    assert response.get_json()["error"]["retry_after_seconds"] == retry_after
    assert 1 <= retry_after == state.reset_after
    assert abs(time.time() + retry_after - state.reset_at) <= 1


def test_a_quota_that_does_not_refuse_a_request_makes_it_wait_no_longer(
    client: ValidatingClient, clock: FrozenDateTimeFactory
) -> None:
    spend_api_quota(client)
    clock.tick(55)

    post = client.post("/api/v1/contact", json=contact_body())
    client.post("/contact.php", json=contact_body())
    get = client.get("/api")

    assert contact_remaining(client) == 0
    assert [response.headers["Retry-After"] for response in (post, get)] == ["5", "5"]


def test_60_requests_pass_and_the_61st_waits_as_told(client: ValidatingClient, clock: FrozenDateTimeFactory) -> None:
    statuses = [client.get("/api").status_code for _ in range(60)]
    clock.tick(20.4)
    refused = client.get("/api")
    wait = int(refused.headers["Retry-After"])

    assert statuses == [200] * 60
    assert refused.status_code == 429
    assert refused.get_json()["error"]["code"] == "rate_limit_exceeded"
    clock.tick(wait - 1)
    assert client.get("/api").status_code == 429
    clock.tick(1)
    assert client.get("/api").status_code == 200


def test_the_quota_is_shared_by_all_paths_under_api(client: ValidatingClient) -> None:
    for number in range(60):
        method, path = CONSUMING[number % len(CONSUMING)]
        assert client.open(path, method=method).status_code != 429 or path.endswith("contact")

    assert client.get("/api/v1/health").get_json()["error"]["code"] == "rate_limit_exceeded"


def test_the_window_slides(client: ValidatingClient, clock: FrozenDateTimeFactory) -> None:
    for _ in range(30):
        client.get("/api")
    clock.tick(40)
    for _ in range(30):
        client.get("/api")
    clock.tick(20)

    statuses = [client.get("/api").status_code for _ in range(31)]

    assert statuses == [200] * 30 + [429]


def test_a_refused_request_is_not_counted(client: ValidatingClient, clock: FrozenDateTimeFactory) -> None:
    spend_api_quota(client)
    clock.tick(30)
    for _ in range(60):
        assert client.get("/api").status_code == 429
    clock.tick(30)

    assert stated(client.get("/api")).remaining == 59


def test_what_is_free_is_answered_with_the_quota_spent(client: ValidatingClient) -> None:
    spend_api_quota(client)

    assert client.options("/api").status_code == 204
    assert client.get("/openapi.json").status_code == 200
    assert client.post("/contact.php", json=contact_body()).status_code == 200


def test_clients_do_not_share_a_quota(client: ValidatingClient) -> None:
    spend_api_quota(client)

    assert client.get("/api", environ_overrides={"REMOTE_ADDR": "192.0.2.2"}).status_code == 200
    assert client.get("/api").status_code == 429


def test_the_state_after_a_slow_delivery_is_that_of_the_response(
    make_client: MakeClient, clock: FrozenDateTimeFactory
) -> None:
    class SlowMailer(RecordingMailer):
        def deliver(self, message: Message) -> None:
            super().deliver(message)
            clock.tick(12)

    state = stated(make_client(collaborators={"mailer": SlowMailer()}).post("/contact.php", json=contact_body()))

    assert (state.remaining, state.reset_after) == (0, 18)
    assert abs(time.time() + 18 - state.reset_at) <= 1


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "path", ["/api", "/api/versioning", "/api/v1", "/api/v1/health", "/api/v1/health?verbose=true"]
)
def test_head_has_the_headers_of_get_and_no_body(make_client: MakeClient, path: str) -> None:
    client = make_client(TRUSTED_PROXIES="1")
    client.get("/api/v1/health", environ_overrides={"REMOTE_ADDR": "192.0.2.3"})
    same_id = {"X-Request-ID": REQUEST_ID}

    got = client.get(path, headers=same_id, environ_overrides={"REMOTE_ADDR": "192.0.2.1"})
    asked = client.head(path, headers=same_id, environ_overrides={"REMOTE_ADDR": "192.0.2.2"})

    assert asked.status_code == 200
    assert asked.data == b""
    assert sorted(asked.headers) == sorted(got.headers)


def test_the_order_of_the_checks_under_api(make_client: MakeClient) -> None:
    """Each request violates its own check and all later ones: quota, sunset, path, method, query."""
    living, sunset = make_client(), make_client(**SUNSET)
    codes = [
        sunset.open("/api/v1/x", method="POST"),
        sunset.post("/api/v1/health?verbose=x"),
        living.post("/api/x?section=x"),
        living.post("/api?section=x"),
        living.get("/api?section=x"),
    ]
    for _ in range(58):
        sunset.get("/api/v1")
    codes.insert(0, sunset.open("/api/v1/x", method="POST"))

    assert [response.get_json()["error"]["code"] for response in codes] == [
        "rate_limit_exceeded",
        "api_version_sunset",
        "api_version_sunset",
        "endpoint_not_found",
        "method_not_allowed",
        "invalid_parameter",
    ]


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/", "/api/v1/health", "/api/v1/contact", "/api/v1/x"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_after_the_sunset_all_of_the_version_is_gone(make_client: MakeClient, path: str, method: str) -> None:
    response = make_client(**SUNSET).open(path, method=method)

    assert response.status_code == 410
    assert response.get_json()["error"]["code"] == "api_version_sunset"


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/health", "/api/v1/contact", "/contact.php"])
def test_options_is_answered_after_the_sunset(make_client: MakeClient, path: str) -> None:
    response = make_client(**SUNSET).options(path)

    assert response.status_code == 204
    assert "OPTIONS" in response.headers["Allow"]


def test_what_never_existed_in_a_sunset_version_is_gone_for_options_as_well(make_client: MakeClient) -> None:
    response = make_client(**SUNSET).options("/api/v1/x")

    assert response.get_json()["error"]["code"] == "api_version_sunset"


@pytest.mark.parametrize("path", ["/api", "/api/versioning", "/openapi.json"])
def test_what_belongs_to_no_version_outlives_the_sunset(make_client: MakeClient, path: str) -> None:
    assert make_client(**SUNSET).get(path).status_code == 200
