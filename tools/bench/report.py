"""docs/performance.md and its chart."""

import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path

from tools import ROOT

DOCUMENT = ROOT / "docs" / "performance.md"

_LOAD_BEFORE = os.getloadavg()[0]
_PACKAGES = ("flask", "werkzeug", "gunicorn", "flask-cors", "flask-limiter", "limits", "fastapi", "slowapi", "uvicorn")

_PAGE = """\
# Performance

`make bench` measures this service and others, in turn, and rewrites this page. Figures are medians. A ratio (x) above 1
means that this service is faster; for the start, slower. The service has one core: gunicorn's one worker of 32 threads.
The mail server and the load have another: wrk's 16 connections, each request from a new client.

- **Forms** go to the disk, then to the mail server. The first row compares them with the same service when sending mail
  takes no time. In the next two, 4 connections send, and the mail server takes 20 ms for each reply.
- **GET** requests `/api/versioning`; the others send less. The usual stack is Flask with Flask-Limiter, flask-cors
  and ProxyFix. FastAPI runs on uvicorn with slowapi, which admits up to twice the quota.

{machine}

![GET requests per second: {bars}](performance.svg)

| | Figure | Goal |
|---|---:|---|
{rows}
"""

_WIDTH, _LABEL_WIDTH, _VALUE_WIDTH = 720, 180, 130
_LINE, _BAR, _TITLE = 24, 16, 36
_CHART = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
  text {{ font: 13px system-ui, sans-serif; fill: #24292f; }}
  .label {{ text-anchor: end; }}
  .other {{ fill: #9aa7b4; }}
  .ours {{ fill: #1f6feb; }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #e6edf3; }} .other {{ fill: #57606a; }} .ours {{ fill: #58a6ff; }}
  }}
</style>
<text x="{left}" y="20">GET requests per second</text>
{bars}
</svg>
"""


@dataclass(frozen=True)
class Figure:
    """A row of the table: a figure, its goal if it has one, and the reason if that is missed."""

    what: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    why_missed: str = ""

    @property
    def goal(self) -> str:
        """The goal, with the reason if it is missed."""
        if self.at_least is not None:
            goal, met = f"at least {self.at_least:g} {self.unit}", self.value >= self.at_least
        elif self.at_most is not None:
            goal, met = f"at most {self.at_most:g} {self.unit}", self.value <= self.at_most
        else:
            return ""
        return goal if met else f"{goal}, **missed**: {self.why_missed}"

    @property
    def row(self) -> str:
        """The row of the table."""
        return f"| {self.what} | {_rounded(self.value)} {self.unit} | {self.goal} |"


def write(figures: Sequence[Figure], bars: Mapping[str, float]) -> None:
    """Write the page and its chart; the first bar is this service's."""
    rows = "\n".join(figure.row for figure in figures)
    spoken = ", ".join(f"{name} {_rounded(value)}" for name, value in bars.items())
    DOCUMENT.write_text(_PAGE.format(machine=_machine(), bars=spoken, rows=rows))
    DOCUMENT.with_suffix(".svg").write_text(_chart(bars))
    print(rows)


def _rounded(value: float) -> str:
    """The number with three digits, or as an integer if it has more."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _machine() -> str:
    model = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    # wrk prints its version and then, as after an error, its usage.
    wrk = subprocess.run(["wrk", "-v"], stdout=subprocess.PIPE, text=True, check=False).stdout.split(" [")[0]
    return (
        f"{os.cpu_count()} cores of {model[1] if model else platform.machine()}, Linux {platform.release()}, "
        f"load average before the run {_LOAD_BEFORE:.1f}.\n"
        f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}, {wrk}."
    )


def _chart(bars: Mapping[str, float]) -> str:
    left, longest, elements = _LABEL_WIDTH + 10, max(bars.values()), list[str]()
    for number, (name, value) in enumerate(bars.items()):
        top = _TITLE + number * _LINE
        width = round(value / longest * (_WIDTH - left - _VALUE_WIDTH))
        kind = "other" if number else "ours"
        baseline = top + _BAR - 3
        elements += [
            f'<text class="label" x="{_LABEL_WIDTH}" y="{baseline}">{escape(name)}</text>',
            f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{_BAR}" rx="2"/>',
            f'<text x="{left + width + 6}" y="{baseline}">{_rounded(value)}</text>',
        ]
    return _CHART.format(width=_WIDTH, height=_TITLE + len(bars) * _LINE, left=left, bars="\n".join(elements))
