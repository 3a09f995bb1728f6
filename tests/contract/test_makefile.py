"""The targets of a contributor's first minutes, where something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.programs import write_program
from tests.server.gunicorn import ROOT

MAKE = shutil.which("make") or "make"
HALF = """#!/bin/sh
case "$*" in *venv*) mkdir -p "$3/bin" && touch "$3/bin/python" && exit 1 ;; esac
"""
"""A Python whose venv has no pip to install: it leaves half of an environment, and fails."""


def make(*arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    # Without the variables of the make that runs the tests.
    return subprocess.run([MAKE, *arguments], cwd=ROOT, env={"PATH": path}, capture_output=True, text=True, check=False)


def test_half_of_a_virtual_environment_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    python, environment = tmp_path / "python3", tmp_path / "venv"
    write_program(python, HALF)

    for _ in range(2):
        run = make(f"PYTHON={python}", f"VENV={environment}", "install")

        assert run.returncode != 0
        assert run.stderr.startswith("Please install Debian's package python3-venv\n")


def test_what_is_missing_is_named_before_anything_is_downloaded(tmp_path: Path) -> None:
    programs, environment = tmp_path / "programs", tmp_path / "venv"
    programs.mkdir()
    for name in ("bash", "id", "sort"):
        (programs / name).symlink_to(shutil.which(name) or name)

    run = make(f"VENV={environment}", "test-browser", path=str(programs))

    assert run.returncode != 0
    assert run.stderr.startswith(
        "'make test-browser' needs Debian's packages chromium npm: 'make deps FOR=test-browser' installs them\n"
    )
    assert (run.stdout, environment.exists()) == ("", False)
