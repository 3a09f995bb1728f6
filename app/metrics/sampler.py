"""The state of the parts of a process, which is read once a second and once more for each scrape."""

from __future__ import annotations

import time
from typing import Literal

from prometheus_client import Gauge

from app.api.quotas import Limits
from app.mail.health import OK, MailHealth
from app.mail.kept import State
from app.mail.mailer import Mailer
from app.mail.redelivery import Redelivery
from app.ratelimit.storage import Storage


def label(state: State) -> str:
    """The state of a kept message as the value of a label."""
    return state.replace(" ", "_")


class Sampler:
    """Reads the state of the parts of this process into gauges.

    Several workers have one number each. All of them read the same MAIL_DIR, so there the newest number is shown. Of
    checks the worst one is shown, and of places the sum.
    """

    def __init__(
        self,
        *,
        mailer: Mailer,
        health: MailHealth,
        redelivery: Redelivery,
        limits: Limits,
        storage: Storage,
    ) -> None:
        self._health = health
        self._redelivery = redelivery
        self._storage = storage

        def gauge(
            name: str, text: str, *labels: str, mode: Literal["livemostrecent", "livemin", "livesum", "liveall"]
        ) -> Gauge:
            return Gauge(name, text, labels, multiprocess_mode=mode, registry=None)

        self._messages = gauge(
            "mail_messages",
            "Messages kept in MAIL_DIR. Each instance of a machine counts them all.",
            "state",
            mode="livemostrecent",
        )
        self._ages = gauge(
            "mail_oldest_message_age_seconds", "Age of the oldest message kept, or 0.", "state", mode="livemostrecent"
        )
        self._checks = gauge(
            "mail_check_success",
            "1 while the mail server accepts a login (server) or MAIL_DIR a message (storage), else 0.",
            "check",
            mode="livemin",
        )
        self._in_reach = gauge(
            "rate_limit_storage_in_reach",
            "1 while the storage makes the decisions; 0 while the process makes them by itself.",
            "storage",
            mode="livemin",
        )
        clients = gauge("rate_limit_clients", "Clients that the process remembers.", "policy", mode="liveall")
        self._clients = [(clients.labels("api"), limits.api), (clients.labels("contact"), limits.contact)]
        self._bulkhead = mailer.bulkhead if mailer.sender else None
        if self._bulkhead is not None:
            places = gauge("mail_places", "Forms that may be at the mail server at once.", mode="livesum")
            places.set(self._bulkhead.slots)
            self._in_use = gauge("mail_places_in_use", "Forms that are at the mail server.", mode="livesum")
            room = gauge("mail_waiting_room", "Forms that may wait for a place at once.", mode="livesum")
            room.set(self._bulkhead.waiting_room)
            self._waiting = gauge("mail_waiting_room_in_use", "Forms that wait for a place.", mode="livesum")

    def sample(self) -> None:
        """Read everything once."""
        if self._redelivery.loop.first_done.is_set():
            census, now = self._redelivery.census, time.time()
            for state in State:
                oldest = census.oldest.get(state, now)
                self._messages.labels(label(state)).set(census.counts[state])
                self._ages.labels(label(state)).set(max(0.0, now - oldest))
        mail = self._health.latest()
        for check, result in (("server", mail.server), ("storage", mail.disk)):
            if result is not None:
                self._checks.labels(check).set(result == OK)
        self._in_reach.labels(self._storage.name).set(self._storage.in_reach)
        for gauge, limiter in self._clients:
            gauge.set(len(limiter))
        if self._bulkhead is not None:
            self._in_use.set(self._bulkhead.slots_taken)
            self._waiting.set(self._bulkhead.waiting)
