"""A real Prometheus reads two real processes of the service while their mail server fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.site import unit_environment
from tests.factories import contact_body
from tests.mail.server import SmtpServer
from tests.monitoring.prometheus import FOR, Prometheus, prometheus
from tests.monitoring.rules import RULES
from tests.ports import free_port
from tests.server.gunicorn import PATIENCE, serving

pytestmark = pytest.mark.nightly

NAME = "PublicWebInterfaceMailServerFails"
STATES = {"waiting", "in_doubt", "refused", "given_up", "stored"}
JSON = {"Content-Type": "application/json"}
HURRIED = {"GUNICORN_CMD_ARGS": "--config tests/server/hurried_gunicorn.py", "RETRY_SECONDS": "60"}


def test_an_outage_of_the_mail_server_is_one_alert_until_it_is_over(tmp_path: Path) -> None:
    shipped = [unit_environment(instance)["METRICS_BIND"] for instance in ("0", "1")]
    targets = [f"127.0.0.1:{free_port()}" for _ in shipped]
    mail_server = SmtpServer()

    with ExitStack() as stack:
        with mail_server:
            environ = mail_server.environ | HURRIED | {"MAIL_DIR": str(tmp_path / "mail")}
            servers = []
            for instance, target in enumerate(targets):
                directory = tmp_path / str(instance)
                directory.mkdir()
                runtime = {"METRICS_BIND": target}
                servers.append(stack.enter_context(serving(directory, **environ | runtime)))
            watch = stack.enter_context(prometheus(tmp_path, shipped, targets))
            watch.wait_until(lambda: watch.value('sum(mail_check_success{check="server"})') == len(targets))
            assert watch.alerts(NAME) == []
        watch.wait_until(lambda: is_firing(watch))
        servers[0].request("POST", "/contact.php", json.dumps(contact_body()).encode(), JSON)
        watch.wait_until(lambda: all(map(watch.query, selectors())))
        assert {series["metric"]["state"] for series in watch.query("mail_messages")} == STATES
        (before,) = watch.alerts(NAME)
        servers[1].process.kill()
        servers[1].process.wait(PATIENCE)
        watch.wait_until(lambda: watch.value("sum(up)") == 1)
        evaluated = evaluations(watch)
        watch.wait_until(lambda: evaluations(watch) > evaluated + 3)
        (after,) = watch.alerts(NAME)
        assert (after["state"], after["activeAt"]) == ("firing", before["activeAt"])
        with mail_server:
            watch.wait_until(lambda: watch.alerts(NAME) == [])
            (pending,) = times(watch, "pending")
            (firing,) = times(watch, "firing")

    assert round(firing[0] - pending[0], 3) >= float(FOR.removesuffix("s"))


def selectors() -> list[str]:
    """All that the rules ask for, the results of other rules included. Each has series once a form has failed."""
    return re.findall(r"[a-z][a-z0-9_:]+\{[^}]+\}", RULES.read_text())


def is_firing(watch: Prometheus) -> bool:
    return [alert["state"] for alert in watch.alerts(NAME)] == ["firing"]


def evaluations(watch: Prometheus) -> float:
    return watch.value(f'sum(count_over_time(ALERTS{{alertname="{NAME}"}}[10m]))') or 0


def times(watch: Prometheus, state: str) -> Iterator[list[float]]:
    """The times at which Prometheus found the alert in that state, for each of its series."""
    for series in watch.query(f'ALERTS{{alertname="{NAME}", alertstate="{state}"}}[10m]'):
        yield [float(time) for time, _ in series["values"]]
