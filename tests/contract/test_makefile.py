"""The targets of a contributor's first minutes, where something is missing or wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.programs import write_program
from tests.server.gunicorn import ROOT

MAKE = shutil.which("make") or "make"

HALF = """#!/bin/sh
case "$*" in *venv*) mkdir -p "$3/bin" && touch "$3/bin/python" && exit 1 ;; esac
"""
"""A Python whose venv has no pip to install: it leaves half of an environment, and fails."""


def make(*arguments: str, cwd: Path = ROOT, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # of the make that runs the tests
    environ = {name: value for name, value in os.environ.items() if name not in outer} | {"PATH": path}
    return subprocess.run([MAKE, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False)


def test_half_of_a_virtual_environment_does_not_stay(tmp_path: Path) -> None:
    python, environment = tmp_path / "python3", tmp_path / "venv"
    write_program(python, HALF)

    run = make(f"PYTHON={python}", f"VENV={environment}", f"{environment}/bin/python")

    assert run.returncode != 0
    assert "python3-venv" in run.stderr
    assert not environment.exists()


def test_format_shortens_a_line_before_it_is_checked(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "requirements-dev.txt"):
        shutil.copy2(ROOT / name, tmp_path)
    for folder in ("app", "static", "tests/contract"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    long = tmp_path / "app" / "long.py"
    long.write_text(f'"""Long."""\n\nimport os\n\nNAMES = [{", ".join(f"{number!r}" for number in range(60))}]\n')

    run = make(f"VENV={Path(sys.prefix)}", "format", cwd=tmp_path)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "import os" not in long.read_text()
    assert max(map(len, long.read_text().splitlines())) <= 120


def test_what_is_missing_is_named_before_anything_is_downloaded(tmp_path: Path) -> None:
    shutil.copy2(ROOT / "Makefile", tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("id", "paste", "sort"):
        (programs / name).symlink_to(shutil.which(name) or name)

    run = make("test-browser", cwd=tmp_path, path=str(programs))

    assert run.returncode != 0
    assert run.stderr.startswith(
        "'make test-browser' needs Debian's packages chromium npm: 'make deps FOR=test-browser' installs them\n"
    )
    assert run.stdout == ""
    assert not (tmp_path / ".venv").exists()


def test_a_target_that_needs_nothing_is_no_reason_to_install() -> None:
    run = make("deps", "FOR=typo")

    assert (run.returncode, run.stdout) == (2, "")
    assert "'make typo' needs no program" in run.stderr
