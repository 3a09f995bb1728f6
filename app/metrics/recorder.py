"""The numbers that the metrics show. No label has a value that a client could choose freely."""

import resource
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram

from app.api.quotas import Limits
from app.api.request import Request
from app.api.request_log import method_of
from app.contact.submission import FORM_TYPES, UNKNOWN_FORM_TYPE, Outcome
from app.errors import ErrorCode
from app.mail.health import OK, MailHealth
from app.mail.kept import State
from app.mail.mailer import Mailer, Observer
from app.mail.redelivery import Redelivery
from app.metrics.exporter import Exporter
from app.ratelimit.storage import Storage

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 11, 30)
"""The upper bounds of the buckets. A contact form waits for the mail server, and is over just after 10 s by default."""

STATES = {state: state.replace(" ", "_") for state in State}
"""The states of a kept message as the values of a label."""

POLICIES: dict[str, str] = {ErrorCode.RATE_LIMIT_EXCEEDED: "api", ErrorCode.RATE_LIMIT: "contact"}
"""The name of the policy that refuses with each code."""

# Without a registry: exporter.py reads every value from the files of files.py.
_counter = partial(Counter, registry=None)
_histogram = partial(Histogram, buckets=SECONDS, registry=None)


class Recorder(Observer):
    """Counts requests, submissions and hand-overs; any thread may call it."""

    def __init__(self, contact_paths: frozenset[str]) -> None:
        self._contact_paths = contact_paths
        self._requests = _counter(
            "http_requests",
            "Answered requests; code is the error.code, or - without an error.",
            ["method", "route", "status", "code"],
        )
        self._durations = _histogram(
            "http_request_duration_seconds", "Time from a request's head to its answer.", ["route"]
        )
        self._submissions = _counter(
            "contact_submissions",
            "Contact forms: delivered, stored (without SMTP_HOST), discarded (honeypot), refused (4xx), failed (5xx).",
            ["form_type", "outcome"],
        )
        self._refusals = _counter("rate_limit_refusals", "Requests that a quota refused.", ["policy"])
        self._handovers = _histogram(
            "mail_handover_duration_seconds",
            "Time from a message to the mail server's answer, in first and later attempts.",
            ["outcome"],
        )
        self._retries = _counter("mail_retries", "Later attempts, by the state of the message afterwards.", ["outcome"])
        self._lost = _counter("mail_messages_lost", "Messages that were neither delivered nor kept in MAIL_DIR.")
        # An increase is seen from the first value on. So each of these has one before anything happens.
        for form_type in (*FORM_TYPES, UNKNOWN_FORM_TYPE):
            for outcome in Outcome:
                self._submissions.labels(form_type, outcome)
        for policy in POLICIES.values():
            self._refusals.labels(policy)
        for result in ("delivered", "failed"):
            self._handovers.labels(result)
        for result in ("delivered", *(STATES[state] for state in State if state is not State.STORED)):
            self._retries.labels(result)

    def count(self, request: Request, status: int) -> None:
        """Count a request and, if it sends a form, the submission."""
        code = request.error_code
        self._requests.labels(method_of(request), request.route, status, code).inc()
        self._durations.labels(request.route).observe(time.perf_counter() - request.begun)
        if request.method == "POST" and request.path in self._contact_paths:
            fault = Outcome.FAILED if status >= HTTPStatus.INTERNAL_SERVER_ERROR else Outcome.REFUSED
            self._submissions.labels(request.form_type, request.outcome or fault).inc()
        if code in POLICIES:
            self._refusals.labels(POLICIES[code]).inc()

    def handed_over(self, seconds: float, *, delivered: bool) -> None:
        """Count an attempt to hand over a message."""
        self._handovers.labels("delivered" if delivered else "failed").observe(seconds)

    def retried(self, state: State | None) -> None:
        """Count a later attempt, which leaves the message in this state; None when it is delivered."""
        self._retries.labels("delivered" if state is None else STATES[state]).inc()

    def lost(self) -> None:
        """Count a message that is neither delivered nor kept."""
        self._lost.inc()

    def exporter(
        self, *, mailer: Mailer, health: MailHealth, redelivery: Redelivery, limits: Limits, storage: Storage
    ) -> Exporter:
        """The server of these metrics, and of the state of the parts that it is given, in gauges.

        Several workers have one number each. All of them read the same MAIL_DIR, so there the newest number is shown.
        Of checks the worst one is shown, and of places the sum.
        """
        newest, worst, added_up, each = (
            partial(Gauge, multiprocess_mode=mode, registry=None)
            for mode in ("livemostrecent", "livemin", "livesum", "liveall")
        )
        messages = newest(
            "mail_messages", "Messages in MAIL_DIR. Each instance of a machine counts them all.", ["state"]
        )
        ages = newest("mail_oldest_message_age_seconds", "Age of the oldest message kept, or 0.", ["state"])
        checks = worst(
            "mail_check_success",
            "1 while the mail server accepts a login (server) or MAIL_DIR a message (storage), else 0.",
            ["check"],
        )
        in_reach = worst(
            "rate_limit_storage_in_reach",
            "1 while the storage makes the decisions; 0 while the process makes them by itself.",
            ["storage"],
        )
        clients = each("rate_limit_clients", "Clients that the process remembers.", ["policy"])
        others: list[tuple[Gauge, Callable[[], float]]] = [
            (in_reach.labels(storage.name), lambda: storage.in_reach),
            *((clients.labels(name), partial(len, limiter)) for name, limiter in limits._asdict().items()),
            (each("process_resident_memory_bytes", "Memory of the process."), _resident_memory),
        ]
        if mailer.sender:
            bulkhead = mailer.bulkhead
            others += [
                (added_up("mail_places", "Forms that may be at the mail server at once."), lambda: bulkhead.slots),
                (added_up("mail_places_in_use", "Forms that are at the mail server."), lambda: bulkhead.slots_taken),
                (added_up("mail_waiting_room", "Forms that may wait for a place."), lambda: bulkhead.waiting_room),
                (added_up("mail_waiting_room_in_use", "Forms that wait for a place."), lambda: bulkhead.waiting),
            ]

        def sample() -> None:
            if redelivery.loop.first_done.is_set():
                census, now = redelivery.census, time.time()
                for state in State:
                    messages.labels(STATES[state]).set(census.counts[state])
                    ages.labels(STATES[state]).set(max(0.0, now - census.oldest.get(state, now)))
            mail = health.latest()
            for check, result in (("server", mail.server), ("storage", mail.disk)):
                if result is not None:
                    checks.labels(check).set(result == OK)
            for gauge, read in others:
                gauge.set(read())

        return Exporter(sample)


def _resident_memory() -> int:
    """Bytes of this process that lie in memory (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
