"""The numbers that grow with each request and each message.

Under gunicorn the values lie in files that all workers read and that outlive them (prometheus_client's multiprocess
mode). No label has a value that a client could choose freely.
"""

from __future__ import annotations

import time
from functools import cache
from http import HTTPStatus

from prometheus_client import Counter, Histogram

from app.api.quotas import Limits
from app.api.request import Request
from app.api.request_log import method_of
from app.contact.submission import FORM_TYPES, UNKNOWN_FORM_TYPE, Outcome
from app.errors import ErrorCode
from app.mail.health import MailHealth
from app.mail.kept import State
from app.mail.mailer import Mailer, Observer
from app.mail.redelivery import Redelivery
from app.metrics.exporter import Exporter
from app.metrics.sampler import Sampler, label
from app.ratelimit.storage import Storage

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 11, 30)
"""The upper bounds of the buckets. A contact form waits for the mail server, and is over just after 10 s by default."""

DELIVERED, FAILED = "delivered", "failed"

POLICIES: dict[str, str] = {ErrorCode.RATE_LIMIT_EXCEEDED: "api", ErrorCode.RATE_LIMIT: "contact"}
"""The name of the policy that refuses with each code."""


class Recorder(Observer):
    """Counts requests, submissions and hand-overs; any thread may call it."""

    def __init__(self, contact_paths: frozenset[str]) -> None:
        self._contact_paths = contact_paths
        requests = Counter(
            "http_requests",
            "Answered requests; code is the error.code, or - without an error.",
            ["method", "route", "status", "code"],
            registry=None,
        )
        durations = Histogram(
            "http_request_duration_seconds",
            "Time from the head of a request to its answer.",
            ["route"],
            buckets=SECONDS,
            registry=None,
        )

        @cache
        def meters(method: str, route: str, status: int, code: str) -> tuple[Counter, Histogram]:
            return requests.labels(method, route, status, code), durations.labels(route)

        self._meters = meters  # to look them up takes twice as long as to count with them
        self._submissions = Counter(
            "contact_submissions",
            "Contact forms: delivered, stored (without SMTP_HOST), discarded (honeypot), refused (4xx), failed (5xx).",
            ["form_type", "outcome"],
            registry=None,
        )
        self._refusals = Counter("rate_limit_refusals", "Requests that a quota refused.", ["policy"], registry=None)
        self._handovers = Histogram(
            "mail_handover_duration_seconds",
            "Time from a message to the mail server's answer, in first and later attempts.",
            ["outcome"],
            buckets=SECONDS,
            registry=None,
        )
        self._retries = Counter(
            "mail_retries", "Later attempts, by the state of the message afterwards.", ["outcome"], registry=None
        )
        self._lost = Counter(
            "mail_messages_lost", "Messages that were neither delivered nor kept in MAIL_DIR.", registry=None
        )
        # An increase is seen from the first value on. So each of these has one before anything happens.
        for form_type in (*FORM_TYPES, UNKNOWN_FORM_TYPE):
            for outcome in Outcome:
                self._submissions.labels(form_type, outcome)
        for policy in POLICIES.values():
            self._refusals.labels(policy)
        for result in (DELIVERED, FAILED):
            self._handovers.labels(result)
        for result in (DELIVERED, *(label(state) for state in State if state is not State.STORED)):
            self._retries.labels(result)

    def count(self, request: Request, status: int) -> None:
        """Count a request and, if it sends a form, the submission."""
        code = request.error_code
        requests, durations = self._meters(method_of(request), request.route, status, code)
        requests.inc()
        durations.observe(time.perf_counter() - request.begun)
        if request.method == "POST" and request.path in self._contact_paths:
            fault = Outcome.FAILED if status >= HTTPStatus.INTERNAL_SERVER_ERROR else Outcome.REFUSED
            self._submissions.labels(request.form_type, request.outcome or fault).inc()
        if code in POLICIES:
            self._refusals.labels(POLICIES[code]).inc()

    def handed_over(self, seconds: float, *, delivered: bool) -> None:
        """Count an attempt to hand over a message."""
        self._handovers.labels(DELIVERED if delivered else FAILED).observe(seconds)

    def retried(self, state: State | None) -> None:
        """Count a later attempt, which leaves the message in this state; None when it is delivered."""
        self._retries.labels(DELIVERED if state is None else label(state)).inc()

    def lost(self) -> None:
        """Count a message that is neither delivered nor kept."""
        self._lost.inc()

    def exporter(
        self, *, mailer: Mailer, health: MailHealth, redelivery: Redelivery, limits: Limits, storage: Storage
    ) -> Exporter:
        """The server of these metrics, and of the state of the parts that it is given."""
        sampler = Sampler(
            mailer=mailer,
            health=health,
            redelivery=redelivery,
            limits=limits,
            storage=storage,
        )
        return Exporter(sampler.sample)
