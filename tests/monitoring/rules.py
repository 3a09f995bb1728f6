"""The shipped rules, and promtool, which tries them on series that a test gives it."""

import itertools
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.programs import run
from tests.server.gunicorn import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
CONFIGURATION = FOLDER / "prometheus.yml"
RULES = FOLDER / "public-web-interface.rules.yml"
JOB, MACHINE = "public-web-interface", "web1"
(_GROUP,) = yaml.safe_load(RULES.read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in _GROUP["rules"] if "alert" in rule}
"""The shipped alerts, by name."""
STEP = 15
"""Seconds from one sample to the next, as shipped."""

Samples = Sequence[float | str]
Series = dict[str, Samples]
"""The samples of each series, from the beginning. `_` is a scrape without the series, `stale` one that failed."""


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
    each = (increase for increase, times in increases for _ in range(times))
    return [*itertools.accumulate(each, initial=0.0)]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run("promtool", *arguments)


Test = dict[str, Any]
"""One that promtool makes."""


def firing(alert: str, second: int, number: int) -> Test:
    """At this second so many of these alerts fire."""
    series = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    samples = [{"labels": "{}", "value": number}] if number else []
    return {"eval_time": f"{second}s", "expr": f"count({series})", "exp_samples": samples}


def never_firing(alert: str) -> Test:
    """The alert fires at no time in two hours."""
    series = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    return {"eval_time": "2h", "expr": f"count_over_time({series}[2h])", "exp_samples": []}


def shown(alert: str, second: int, labels: Mapping[str, str], summary: str) -> Test:
    """At this second the alert alone fires, with these labels and words."""
    rule = ALERTS[alert]
    expected = {
        "exp_labels": {"severity": rule["labels"]["severity"], **labels},
        "exp_annotations": {"summary": summary, "description": rule["annotations"]["description"]},
    }
    return {"eval_time": f"{second}s", "alertname": alert, "exp_alerts": [expected]}


def try_rules(directory: Path, series: Series, *expressions: Test, alert: Test | None = None) -> None:
    """Fail unless promtool agrees."""
    inputs = [{"series": name, "values": " ".join(map(str, samples))} for name, samples in series.items()]
    test = {
        "interval": f"{STEP}s",
        "input_series": inputs,
        "alert_rule_test": [alert] if alert else [],
        "promql_expr_test": expressions,
    }
    document = {"rule_files": [str(RULES)], "evaluation_interval": f"{STEP}s", "tests": [test]}
    file = directory / "test.json"  # JSON is YAML
    file.write_text(json.dumps(document))
    run = promtool("test", "rules", file)
    assert run.returncode == 0, run.stdout + run.stderr
