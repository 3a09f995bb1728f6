"""Every row of the table of exchanges, held to all that is said of requests and answers."""

from __future__ import annotations

import json
from email import message_from_bytes, policy

import pytest
from werkzeug.test import Client

from app.errors import ErrorCode
from app.mail.message import Message
from tests.api.exchanges import CASES, CONTACT, MS, PATHS, PERSONAL, STATUSES, Row, send, typed
from tests.api.fields import hold
from tests.client import ValidatingClient
from tests.conftest import MakeApp, MakeClient
from tests.factories import REQUEST_ID, WRONG_BODY
from tests.fakes import RecordingMailer


def remaining(client: ValidatingClient) -> tuple[int, ...]:
    """What is left of the two quotas; to ask spends of neither."""
    asked = (send(client, Row(f"OPTIONS {path}", 204)) for path in ("/api", "/contact.php"))
    return tuple(int(response.headers["X-RateLimit-Remaining"]) for response in asked)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("row", CASES.values(), ids=CASES)
def test_an_exchange(
    make_client: MakeClient, mailer: RecordingMailer, caplog: pytest.LogCaptureFixture, row: Row
) -> None:
    mailer.broken = row.mail_fails
    client = make_client(**row.settings)
    for earlier in row.earlier:
        send(client, earlier)
    sent, left = len(mailer.messages), remaining(client)
    caplog.clear()
    caplog.set_level("DEBUG")

    response = send(client, row)

    log = [record.getMessage() for record in caplog.records]
    state = hold(row, response.status_code, [*response.headers], response.data)
    assert state.reset_at == MS // 1000 + state.reset_after + 1  # NOW is half a second later
    assert remaining(client) == (max(0, left[0] - row.spends_of_api), max(0, left[1] - row.spends_of_forms))
    messages = mailer.messages[sent:]
    assert len(messages) == row.messages
    assert all(row.says in text_of(message) for message in messages)
    assert not [line for line in log if any(word in line for word in PERSONAL)]


def text_of(message: Message) -> str:
    part = message_from_bytes(message.content, policy=policy.default).get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def test_every_code_is_provoked() -> None:
    assert {str(row): row.status for row in ErrorCode} == STATUSES
    assert {row.code for row in CASES.values()} - {""} == STATUSES.keys() - {"internal_error"}


def test_every_path_is_asked(make_app: MakeApp) -> None:
    assert {rule.rule for rule in make_app().url_map.iter_rules()} == PATHS.keys()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("path", CONTACT)
@pytest.mark.parametrize("rest", [typed(), json.dumps(WRONG_BODY).encode()], ids=["valid", "all wrong"])
def test_a_filled_honeypot_is_answered_exactly_as_an_accepted_form(
    make_client: MakeClient, path: str, rest: bytes
) -> None:
    row = Row(f"POST {path}", 200, settings={"TRUSTED_PROXIES": "1"}, headers={"X-Request-ID": REQUEST_ID})
    trapped = json.dumps(json.loads(rest) | {"_bp_check": "https://spam.example"}).encode()

    accepted, discarded = (send(make_client(**row.settings), row._replace(body=body)) for body in (typed(), trapped))

    assert (discarded.status, discarded.data) == (accepted.status, accepted.data)
    assert list(discarded.headers) == list(accepted.headers)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "target", ["/api", "/api/versioning", "/api/v1", "/api/v1/health?verbose=true", "/openapi.json"]
)
def test_head_has_the_headers_of_get_and_no_body(make_client: MakeClient, target: str) -> None:
    row = Row(f"GET {target}", 200, settings={"TRUSTED_PROXIES": "1"}, headers={"X-Request-ID": REQUEST_ID})

    got, asked = (
        send(make_client(**row.settings), row._replace(request=f"{method} {target}")) for method in ("GET", "HEAD")
    )

    assert asked.data == b""
    assert list(asked.headers) == list(got.headers)


def test_a_method_in_lower_case_is_the_method(make_app: MakeApp) -> None:
    response = Client(make_app()).open("/api/v1", environ_overrides={"REQUEST_METHOD": "options"})

    assert (response.status_code, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
