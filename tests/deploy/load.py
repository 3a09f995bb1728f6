"""Clients that keep asking while something happens to the service."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.deploy.site import Site
from tests.factories import contact_body
from tests.server.gunicorn import unused_address
from tests.versions import CONTACT, HEALTH
from tests.waiting import wait_until

CLIENTS_OF_EACH_KIND = 4


@dataclass
class Load:
    """What the clients met, so far."""

    answers: list[tuple[str, str]] = field(default_factory=list)
    """Each method with its outcome: the status with the error's code, or what broke."""

    @property
    def outcomes(self) -> Counter[tuple[str, str]]:
        return Counter(self.answers)

    def wait_for(self, answers: int) -> None:
        """Return after so many more answers of each kind."""
        before = len(self.answers)

        def are_there() -> bool:
            methods = Counter(method for method, _ in self.answers[before:])
            return min(methods["GET"], methods["POST"]) >= answers

        wait_until(are_there, seconds=60)


@contextmanager
def load(served: Site) -> Iterator[Load]:
    """Clients that read and clients that send forms, each request from an address and on a connection of its own."""
    load = Load()
    stop = threading.Event()

    def work(method: str, path: str, body: dict[str, Any] | None) -> None:
        while not stop.is_set():
            try:
                answer = served.request(method, path, client=unused_address(), body=body)
                outcome = f"{answer.status} {answer.code or ''}".rstrip()
            except Exception as error:  # noqa: BLE001 - whatever breaks is the outcome
                outcome = repr(error)
            load.answers.append((method, outcome))

    with ThreadPoolExecutor(2 * CLIENTS_OF_EACH_KIND) as pool:
        for _ in range(CLIENTS_OF_EACH_KIND):
            pool.submit(work, "GET", HEALTH, None)
            pool.submit(work, "POST", CONTACT, contact_body())
        try:
            yield load
        finally:
            stop.set()
