"""A real Prometheus reads two real processes of the service while their mail server fails."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.site import unit_environment
from tests.mail.server import SmtpServer
from tests.monitoring.rules import CONFIGURATION, RULES, STEP
from tests.ports import free_port
from tests.server.gunicorn import PATIENCE, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly

NAME = "PublicWebInterfaceMailServerFails"
HURRIED = {"GUNICORN_CMD_ARGS": "--config tests/server/hurried_gunicorn.py", "RETRY_SECONDS": "60"}
INTERVAL, FOR = "500ms", "3s"
"""These take the place of all intervals and of each `for`."""
SELECTORS = re.findall(r"[a-z][a-z0-9_:]+\{[^}]+\}", RULES.read_text())
"""All that the rules ask for, the results of other rules included. Each has series once a form has failed."""


def ask(address: str, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=PATIENCE) as response:
        data: dict[str, Any] = json.load(response)["data"]
        return data


def result(address: str, expression: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = ask(address, f"query?{urllib.parse.urlencode({'query': expression})}")["result"]
    return answer


def states(address: str) -> list[str]:
    """The states of all alerts about the mail server."""
    return [alert["state"] for alert in ask(address, "alerts")["alerts"] if alert["labels"]["alertname"] == NAME]


def is_watching(watch: str, processes: int) -> bool:
    """Whether Prometheus has heard of so many processes that the mail server works."""
    try:
        found = result(watch, 'mail_check_success{check="server"} == 1')
    except OSError:
        return False  # it is not ready
    return len(found) == processes


@contextmanager
def prometheus(directory: Path, targets: Sequence[str]) -> Iterator[str]:
    """The address of one with the shipped configuration and rules, in which targets and times are others."""
    configuration = CONFIGURATION.read_text().replace(f"_interval: {STEP}s\n", f"_interval: {INTERVAL}\n")
    for instance, target in enumerate(targets):
        configuration = configuration.replace(unit_environment(str(instance))["METRICS_BIND"], target)
    file, address = directory / CONFIGURATION.name, f"127.0.0.1:{free_port()}"
    file.write_text(configuration)
    rules = re.sub(r"^( +for:) \d+m$", rf"\1 {FOR}", RULES.read_text(), flags=re.MULTILINE)
    (directory / RULES.name).write_text(rules)
    options = [f"--config.file={file}", f"--storage.tsdb.path={directory}/data", f"--web.listen-address={address}"]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *options], stdout=log, stderr=subprocess.STDOUT)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_an_outage_of_the_mail_server_is_one_alert_until_it_is_over(tmp_path: Path) -> None:
    targets = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    mail_server = SmtpServer()
    environ = mail_server.environ | HURRIED | {"MAIL_DIR": str(tmp_path / "mail")}

    with ExitStack() as stack:
        with mail_server:
            for target in targets:
                (directory := tmp_path / target).mkdir()
                server = stack.enter_context(serving(directory, **environ, METRICS_BIND=target))
            watch = stack.enter_context(prometheus(tmp_path, targets))
            wait_until(lambda: is_watching(watch, len(targets)), seconds=2 * PATIENCE)
            assert states(watch) == []
        wait_until(lambda: states(watch) == ["firing"], seconds=2 * PATIENCE)
        server.post_form()
        wait_until(lambda: all(result(watch, selector) for selector in SELECTORS), seconds=2 * PATIENCE)
        with mail_server:
            wait_until(lambda: states(watch) == [], seconds=2 * PATIENCE)
