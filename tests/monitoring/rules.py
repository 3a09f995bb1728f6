"""The shipped rules, and promtool, which tries them on series that a test gives it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.server.gunicorn import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
CONFIGURATION = FOLDER / "prometheus.yml"
RULES = FOLDER / "public-web-interface.rules.yml"
JOB, MACHINE = "public-web-interface", "web1"
STEP = 15
"""Seconds from one sample to the next, as shipped."""

Samples = Sequence[float | str]
Series = dict[str, Samples]
"""The samples of each series, from the beginning. `_` is a scrape without the series, `stale` one that failed."""


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """The shipped alerts, by name."""
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"] if "alert" in rule}


def configuration() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text())
    return loaded


def at(instance: int, name: str) -> str:
    """The series as Prometheus stores what that instance shows."""
    metric, _, labels = name.partition("{")
    target = f'job="{JOB}", machine="{MACHINE}", instance="127.0.0.1:1910{instance}"'
    return f"{metric}{{{target}, {labels}" if labels else f"{metric}{{{target}}}"


def both(name: str, samples: Samples) -> Series:
    """The same samples from both instances."""
    return {at(instance, name): samples for instance in (0, 1)}


def counter(*increases: tuple[float, int]) -> list[float | str]:
    """A counter from 0 that grows in each step by so much, so many times."""
    samples: list[float | str] = [0]
    total = 0.0
    for increase, times in increases:
        for _ in range(times):
            total += increase
            samples.append(total)
    return samples


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Firing:
    """An alert as it fires, at some second."""

    second: int
    alert: str
    labels: Mapping[str, str]
    summary: str


@dataclass
class Trial:
    """The rules, tried on some series."""

    series: Series
    silent: list[tuple[int, str]] = field(default_factory=list)
    """At these seconds these alerts do not fire."""
    firing: list[Firing] = field(default_factory=list)
    counts: list[tuple[int, str, int]] = field(default_factory=list)
    """At these seconds these alerts fire, each so many times at once."""
    never: tuple[str, ...] = ()
    """These alerts fire at no time in the two hours of the trial."""

    def run(self, directory: Path) -> None:
        """Fail unless promtool agrees."""
        file = directory / "test.json"  # JSON is YAML
        file.write_text(json.dumps(self._document()))
        run = promtool("test", "rules", file)
        assert run.returncode == 0, run.stdout + run.stderr

    def _document(self) -> dict[str, Any]:
        alert_tests: list[dict[str, Any]] = [
            {"eval_time": f"{second}s", "alertname": alert, "exp_alerts": []} for second, alert in self.silent
        ]
        alert_tests += [
            {"eval_time": f"{one.second}s", "alertname": one.alert, "exp_alerts": [_expected(one)]}
            for one in self.firing
        ]
        return {
            "rule_files": [str(RULES)],
            "evaluation_interval": f"{STEP}s",
            "tests": [
                {
                    "interval": f"{STEP}s",
                    "input_series": [
                        {"series": name, "values": " ".join(map(str, samples))} for name, samples in self.series.items()
                    ],
                    "alert_rule_test": alert_tests,
                    "promql_expr_test": [
                        *(_count(second, _firing(alert), number) for second, alert, number in self.counts),
                        *(_count(7200, f"count_over_time({_firing(alert)}[2h])", 0) for alert in self.never),
                    ],
                }
            ],
        }


def _expected(one: Firing) -> dict[str, Any]:
    rule = alerts()[one.alert]
    return {
        "exp_labels": {"severity": rule["labels"]["severity"], **one.labels},
        "exp_annotations": {"summary": one.summary, "description": rule["annotations"]["description"]},
    }


def _firing(alert: str) -> str:
    return f'ALERTS{{alertname="{alert}", alertstate="firing"}}'


def _count(second: int, series: str, number: int) -> dict[str, Any]:
    samples = [{"labels": "{}", "value": number}] if number else []
    return {"eval_time": f"{second}s", "expr": f"count({series})", "exp_samples": samples}
