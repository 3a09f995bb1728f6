"""The targets of a contributor's first minutes, where something is missing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.programs import write_program
from tests.server.gunicorn import ROOT

pytestmark = pytest.mark.needs("make")

MAKE = shutil.which("make") or "make"
HALF = """#!/bin/sh
[ "$2" != venv ] || { mkdir -p "$3/bin" && touch "$3/bin/python" && exit 1; }
"""
"""A Python that leaves half of an environment, and fails."""


def make(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    # Without the variables of the make that runs the tests.
    env = {"PATH": os.environ["PATH"]} | environ
    return subprocess.run([MAKE, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_half_of_a_virtual_environment_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    python, environment = tmp_path / "python3", tmp_path / "venv"
    write_program(python, HALF)
    environment.mkdir()

    for _ in range(2):
        (environment / ".run").touch()
        run = make(f"PYTHON={python}", f"VENV={environment}", "install")

        assert run.stderr.startswith("make: *** ")


@pytest.mark.parametrize("installed", ["flask", "public_web_interface"])
def test_an_environment_in_which_others_installed_the_project_is_made_anew(tmp_path: Path, installed: str) -> None:
    (tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / f"{installed}-1.0.0.dist-info").mkdir(parents=True)
    (tmp_path / "venv" / "bin").mkdir()
    (tmp_path / "venv" / ".run").touch()
    write_program(tmp_path / "venv" / "bin" / "python", "exit 0")
    write_program(tmp_path / "python3", "echo is called >&2 && exit 1")

    run = make(f"PYTHON={tmp_path}/python3", f"VENV={tmp_path}/venv", "install")

    assert ("is called" in run.stderr) == (installed == "public_web_interface")


OFFLINE = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:1"}
LACKS: dict[str, tuple[str, Mapping[str, str], str]] = {
    "the package of Debian": ("sys.modules['ensurepip'] = None", {}, "Please install Debian's package python3-venv"),
    "a newer Python": ("sys.version_info = (3, 10)", {}, "Python 3.11 or newer is needed: make PYTHON=/path/to/it"),
    "the network": ("", OFFLINE, "The libraries cannot be installed (is the network there?) ERROR: Could not find "),
}
"""What differs in the Python, the environment of make, and how the line about what is wrong begins."""


@pytest.mark.parametrize(("change", "environ", "said"), LACKS.values(), ids=LACKS)
def test_what_is_missing_for_an_environment_is_said_in_a_line(
    tmp_path: Path, change: str, environ: Mapping[str, str], said: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\n{change}\n")
    write_program(tmp_path / "python3", f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')

    run = make(f"PYTHON={tmp_path}/python3", f"VENV={tmp_path}/venv", "install", **environ)

    line, failed = run.stderr.splitlines()
    assert line.startswith(said)
    assert failed.startswith("make: *** ")


def test_a_folder_that_cannot_be_written_is_not_taken_for_a_missing_package(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    run = make(f"VENV={tmp_path}/file/venv", "install")

    assert run.stderr.startswith(f"{tmp_path}/file/venv cannot be written: clone into a folder of your own\n")


def test_what_is_missing_is_named_before_anything_is_downloaded(tmp_path: Path) -> None:
    programs, environment = tmp_path / "programs", tmp_path / "venv"
    programs.mkdir()
    for name in ("bash", "id", "sort"):
        (programs / name).symlink_to(shutil.which(name) or name)

    run = make(f"VENV={environment}", "test-browser", PATH=str(programs))

    assert run.returncode != 0
    assert run.stderr.startswith(
        "'make test-browser' needs Debian's packages chromium chromium-headless-shell npm: 'make deps FOR=test-browser' installs them\n"
    )
    assert (run.stdout, environment.exists()) == ("", False)
