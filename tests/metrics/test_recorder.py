"""What each event counts as, in one process and without gunicorn."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from prometheus_client import generate_latest
from werkzeug.test import Client, TestResponse

from app.contact.submission import FORM_TYPES
from app.mail.kept import State
from app.mail.smtp import SmtpSender
from app.mail.spool import Spool
from tests.api.exchanges import Row, send
from tests.api.test_request_log import REQUESTS
from tests.conftest import MakeApp
from tests.exposition import Samples
from tests.factories import contact_body
from tests.mail.conftest import letter
from tests.mail.server import Act, SmtpServer
from tests.waiting import wait_until

OUT_OF_REACH = "redis://127.0.0.1:1"
SECRET = "ana@example.com"
LATER = "451 4.3.0 later"

_CLIENTS = (f"192.0.{third}.{fourth}" for third, fourth in itertools.product(range(2, 256), range(256)))


class Watched(NamedTuple):
    """An app with METRICS_BIND, and its numbers."""

    app: Flask

    @property
    def mailer(self) -> Any:
        return self.app.extensions["background"].mailer

    @property
    def page(self) -> str:
        return generate_latest(self.app.extensions["metrics"].registry).decode()

    def samples(self) -> Samples:
        return Samples(self.page)

    def ask(self, request: str, body: Any = None, client: str = "", **headers: str) -> TestResponse:
        """Send a request, from a new client unless one is given; what is no text goes as JSON."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return send(Client(self.app), Row(request, 0, body=content, headers=headers), client or next(_CLIENTS))


def every(samples: Samples, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by the values of these labels, those that are 0 included."""
    return {tuple(given[label] for label in labels): value for sample, given, value in samples if sample == name}


Watch = Callable[..., Watched]


@pytest.fixture
def watch(make_app: MakeApp) -> Watch:
    def watch(**environ: str) -> Watched:
        return Watched(make_app(collaborators={"mailer": None}, METRICS_BIND="127.0.0.1:1", **environ))

    return watch


@pytest.fixture
def watched(watch: Watch) -> Watched:
    return watch()


@pytest.fixture
def relay() -> Iterator[SmtpServer]:
    with SmtpServer() as relay:
        yield relay


@pytest.mark.parametrize(("sent", "line"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_counts_once_under_what_its_line_in_the_log_shows(watched: Watched, sent: str, line: str) -> None:
    labels = tuple(line.split())

    watched.ask(sent, Origin=f"https://{SECRET}.example", Referer=SECRET)

    samples = watched.samples()
    assert samples.all("http_requests_total", "method", "route", "status", "code") == {labels: 1}
    assert samples.all("http_request_duration_seconds_count", "route") == {(labels[1],): 1}
    # Only a POST to a contact path is a form.
    assert samples.sum("contact_submissions_total") == (labels[:2] == ("POST", "/contact.php"))
    assert SECRET not in watched.page.lower()


SUBMISSIONS: dict[str, tuple[Any, tuple[str, str]]] = {
    **{f"a {kind}": (contact_body(form_type=kind, ts=None), (kind, "delivered")) for kind in ("demo", "onboarding")},
    "a visitor's own words": (contact_body(nombre=SECRET, email=SECRET, extra={SECRET: SECRET}), ("demo", "delivered")),
    "a honeypot": (contact_body(_bp_check="x", form_type="ventas"), ("ventas", "discarded")),
    "a honeypot of unknown kind": (contact_body(_bp_check="x", form_type=SECRET), ("-", "discarded")),
    "a wrong captcha": (contact_body(captcha_input="xxxxx", ts=None), ("demo", "refused")),
    "too early": (contact_body(ts=0, form_type="distribuidor"), ("distribuidor", "refused")),
    "an unknown kind": (contact_body(form_type=SECRET), ("-", "refused")),
    "a kind of another type": (contact_body(form_type=["demo"]), ("-", "refused")),
    "no JSON": (b"{", ("-", "refused")),
}
"""Bodies, each with the kind and the outcome under which it counts."""


@pytest.mark.parametrize("path", ["/contact.php", "/api/v1/contact"])
@pytest.mark.parametrize(("body", "labels"), SUBMISSIONS.values(), ids=SUBMISSIONS)
def test_a_form_counts_once_under_its_kind_and_outcome_and_nothing_of_the_visitor_shows(
    watch: Watch, relay: SmtpServer, path: str, body: Any, labels: tuple[str, str]
) -> None:
    watched = watch(**relay.environ)

    watched.ask(f"POST {path}", body, client="203.0.113.77")

    assert watched.samples().all("contact_submissions_total", "form_type", "outcome") == {labels: 1}
    assert SECRET not in watched.page.lower()
    assert "203.0.113" not in watched.page


def test_what_a_quota_refuses_counts_as_a_form_and_under_the_policy(watched: Watched) -> None:
    client = next(_CLIENTS)

    for _ in range(2):
        watched.ask("POST /contact.php", b"{", client=client)
    for _ in range(61):
        watched.ask("POST /api/v1/contact", b"{", client=client)

    samples = watched.samples()
    assert samples.all("contact_submissions_total", "form_type", "outcome") == {("-", "refused"): 63}
    # The first form was counted by the contact quota, and the last one was refused by the other quota.
    assert samples.all("rate_limit_refusals_total", "policy") == {("contact",): 61, ("api",): 1}


def test_without_a_mail_server_a_form_is_stored_and_there_are_no_places(watched: Watched) -> None:
    watched.ask("POST /contact.php", contact_body())

    samples = watched.samples()
    assert samples.all("contact_submissions_total", "form_type", "outcome") == {("demo", "stored"): 1}
    assert not any(name.startswith("mail_places") for name in samples.names())
    assert every(samples, "mail_check_success", "check") == {("storage",): 1}


def test_durations_are_in_seconds(watch: Watch) -> None:
    reply = 0.02
    with SmtpServer(seconds_per_reply=reply) as relay:
        watched = watch(**relay.environ)
        begun = time.perf_counter()
        assert watched.ask("POST /contact.php", contact_body()).status_code == 200
        passed = time.perf_counter() - begun

    samples = watched.samples()
    request = samples.sum("http_request_duration_seconds_sum", route="/contact.php")
    assert reply < samples.sum("mail_handover_duration_seconds_sum", outcome="delivered") < request < passed


def test_what_has_not_happened_yet_is_zero(watch: Watch, relay: SmtpServer) -> None:
    """Prometheus sees an increase from the second value on."""
    samples = watch(**relay.environ).samples()

    forms = itertools.product((*FORM_TYPES, "-"), ("delivered", "stored", "discarded", "refused", "failed"))
    states = [("delivered",), ("waiting",), ("in_doubt",), ("refused",), ("given_up",)]
    outcomes = [("delivered",), ("failed",)]
    assert every(samples, "contact_submissions_total", "form_type", "outcome") == dict.fromkeys(forms, 0)
    assert every(samples, "mail_messages_lost_total") == {(): 0}
    assert every(samples, "rate_limit_refusals_total", "policy") == {("api",): 0, ("contact",): 0}
    assert every(samples, "mail_retries_total", "outcome") == dict.fromkeys(states, 0)
    assert every(samples, "mail_handover_duration_seconds_count", "outcome") == dict.fromkeys(outcomes, 0)
    assert every(samples, "service_info", "version") == {("development",): 1}
    assert 1e7 < samples.sum("process_resident_memory_bytes") < 1e9


def break_the_code(*_: object, **__: object) -> Any:
    raise LookupError


RETRIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "taken": ({}, "delivered", "delivered"),
    "refused for now": ({"RCPT": LATER}, "failed", "waiting"),
    "refused for good": ({"MAIL": "550 5.7.1 no"}, "failed", "refused"),
    "no answer": ({"message": Act.DROP}, "failed", "in_doubt"),
}


@pytest.mark.parametrize(("replies", "handover", "state"), RETRIES.values(), ids=RETRIES)
def test_a_retry_counts_as_a_hand_over_and_under_the_state_that_the_message_has_then(
    watch: Watch, tmp_path: Path, replies: dict[str, Any], handover: str, state: str
) -> None:
    with SmtpServer(replies) as relay:
        watched = watch(**relay.environ)
        claim = Spool(tmp_path / "mail").store(letter(1))
        with suppress(OSError):
            watched.mailer.redeliver(claim)

    samples = watched.samples()
    assert samples.all("mail_retries_total", "outcome") == {(state,): 1}
    assert samples.all("mail_handover_duration_seconds_count", "outcome") == {(handover,): 1}
    claim.release()  # not before, because the service would try it too


def test_a_retry_that_breaks_off_is_no_delivery(
    watch: Watch, relay: SmtpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch(**relay.environ)
    monkeypatch.setattr(SmtpSender, "send", break_the_code)  # a mistake in the code

    claim = Spool(tmp_path / "mail").store(letter(1))
    with pytest.raises(LookupError):
        watched.mailer.redeliver(claim)

    assert watched.samples().all("mail_retries_total", "outcome") == {("waiting",): 1}
    claim.release()


def test_a_form_that_is_not_delivered_fails_and_one_that_is_not_kept_either_is_lost(
    watch: Watch, tmp_path: Path
) -> None:
    with SmtpServer({"RCPT": LATER}) as relay:
        watched = watch(**relay.environ)
        watched.ask("POST /contact.php", contact_body())
        assert watched.samples().sum("mail_messages_lost_total") == 0
        (tmp_path / "mail").rename(tmp_path / "away")
        (tmp_path / "mail").touch()

        watched.ask("POST /contact.php", contact_body())

    samples = watched.samples()
    assert samples.all("contact_submissions_total", "form_type", "outcome") == {("demo", "failed"): 2}
    assert samples.sum("mail_messages_lost_total") == 1


def test_messages_are_counted_by_their_state_and_the_oldest_has_an_age(watch: Watch, tmp_path: Path) -> None:
    begun = time.time()
    spool = Spool(tmp_path / "mail")
    for number in range(3):
        spool.store(letter(number)).release()
    with SmtpServer({"MAIL": LATER}) as relay:
        watched = watch(**relay.environ)
        first = watched.samples()
        second = watched.samples()

    assert first.all("mail_messages", "state") == {("waiting",): 3}
    ages = [samples.sum("mail_oldest_message_age_seconds", state="waiting") for samples in (first, second)]
    assert 0 < ages[0] < ages[1] < time.time() - begun
    assert every(first, "mail_messages", "state").keys() == {(state.replace(" ", "_"),) for state in State}
    assert first.sum("mail_oldest_message_age_seconds") == ages[0]


@pytest.mark.parametrize(("replies", "server"), [({}, 1), ({"connect": "421 4.3.2 busy"}, 0)], ids=["ok", "busy"])
def test_the_checks_of_server_and_storage_are_told_apart(watch: Watch, replies: dict[str, Any], server: int) -> None:
    with SmtpServer(replies) as relay:
        samples = watch(**relay.environ).samples()

    assert every(samples, "mail_check_success", "check") == {("server",): server, ("storage",): 1}


def test_places_and_waiting_room_are_shown_while_forms_wait(watch: Watch) -> None:
    with ThreadPoolExecutor(3) as visitors, SmtpServer({"MAIL": Act.HANG}) as relay:
        watched = watch(**relay.environ, THREADS="4", SMTP_TIMEOUT="60")
        for _ in range(3):
            visitors.submit(watched.ask, "POST /contact.php", contact_body())

        wait_until(lambda: watched.samples().sum("mail_waiting_room_in_use") == 1)
        samples = watched.samples()

    places = ("mail_places", "mail_places_in_use", "mail_waiting_room", "mail_waiting_room_in_use")
    assert [samples.sum(name) for name in places] == [2, 2, 1, 1]


def test_the_clients_that_the_process_remembers_are_counted(watched: Watched) -> None:
    for _ in range(3):
        watched.ask("GET /api")
    watched.ask("POST /contact.php", b"{")

    assert every(watched.samples(), "rate_limit_clients", "policy") == {("api",): 3, ("contact",): 1}


@pytest.mark.parametrize(
    ("environ", "shown"),
    [({}, {("memory",): 1}), ({"RATE_LIMIT_STORAGE": OUT_OF_REACH}, {("redis",): 0})],
    ids=["memory", "out of reach"],
)
def test_the_storage_is_in_reach_or_not(
    watch: Watch, environ: dict[str, str], shown: dict[tuple[str, ...], float]
) -> None:
    assert every(watch(**environ).samples(), "rate_limit_storage_in_reach", "storage") == shown
