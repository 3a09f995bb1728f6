"""What happens to requests while the service is reloaded, upgraded or stopped."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deploy.load import Load, load
from tests.deploy.site import INSTANCES, Site, site
from tests.mail.server import SmtpServer
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

ALL_WELL = {("GET", "200"), ("POST", "200")}
REFUSED = {("GET", "500 internal_error"), ("POST", "500 internal_error")}
ANSWERS = 50


@pytest.fixture
def mail() -> Iterator[SmtpServer]:
    """It takes a message after a while, so that some are always under way."""
    with SmtpServer(on_message=lambda: time.sleep(0.1)) as mail:
        yield mail


@pytest.fixture
def served(tmp_path: Path, mail: SmtpServer) -> Iterator[Site]:
    with site(tmp_path, *INSTANCES, environ=mail.environ) as served:
        yield served


def assert_each_message_arrived_once(mail: SmtpServer, load: Load) -> None:
    contents = b"".join(arrival.content for arrival in mail.arrivals)
    identifiers = re.findall(rb"^Message-ID: (.*)\r$", contents, re.MULTILINE)

    assert len(identifiers) == len(set(identifiers)) == load.outcomes["POST", "200"]


def reload(served: Site, instance: str) -> None:
    old = served.worker(instance)
    served.instances[instance].send_signal(signal.SIGHUP)
    wait_until(lambda: not Path(f"/proc/{old}").exists())


def restart(served: Site, instance: str) -> None:
    served.stop(instance)
    served.start(instance)


@pytest.mark.parametrize("renew", [reload, restart])
def test_no_request_fails_while_one_process_after_the_other_is_renewed(
    served: Site, mail: SmtpServer, renew: Callable[[Site, str], None]
) -> None:
    with load(served) as clients:
        for instance in INSTANCES * 2:
            clients.wait_for(ANSWERS)
            renew(served, instance)
        clients.wait_for(ANSWERS)

    assert clients.outcomes.keys() == ALL_WELL
    assert_each_message_arrived_once(mail, clients)


def test_a_stop_fails_no_request_that_was_accepted(served: Site, mail: SmtpServer) -> None:
    with load(served) as clients:
        clients.wait_for(ANSWERS)
        served.stop(*INSTANCES)
        clients.wait_for(ANSWERS)

    # Those that came afterwards were told so, and nothing of theirs was begun.
    assert clients.outcomes.keys() == ALL_WELL | REFUSED
    assert_each_message_arrived_once(mail, clients)
    assert list((served.directory / "mail" / "new").iterdir()) == []
