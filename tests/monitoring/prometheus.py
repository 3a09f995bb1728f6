"""A real Prometheus with the shipped configuration and rules, in which only the times are shorter."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.monitoring.rules import CONFIGURATION, RULES, STEP
from tests.ports import free_port

PATIENCE = 60
INTERVAL, FOR = "500ms", "3s"
"""These take the place of all intervals and of each `for`."""


@dataclass(frozen=True)
class Prometheus:
    address: str
    process: subprocess.Popen[bytes]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an expression as the HTTP API gives it."""
        answer = self._ask(f"query?{urllib.parse.urlencode({'query': expression})}")
        result: list[dict[str, Any]] = answer["result"]
        return result

    def value(self, expression: str) -> float | None:
        """The value of an expression that gives one; None when it gives none."""
        result = self.query(expression)
        return float(result[0]["value"][1]) if result else None

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """The alerts of that name, pending ones too."""
        return [alert for alert in self._ask("alerts")["alerts"] if alert["labels"]["alertname"] == name]

    def wait_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=PATIENCE):
                return True
        except OSError:
            return False

    def _ask(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=PATIENCE) as response:
            data: dict[str, Any] = json.load(response)["data"]
            return data


@contextmanager
def prometheus(directory: Path, shipped: Sequence[str], targets: Sequence[str]) -> Iterator[Prometheus]:
    """One that asks these targets in place of the shipped ones."""
    configuration = CONFIGURATION.read_text().replace(f"_interval: {STEP}s\n", f"_interval: {INTERVAL}\n")
    assert configuration.count(INTERVAL) == 2
    for there, here in zip(shipped, targets, strict=True):
        assert there in configuration
        configuration = configuration.replace(there, here)
    (directory / CONFIGURATION.name).write_text(configuration)
    rules = re.sub(r"^( +for:) \d+m$", rf"\1 {FOR}", RULES.read_text(), flags=re.MULTILINE)
    (directory / RULES.name).write_text(rules)
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={directory / CONFIGURATION.name}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    served = Prometheus(address, process)
    try:
        served.wait_until(served.is_ready)
        yield served
    finally:
        process.terminate()
        process.wait(PATIENCE)
