"""What each event counts as, in one process and without gunicorn."""

import itertools
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from prometheus_client import generate_latest
from werkzeug.test import Client, TestResponse

from app.forms import FORM_TYPES
from app.mail.queued import State
from app.mail.spool import Spool
from tests.api.exchanges import Row, member, send
from tests.api.test_request_log import REQUESTS
from tests.conftest import MakeApp
from tests.exposition import Samples
from tests.factories import contact_body
from tests.mail.conftest import numbered
from tests.mail.server import Act, Replies, SmtpServer
from tests.monitoring.rules import JOB, RULES
from tests.versions import CONTACT
from tests.waiting import wait_until

CLIENT = "203.0.113.77"
FORM = "POST /contact.php"
SECRET = "ana@example.com"
LATER, GONE = "451 4.3.0 later", "550 5.1.1 no such user"
OTHER, THIRD = "otra@example.com", "tercera@example.com"


class Watched(NamedTuple):
    """An app with METRICS_BIND, and its numbers."""

    app: Flask

    @property
    def page(self) -> str:
        return generate_latest(self.app.extensions["metrics"].registry).decode()

    def samples(self) -> Samples:
        return Samples(self.page)

    def ask(self, request: str, body: Any = None, client: str = CLIENT) -> TestResponse:
        """Send a request; a body that is not bytes goes as JSON."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        said = {"Origin": f"https://{SECRET}.example", "Referer": SECRET}
        return send(Client(self.app), Row(request, 0, body=content, headers=said), client)


Values = dict[tuple[str, ...], float]
Watch = Callable[..., Watched]


def every(samples: Samples, name: str, *labels: str) -> Values:
    """The values of a metric by the values of these labels, those that are 0 included."""
    return {tuple(given[label] for label in labels): value for sample, given, value in samples if sample == name}


@pytest.fixture
def watch(make_app: MakeApp) -> Watch:
    def watch(**environ: str) -> Watched:
        return Watched(make_app(collaborators={"mailer": None}, METRICS_BIND="127.0.0.1:1", **environ))

    return watch


@pytest.mark.parametrize(("sent", "line"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_counts_once_under_what_its_line_in_the_log_shows(watch: Watch, sent: str, line: str) -> None:
    watched, labels = watch(), tuple(line.split())

    watched.ask(sent)

    samples = watched.samples()
    assert samples.all("http_requests_total", "method", "route", "status", "code") == {labels: 1}
    assert samples.all("http_request_duration_seconds_count", "route") == {(labels[1],): 1}
    # Only a POST to a contact path is a form.
    assert samples.sum("contact_submissions_total") == (labels[:2] == ("POST", "/contact.php"))
    assert SECRET not in watched.page.lower()


OWN_WORDS = contact_body(nombre=SECRET, email=SECRET, extra={SECRET: SECRET})
UNKNOWN_HONEYPOT = contact_body(_bp_check="x", form_type=SECRET)
SUBMISSIONS: dict[str, tuple[Any, tuple[str, str]]] = {
    "a visitor's own words": (OWN_WORDS, ("demo", "delivered")),
    "a honeypot": (contact_body(_bp_check="x", form_type="ventas"), ("ventas", "discarded")),
    "a honeypot of unknown kind": (UNKNOWN_HONEYPOT, ("-", "discarded")),
    "too early": (contact_body(ts=0, form_type="distribuidor"), ("distribuidor", "refused")),
    "an unknown kind": (contact_body(form_type=SECRET), ("-", "refused")),
    "a kind of another type": (contact_body(form_type=["demo"]), ("-", "refused")),
    "no JSON": (b"{", ("-", "refused")),
    "a mail server that takes none": (contact_body(form_type="onboarding"), ("onboarding", "failed")),
}
"""Bodies, each with the kind and the outcome under which it counts."""


@pytest.mark.parametrize(("body", "labels"), SUBMISSIONS.values(), ids=SUBMISSIONS)
def test_a_form_counts_once_under_its_kind_and_outcome_and_nothing_of_the_visitor_shows(
    watch: Watch, body: Any, labels: tuple[str, str]
) -> None:
    with SmtpServer({"RCPT": LATER} if labels[1] == "failed" else {}) as relay:
        watched = watch(**relay.environ)
        watched.ask(FORM, body)

    samples = watched.samples()
    assert samples.all("contact_submissions_total", "form_type", "outcome") == {labels: 1}
    assert samples.sum("mail_messages_lost_total") == 0
    assert SECRET not in watched.page.lower()
    assert CLIENT.rpartition(".")[0] not in watched.page


def test_a_form_that_is_neither_delivered_nor_kept_is_lost(watch: Watch, tmp_path: Path) -> None:
    watched = watch(**SmtpServer().environ)  # which does not listen
    (tmp_path / "mail").rename(tmp_path / "away")
    (tmp_path / "mail").touch()

    answer = watched.ask(FORM, contact_body())

    assert member(answer.json, "error.details") == {"kept": False}
    assert watched.samples().sum("mail_messages_lost_total") == 1


@pytest.mark.parametrize(
    ("replies", "count"),
    [
        ({}, 0),
        ({OTHER: LATER}, 1),
        ({OTHER: GONE, THIRD: LATER}, 2),
        ({"RCPT": GONE}, 0),
        ({OTHER: GONE, "DATA": LATER}, 0),
    ],
    ids=["none", "one", "two", "every one", "one, but the message is not taken"],
)
def test_recipients_that_are_refused_beside_an_accepted_one_are_counted(
    watch: Watch, replies: Replies, count: int
) -> None:
    with SmtpServer(replies) as relay:
        watched = watch(**relay.environ | {"SALES_EMAIL": f"ventas@example.com,{OTHER},{THIRD}"})
        watched.ask(FORM, contact_body())

    samples = watched.samples()
    assert every(samples, "mail_recipients_refused_total") == {(): count}
    assert OTHER not in watched.page


def test_without_a_mail_server_a_form_is_stored_and_there_are_no_slots(watch: Watch) -> None:
    watched = watch()

    watched.ask(FORM, contact_body())

    samples = watched.samples()
    assert samples.all("contact_submissions_total", "form_type", "outcome") == {("demo", "stored"): 1}
    assert not any(name.startswith(("mail_slots", "mail_waiting_room")) for name in samples.names())


def test_what_a_quota_refuses_counts_as_a_form_and_under_the_policy(watch: Watch) -> None:
    watched = watch()

    for _ in range(61):
        watched.ask(f"POST {CONTACT}", b"{")

    samples = watched.samples()
    assert samples.all("contact_submissions_total", "form_type", "outcome") == {("-", "refused"): 61}
    # The quota of forms admits the first one; that of all requests refuses the last one.
    assert samples.all("rate_limit_refusals_total", "policy") == {("contact",): 59, ("api",): 1}
    assert every(samples, "rate_limit_clients", "policy") == {("api",): 1, ("contact",): 1}


def test_durations_are_in_seconds(watch: Watch) -> None:
    reply = 0.02
    with SmtpServer(seconds_per_reply=reply) as relay:
        watched = watch(**relay.environ)
        begun = time.perf_counter()
        watched.ask(FORM, contact_body())
        passed = time.perf_counter() - begun

    samples = watched.samples()
    request = samples.sum("http_request_duration_seconds_sum", route="/contact.php")
    assert reply < samples.sum("mail_attempt_duration_seconds_sum", outcome="delivered") < request < passed


def test_what_has_not_happened_yet_is_zero(watch: Watch) -> None:
    """Prometheus sees an increase from the second value on."""
    samples = watch().samples()

    forms = itertools.product((*FORM_TYPES, "-"), ("delivered", "stored", "discarded", "refused", "failed"))
    states = [("delivered",), ("waiting",), ("in_doubt",), ("refused",), ("given_up",)]
    outcomes = [("delivered",), ("failed",)]
    assert every(samples, "contact_submissions_total", "form_type", "outcome") == dict.fromkeys(forms, 0)
    assert every(samples, "mail_messages_lost_total") == {(): 0}
    assert every(samples, "mail_recipients_refused_total") == {(): 0}
    assert every(samples, "rate_limit_refusals_total", "policy") == {("api",): 0, ("contact",): 0}
    assert every(samples, "mail_retries_total", "outcome") == dict.fromkeys(states, 0)
    assert every(samples, "mail_attempt_duration_seconds_count", "outcome") == dict.fromkeys(outcomes, 0)


SELECTORS = set(re.findall(rf'\b([a-z]+_\w+)(?::m\w+)?{{(?:job="{JOB}")?(.*?)}}', RULES.read_text()))
"""The metrics that the shipped rules ask for, by themselves or as the least or greatest of a machine; their labels."""


def test_the_shipped_rules_ask_for_what_is_counted(watch: Watch) -> None:
    watched = watch(**SmtpServer().environ)
    watched.ask(FORM, contact_body())  # which fails
    samples = watched.samples()

    def is_counted(name: str, labels: str) -> bool:
        expected = re.findall(r'(\w+)[!=~]+"(.*?)"', labels)
        found = [given for sample, given, _ in samples if sample == name]
        return any(all(re.fullmatch(value, given[label]) for label, value in expected) for given in found)

    assert SELECTORS
    assert [selector for selector in SELECTORS if not is_counted(*selector)] == []


RETRIES: dict[str, tuple[Replies, str, str]] = {
    "taken": ({}, "delivered", "delivered"),
    "refused for now": ({"RCPT": LATER}, "failed", "waiting"),
    "refused permanently": ({"MAIL": "550 5.7.1 no"}, "failed", "refused"),
    "no answer": ({"message": Act.DROP}, "failed", "in_doubt"),
}


@pytest.mark.parametrize(("replies", "handover", "state"), RETRIES.values(), ids=RETRIES)
def test_a_retry_counts_as_a_hand_over_and_under_the_state_that_the_message_has_then(
    watch: Watch, tmp_path: Path, replies: Replies, handover: str, state: str
) -> None:
    with SmtpServer(replies) as relay:
        watched = watch(**relay.environ)
        claim = Spool(tmp_path / "mail").store(numbered(1))
        with suppress(OSError):
            watched.app.extensions["mailer"].redeliver(claim)

    samples = watched.samples()
    assert samples.all("mail_retries_total", "outcome") == {(state,): 1}
    assert samples.all("mail_attempt_duration_seconds_count", "outcome") == {(handover,): 1}
    claim.release()  # not before, because the service would try it too


def test_messages_are_counted_by_their_state_and_the_oldest_has_an_age(watch: Watch, tmp_path: Path) -> None:
    begun, spool = time.time(), Spool(tmp_path / "mail")
    for number in range(3):
        spool.store(numbered(number)).release()
    samples = watch(**SmtpServer().environ).samples()  # without a server there are no rounds

    assert samples.all("mail_messages", "state") == {("waiting",): 3}
    assert every(samples, "mail_messages", "state").keys() == {(state.replace(" ", "_"),) for state in State}
    assert 0 < samples.sum("mail_oldest_message_age_seconds", state="waiting") < time.time() - begun


BUSY, AWAY = {"connect": "421 4.3.2 busy"}, {"RATE_LIMIT_STORAGE": "redis://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("replies", "environ", "server", "limits"),
    [({}, {}, 1, {("memory",): 1}), (BUSY, AWAY, 0, {("redis",): 0})],
    ids=["all well", "both away"],
)
def test_the_mail_server_and_the_storage_of_the_limits_are_reachable_or_not(
    watch: Watch, replies: Replies, environ: dict[str, str], server: int, limits: Values
) -> None:
    with SmtpServer(replies) as relay:
        samples = watch(**relay.environ, **environ).samples()

    assert every(samples, "mail_check_success", "check") == {("server",): server, ("storage",): 1}
    assert every(samples, "rate_limit_storage_reachable", "storage") == limits


def test_slots_and_waiting_room_are_shown_while_forms_wait(watch: Watch) -> None:
    with ThreadPoolExecutor(3) as visitors, SmtpServer({"MAIL": Act.HANG}) as relay:
        watched = watch(**relay.environ, THREADS="4", SMTP_TIMEOUT="60")
        for number in range(3):
            visitors.submit(watched.ask, FORM, contact_body(), f"192.0.2.{number}")

        wait_until(lambda: watched.samples().sum("mail_waiting_room_in_use") == 1)
        samples = watched.samples()

    room = ("mail_slots", "mail_slots_in_use", "mail_waiting_room", "mail_waiting_room_in_use")
    assert [samples.sum(name) for name in room] == [2, 2, 1, 1]
