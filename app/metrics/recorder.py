"""The metrics of the service. Clients choose no label value."""

import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from http.server import ThreadingHTTPServer

from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import MetricsHandler

from app.api.quotas import Limits
from app.api.request import Request
from app.errors import ErrorCode
from app.forms import FORM_TYPES, UNKNOWN_FORM_TYPE, Outcome
from app.mail.health import MailHealth
from app.mail.mailer import Mailer, Observer
from app.mail.queued import State
from app.mail.redelivery import Redelivery
from app.ratelimit.window import Storage
from app.release import RELEASE

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 11, 30)
"""The upper bounds of the buckets. A contact form waits for the mail server, and is over just after 10 s by default."""

STATES = {state: state.replace(" ", "_") for state in State}  # the states of a queued message as the values of a label

POLICIES: dict[str, str] = {ErrorCode.RATE_LIMIT_EXCEEDED: "api", ErrorCode.RATE_LIMIT: "contact"}
"""The name of the policy that refuses with each code."""


class Recorder(Observer):
    """Counts requests, submissions and delivery attempts, and serves the numbers; any thread may call it."""

    def __init__(self, contact_paths: frozenset[str]) -> None:
        self._contact_paths = contact_paths
        self.registry = registry = CollectorRegistry()
        registry.register(PLATFORM_COLLECTOR)
        registry.register(PROCESS_COLLECTOR)
        Info("service", "The release that the service runs.", registry=registry).info({"version": RELEASE})
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, buckets=SECONDS, registry=registry)
        self._requests = counter(
            "http_requests",
            "Requests; code is the error.code, or - without an error.",
            ["method", "route", "status", "code"],
        )
        self._durations = histogram("http_request_duration_seconds", "Time from a request to its response.", ["route"])
        self._submissions = counter(
            "contact_submissions",
            "Contact forms: delivered, stored (without SMTP_HOST), discarded (honeypot), refused (4xx), failed (5xx).",
            ["form_type", "outcome"],
        )
        self._refusals = counter("rate_limit_refusals", "Requests that a quota refused.", ["policy"])
        self._attempts = histogram("mail_attempt_duration_seconds", "Duration of any delivery attempt.", ["outcome"])
        self._retries = counter("mail_retries", "Retries, by the state of the message afterwards.", ["outcome"])
        self._refused = counter(
            "mail_recipients_refused",
            "Recipients that were refused while the mail server took the message for others.",
        )
        self._lost = counter("mail_messages_lost", "Messages that were neither delivered nor kept in MAIL_DIR.")
        # Prometheus sees an increase only after a first value, so every series starts at 0.
        for form_type in (*FORM_TYPES, UNKNOWN_FORM_TYPE):
            for outcome in Outcome:
                self._submissions.labels(form_type, outcome)
        for policy in POLICIES.values():
            self._refusals.labels(policy)
        for result in ("delivered", "failed"):
            self._attempts.labels(result)
        for result in ("delivered", *(STATES[state] for state in State if state is not State.STORED)):
            self._retries.labels(result)

    def count(self, request: Request, status: int) -> None:
        """Count a request and, if it sends a form, the submission."""
        code = request.error_code
        self._requests.labels(request.method_name, request.route, status, code).inc()
        self._durations.labels(request.route).observe(time.perf_counter() - request.started_at)
        if request.method == "POST" and request.path in self._contact_paths:
            failure = Outcome.FAILED if status >= HTTPStatus.INTERNAL_SERVER_ERROR else Outcome.REFUSED
            self._submissions.labels(request.form_type, request.outcome or failure).inc()
        if code in POLICIES:
            self._refusals.labels(POLICIES[code]).inc()

    def attempted(self, seconds: float, *, delivered: bool) -> None:
        """Count a delivery attempt."""
        self._attempts.labels("delivered" if delivered else "failed").observe(seconds)

    def recipients_refused(self, number: int) -> None:
        """Count refused recipients of a message that others get."""
        self._refused.inc(number)

    def retried(self, state: State | None) -> None:
        """Count a later attempt, which leaves the message in this state; None when it is delivered."""
        self._retries.labels("delivered" if state is None else STATES[state]).inc()

    def lost(self) -> None:
        """Count a message that is neither delivered nor kept."""
        self._lost.inc()

    def watch(
        self, *, mailer: Mailer, health: MailHealth, redelivery: Redelivery, limits: Limits, storage: Storage
    ) -> None:
        """Show the state of these parts in gauges that are read at each scrape."""
        gauge = partial(Gauge, registry=self.registry)

        def show(name: str, what: str, label: str, reads: Mapping[str, Callable[[], float]]) -> None:
            by_label = gauge(name, what, [label])
            for value, read in reads.items():
                by_label.labels(value).set_function(read)

        def count(state: State) -> float:
            return redelivery.counts.by_state[state]

        def age(state: State) -> float:
            return redelivery.counts.age(state, time.time())

        messages = "Messages in MAIL_DIR. Each instance on a machine counts them all."
        show("mail_messages", messages, "state", {STATES[state]: partial(count, state) for state in State})
        oldest = "Age of the oldest message; 0 if none."
        show(
            "mail_oldest_message_age_seconds", oldest, "state", {STATES[state]: partial(age, state) for state in State}
        )
        checks = "1 while the check of the mail server (server) or MAIL_DIR (storage) passes, else 0."
        show("mail_check_success", checks, "check", {check.subject: check.passes for check in health.checks})
        reachable = "1 while the storage makes the decisions; 0 while the process makes them on its own."
        show("rate_limit_storage_reachable", reachable, "storage", {storage.name: lambda: storage.is_reachable})
        clients = {name: limiter.__len__ for name, limiter in limits._asdict().items()}
        show("rate_limit_clients", "Clients that the process tracks.", "policy", clients)
        if mailer.sender:
            room = mailer.bulkhead
            gauge("mail_slots", "Forms that may be sent at once.").set_function(lambda: room.slots)
            gauge("mail_slots_in_use", "Forms that are being sent now.").set_function(lambda: room.slots_taken)
            gauge("mail_waiting_room", "Forms that may wait for a slot.").set_function(lambda: room.waiting_room)
            gauge("mail_waiting_room_in_use", "Forms that wait for a slot.").set_function(lambda: room.waiting)

    def serve(self, listener: socket.socket) -> None:
        """Serve Prometheus in separate threads, even while all others are busy."""
        server = ThreadingHTTPServer(("", 0), _Handler.factory(self.registry), bind_and_activate=False)
        server.socket.close()
        server.socket = listener
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


class _Handler(MetricsHandler):
    timeout = 5  # seconds that a scraper may be silent; it holds a thread and a descriptor
