"""``python -m bench [SECTION ...]`` measures, and writes docs/performance.md once every section has been measured."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from contextlib import suppress
from importlib import import_module

from bench import report
from bench.findings import BUILD, load, save

TITLES = {
    "http": "Requests",
    "limiter": "The limiter",
    "mail": "Mail",
    "isolation": "Isolation",
    "start": "Start",
    "cores": "Cores",
}


def main() -> None:
    """Run the sections that are named, else all."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"one of {', '.join(TITLES)}; all by default")
    sections = parser.parse_args().sections or list(TITLES)
    if unknown := set(sections) - set(TITLES):
        parser.error(f"no such section: {', '.join(unknown)}")
    with suppress(PermissionError):
        os.nice(-10)  # so that other processes of the machine disturb less
    modules = {section: import_module(f"bench.{section}") for section in TITLES}
    for section in sections:
        begun = time.monotonic()
        directory = BUILD / "run" / section
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        findings = modules[section].measure(directory)
        save(section, findings)
        print(f"\n{TITLES[section]} ({time.monotonic() - begun:.0f} s)\n")
        print(report.table(findings.columns, findings.rows))
        print(report.table(report.GOALS_COLUMNS, [goal.row() for goal in findings.goals]))
    kept = {section: findings for section in TITLES if (findings := load(section))}
    if len(kept) < len(TITLES):
        print(f"docs/performance.md is left as it is: {', '.join(set(TITLES) - set(kept))} not measured yet")
        return
    explanations = {section: (module.__doc__ or "").strip() for section, module in modules.items()}
    report.write(TITLES, explanations, kept)


if __name__ == "__main__":
    main()
