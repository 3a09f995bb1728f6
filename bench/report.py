"""docs/performance.md and its plot."""

from __future__ import annotations

from html import escape

from bench.findings import Bar, Chart, Findings, figure
from bench.machine import description
from bench.servers import ROOT

DOCUMENT = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "performance.svg"

GOALS_COLUMNS = ["", "measured", "goal", "met"]

_INTRODUCTION = """\
`make bench` measures this and rewrites the page; `.venv-bench/bin/python -m bench SECTION` repeats one section.
All that is compared takes turns in one run, round by round. A turn that sends requests lasts a second. A figure is the
median of its rounds, and a ratio of requests or decisions is the median of the ratios of the rounds. Others may use the
machine, too: ratios say more than absolute figures, and the ratios of single rounds differ by a tenth.
"""

_WIDTH, _LABEL_WIDTH, _VALUE_WIDTH = 880, 360, 130
_LINE, _BAR, _TITLE = 22, 14, 40
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; }
  .label { text-anchor: end; }
  .other { fill: #9aa7b4; }
  .ours { fill: #1f6feb; }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .other { fill: #57606a; } .ours { fill: #58a6ff; } }
"""


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table whose first column is text and the others figures."""
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, rule, *rows))


def write(titles: dict[str, str], explanations: dict[str, str], findings: dict[str, Findings]) -> None:
    """Write the page and its plot."""
    goals = [goal for found in findings.values() for goal in found.goals]
    parts = [
        "# Performance\n",
        _INTRODUCTION,
        "".join(f"- {line}\n" for line in description()),
        "![The figures of the tables below as bars](performance.svg)\n",
        "## Goals\n",
        table(GOALS_COLUMNS, [goal.row() for goal in goals]),
    ]
    for section, found in findings.items():
        parts += [f"## {titles[section]}\n", explanations[section] + "\n", table(found.columns, found.rows)]
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text("\n".join(parts))
    PLOT.write_text(plot([chart for found in findings.values() for chart in found.charts]))


def plot(charts: list[Chart]) -> str:
    """The charts one below the other as an SVG that suits light and dark pages."""
    elements, top = [], 0
    for chart in charts:
        elements.append(f'<text class="title" x="0" y="{top + _TITLE - 16}">{escape(chart.title)}</text>')
        top += _TITLE
        longest = max(bar.value for bar in chart.bars)
        for bar in chart.bars:
            elements += _bar(bar, chart.unit, top, longest)
            top += _LINE
    body = "\n".join(f"  {element}" for element in elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + _BAR}" role="img">\n'
        f"<style>{_STYLE}</style>\n{body}\n</svg>\n"
    )


def _bar(bar: Bar, unit: str, top: int, longest: float) -> list[str]:
    left = _LABEL_WIDTH + 10
    width = max(1, round(bar.value / longest * (_WIDTH - left - _VALUE_WIDTH)))
    middle = top + _BAR - 3
    kind = "ours" if bar.ours else "other"
    return [
        f'<text class="label" x="{_LABEL_WIDTH}" y="{middle}">{escape(bar.label)}</text>',
        f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{_BAR}" rx="2"/>',
        f'<text x="{left + width + 6}" y="{middle}">{figure(bar.value)} {escape(unit)}</text>',
    ]
