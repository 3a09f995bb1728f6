"""Every row of the table of exchanges, held to all that is said of requests and answers."""

import functools
import json
from collections.abc import Iterator
from itertools import count
from typing import cast

import pytest

from app.errors import ErrorCode
from app.versions import Version
from tests.api.exchanges import CASES, MS, PARAMETERS, PATHS, PERSONAL, STATUSES, Row, send, typed
from tests.api.fields import hold
from tests.client import ValidatingClient
from tests.conftest import MakeApp, MakeClient, making_apps
from tests.factories import REQUEST_ID, WRONG_BODY
from tests.fakes import RecordingMailer
from tests.versions import CONTACT_PATHS, FIRST, PUBLISHED

# None is its own network, which the log may show.
ADDRESSES = (f"10.{number // 256}.{number % 256}.77" for number in count())


@pytest.fixture(scope="module")
def mailer() -> RecordingMailer:
    return RecordingMailer()


@pytest.fixture(scope="module")
def serve(mailer: RecordingMailer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeClient]:
    """A client of the service with these settings. Rows share it, as each comes from an address of its own."""
    with making_apps(tmp_path_factory.mktemp("exchanges"), mailer) as make:
        make_once = functools.cache(make)
        yield lambda **settings: cast("ValidatingClient", make_once(**settings).test_client())


def remaining(client: ValidatingClient, address: str) -> tuple[int, ...]:
    """What is left of the two quotas; to ask spends of neither."""
    asked = (send(client, Row(f"OPTIONS {path}", 204), address) for path in ("/api", "/contact.php"))
    return tuple(int(response.headers["X-RateLimit-Remaining"]) for response in asked)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("row", CASES.values(), ids=CASES)
def test_an_exchange(serve: MakeClient, mailer: RecordingMailer, caplog: pytest.LogCaptureFixture, row: Row) -> None:
    client, address = serve(**row.settings), next(ADDRESSES)
    mailer.kept = row.kept
    for earlier in row.earlier:
        send(client, earlier, address)
    left = remaining(client, address)
    mailer.messages.clear()
    caplog.clear()
    caplog.set_level("DEBUG")

    response = send(client, row, address)

    log = [record.getMessage() for record in caplog.records]
    state = hold(row, response.status_code, [*response.headers], response.data)
    assert state.reset_at == MS // 1000 + state.reset_after + 1  # NOW is half a second later
    spent = (max(0, left[0] - row.spends_of_api), max(0, left[1] - row.spends_of_forms))
    assert remaining(client, address) == spent
    assert len(mailer.messages) == row.messages
    assert not [line for line in log if any(word in line for word in (*PERSONAL, address))]


def test_every_code_is_provoked() -> None:
    provoked = {row.code for row in CASES.values()} - {""}

    assert {str(row): row.status for row in ErrorCode} == STATUSES, "STATUSES in tests/api/exchanges.py"
    assert provoked == STATUSES.keys() - {"internal_error"}, "GROUPS in tests/api/exchanges.py"


def test_every_path_is_asked(make_app: MakeApp) -> None:
    answered = {row.path for row in CASES.values() if row.status == 200 and row.answer}

    assert {rule.rule for rule in make_app().url_map.iter_rules()} == PATHS.keys(), "READABLE in tests/api/exchanges.py"
    assert PATHS.keys() - answered == set(), "a row with its answer in GROUPS of tests/api/exchanges.py"


@pytest.mark.parametrize("version", PUBLISHED.values(), ids=PUBLISHED)
def test_the_index_lists_every_endpoint_of_the_version(client: ValidatingClient, version: Version) -> None:
    served = {
        (method, rule.rule)
        for rule in client.application.url_map.iter_rules()
        for method in rule.methods or ()
        if PUBLISHED.at(rule.rule) is version and method not in {"HEAD", "OPTIONS"}
    }

    endpoints = client.get(version.base_path).get_json()["data"]["endpoints"]

    assert {(endpoint["method"], endpoint["path"]) for endpoint in endpoints} == served
    assert len(endpoints) == len(served)
    queried = {it["path"] for it in endpoints if it["method"] == "GET" and it["parameters"]}
    assert version is not FIRST or queried <= PARAMETERS.keys(), "PARAMETERS in tests/api/exchanges.py"


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("path", CONTACT_PATHS)
@pytest.mark.parametrize("rest", [typed(), json.dumps(WRONG_BODY).encode()], ids=["valid", "all wrong"])
def test_a_filled_honeypot_is_answered_exactly_as_an_accepted_form(
    make_client: MakeClient, path: str, rest: bytes
) -> None:
    row = Row(f"POST {path}", 200, headers={"X-Request-ID": REQUEST_ID})
    trapped = json.dumps(json.loads(rest) | {"_bp_check": " "}).encode()

    accepted, discarded = (
        send(make_client(TRUSTED_PROXIES="1"), row._replace(body=body)) for body in (typed(), trapped)
    )

    assert (discarded.status, discarded.data) == (accepted.status, accepted.data)
    assert list(discarded.headers) == list(accepted.headers)
