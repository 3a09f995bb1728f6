"""What happens to requests while the service is reloaded, upgraded or stopped."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
