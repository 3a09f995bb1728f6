"""Clients that keep asking while something happens to the service."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.deploy.site import SERVER_NAME, Site
from tests.factories import contact_body
from tests.waiting import wait_until

CONNECTIONS_OF_A_CLIENT = 32
CLIENTS_OF_EACH_KIND = 4

_clients = (f"127.{a}.{b}.{c}" for a, b, c in itertools.product(range(64, 255), range(256), range(1, 255)))
_next = threading.Lock()


def new_client() -> str:
    """An address that no other request has."""
    with _next:
        return next(_clients)


@contextmanager
def holding_connections(site: Site, client: str, named: Mapping[str, str] | None = None) -> Iterator[None]:
    """The client has as many connections as it may, each with a form that is begun and never ends.

    ``named`` are header fields that tell nginx who the client is.
    """
    fields = {"Host": SERVER_NAME, "Content-Length": "999", "Expect": "100-continue"} | dict(named or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with ExitStack() as stack:
        for _ in range(CONNECTIONS_OF_A_CLIENT):
            connection = stack.enter_context(site.connect(client))
            connection.sendall(f"POST /contact.php HTTP/1.1\r\n{head}\r\n".encode())
            # nginx says so once it has counted the connection.
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        assert site.request("GET", "/api", client=client, headers=named).code == "internal_error"
        yield


@dataclass
class Load:
    """What the clients met, so far."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a method had an outcome: the status with the error's code, or what broke."""

    def answered(self, method: str) -> int:
        return sum(count for (asked, _), count in list(self.outcomes.items()) if asked == method)

    def wait_for(self, answers: int) -> None:
        """Return after so many more answers of each kind."""
        wanted = {method: self.answered(method) + answers for method in ("GET", "POST")}
        wait_until(lambda: all(self.answered(method) >= count for method, count in wanted.items()), seconds=60)


@contextmanager
def load(served: Site) -> Iterator[Load]:
    """Clients that read and clients that send forms, each request from an address and on a connection of its own."""
    load = Load()
    stop = threading.Event()
    lock = threading.Lock()

    def ask(method: str) -> str:
        body = contact_body() if method == "POST" else None
        path = "/api/v1/contact" if method == "POST" else "/api/v1/health"
        try:
            answer = served.request(method, path, client=new_client(), body=body)
        except Exception as error:  # noqa: BLE001 - whatever breaks is the outcome
            return repr(error)
        return f"{answer.status} {answer.code or ''}".rstrip()

    def work(method: str) -> None:
        while not stop.is_set():
            outcome = ask(method)
            with lock:
                load.outcomes[method, outcome] += 1

    with ThreadPoolExecutor(2 * CLIENTS_OF_EACH_KIND) as pool:
        for method in ["GET", "POST"] * CLIENTS_OF_EACH_KIND:
            pool.submit(work, method)
        try:
            yield load
        finally:
            stop.set()
