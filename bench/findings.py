"""The findings of a section of the benchmark: a table, goals and charts, kept as JSON between runs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

BUILD = Path(__file__).parents[1] / "build" / "bench"


@dataclass(frozen=True)
class Goal:
    """A figure and its bound."""

    what: str
    measured: float
    goal: float
    unit: str
    at_least: bool = False

    @property
    def met(self) -> bool:
        """True when the figure is on the right side of its bound."""
        return self.measured >= self.goal if self.at_least else self.measured <= self.goal

    def row(self) -> list[str]:
        """The goal as a row of a table."""
        bound = f"at {'least' if self.at_least else 'most'} {figure(self.goal)} {self.unit}"
        return [self.what, f"{figure(self.measured)} {self.unit}", bound, "yes" if self.met else "**no**"]


@dataclass(frozen=True)
class Bar:
    """One bar of a chart; ``ours`` gives it the colour of this service."""

    label: str
    value: float
    ours: bool = False


@dataclass(frozen=True)
class Chart:
    """Bars of one unit."""

    title: str
    unit: str
    bars: list[Bar]


@dataclass(frozen=True)
class Findings:
    """The findings of one section."""

    columns: list[str]
    rows: list[list[str]]
    goals: list[Goal]
    charts: list[Chart] = field(default_factory=list)


def figure(value: float) -> str:
    """A number with three digits, or with all of those before the point if they are more; empty if it is NaN."""
    if math.isnan(value):
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def spread(values: list[float]) -> str:
    """The median of all rounds, with the lowest and the highest."""
    return f"{figure(median(values))} ({figure(min(values))} to {figure(max(values))})"


def save(section: str, findings: Findings) -> None:
    """Keep the findings of a section."""
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / f"{section}.json").write_text(json.dumps(asdict(findings), indent=2))


def load(section: str) -> Findings | None:
    """The findings of a section's last run, if there was one."""
    path = BUILD / f"{section}.json"
    if not path.exists():
        return None
    kept: dict[str, Any] = json.loads(path.read_text())
    return Findings(
        kept["columns"],
        kept["rows"],
        [Goal(**goal) for goal in kept["goals"]],
        [Chart(chart["title"], chart["unit"], [Bar(**bar) for bar in chart["bars"]]) for chart in kept["charts"]],
    )
