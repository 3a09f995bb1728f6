"""What happens to requests while the service is reloaded, upgraded or stopped, or a rude client resets its own."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from h2.connection import H2Connection
from h2.events import PingAckReceived

from tests.deploy.load import CONNECTIONS_OF_A_CLIENT, Load, load
from tests.deploy.site import INSTANCES, SERVER_NAME, Site, site
from tests.mail.server import SmtpServer
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

ALL_WELL = {("GET", "200"), ("POST", "200")}
REFUSED = {("GET", "500 internal_error"), ("POST", "500 internal_error")}
ANSWERS = 50
RESETS = 60
"""In one write. nginx closes a connection that sends it more than twice its limit of streams at once."""


@dataclass(frozen=True)
class UnderLoad:
    """A site, and the mail server to which it delivers."""

    site: Site
    mail: SmtpServer

    def assert_each_message_arrived_once(self, load: Load) -> None:
        contents = b"".join(mail.content for mail in self.mail.arrivals)
        identifiers = re.findall(rb"^Message-ID: (.*)\r$", contents, re.MULTILINE)

        assert len(identifiers) == len(set(identifiers)) == load.outcomes["POST", "200"]


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[UnderLoad]:
    # The server takes a message after a while, so that some are always under way.
    with (
        SmtpServer(on_message=lambda: time.sleep(0.1)) as mail,
        site(tmp_path, *INSTANCES, environ=mail.environ) as served,
    ):
        yield UnderLoad(served, mail)


def reload(served: Site, instance: str) -> None:
    old = served.worker(instance)
    served.instances[instance].send_signal(signal.SIGHUP)
    wait_until(lambda: not Path(f"/proc/{old}").exists())


def restart(served: Site, instance: str) -> None:
    served.stop(instance)
    served.start(instance)


@pytest.mark.parametrize("renew", [reload, restart])
def test_no_request_fails_while_one_process_after_the_other_is_renewed(
    loaded: UnderLoad, renew: Callable[[Site, str], None]
) -> None:
    with load(loaded.site) as clients:
        for instance in INSTANCES * 2:
            clients.wait_for(ANSWERS)
            renew(loaded.site, instance)
        clients.wait_for(ANSWERS)

    assert clients.outcomes.keys() == ALL_WELL
    loaded.assert_each_message_arrived_once(clients)


def test_a_stop_fails_no_request_that_was_accepted(loaded: UnderLoad) -> None:
    with load(loaded.site) as clients:
        clients.wait_for(ANSWERS)
        loaded.site.stop(*INSTANCES)
        clients.wait_for(ANSWERS)

    # Those that came afterwards were told so, and nothing of theirs was begun.
    assert clients.outcomes.keys() == ALL_WELL | REFUSED
    loaded.assert_each_message_arrived_once(clients)
    assert list((loaded.site.directory / "mail" / "new").iterdir()) == []


def test_resets_over_http_2_free_no_place_in_the_service(tmp_path: Path) -> None:
    with site(tmp_path, "0") as served:
        worker = served.worker("0")
        os.kill(worker, signal.SIGSTOP)  # no request ends in the meantime
        try:
            before = served.sockets("0")
            for _ in range(3):
                open_and_reset(served)
            taken = served.sockets("0") - before
        finally:
            os.kill(worker, signal.SIGCONT)

    assert taken == CONNECTIONS_OF_A_CLIENT


def open_and_reset(served: Site) -> None:
    """Requests that are reset in the same write, on a connection of their own; return once nginx has read them."""
    fields = [(":method", "GET"), (":scheme", "https"), (":authority", SERVER_NAME), (":path", "/api/v1/health")]
    http_2 = served.tls()
    http_2.set_alpn_protocols(["h2"])
    state = H2Connection()
    state.initiate_connection()
    for stream in range(1, 2 * RESETS, 2):
        state.send_headers(stream, fields, end_stream=True)
        state.reset_stream(stream)
    state.ping(bytes(8))
    with served.connect(tls=http_2) as connection:
        connection.sendall(state.data_to_send())
        has_read = False
        while not has_read:
            received = connection.recv(65_536)
            assert received
            has_read = any(isinstance(event, PingAckReceived) for event in state.receive_data(received))
