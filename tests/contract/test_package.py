"""The service is an application, not a distribution: its metadata say so, and no module of it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser

import pytest

from tests.pages import README
from tests.server.gunicorn import ROOT

SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
DIST_INFO = f"public_web_interface-{SETUP['metadata']['version']}.dist-info"
CLASSIFIERS = SETUP["metadata"]["classifiers"].split("\n")

PYTHONS = [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)", SETUP["metadata"]["classifiers"])]
"""The minor versions of the Pythons on which the tests were run."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel that `pip install .` makes, built of a copy without the network."""
    folder = tmp_path_factory.mktemp("package")
    for name in ("setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "app", folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", "out"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "."], cwd=folder, check=True, timeout=120)
    (path,) = (folder / "out").iterdir()
    return zipfile.ZipFile(path)


def test_a_wheel_holds_no_module(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0] for name in wheel.namelist()} == {DIST_INFO}


def test_the_metadata_and_the_readme_say_so(wheel: zipfile.ZipFile) -> None:
    metadata = wheel.read(f"{DIST_INFO}/METADATA").decode()

    assert "an application, not a distribution" in re.findall("^Summary: (.*)$", metadata, re.MULTILINE)[0]
    assert "an application, not a distribution" in " ".join(README.text.split())
    assert "Private :: Do Not Upload" in CLASSIFIERS


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("setup.cfg", r"python_requires = >=3\.(\d+)$"),
        ("pyproject.toml", r'python_version = "3\.(\d+)"$'),
        ("pyproject.toml", r'target-version = "py3(\d+)"$'),
        ("Makefile", r"version_info < \(3, (\d+)\)"),
        ("Makefile", r"Python 3\.(\d+) or newer"),
        ("Makefile", r"--python-version 3\.(\d+)"),
        ("README.md", r"Python 3\.(\d+) or newer"),
    ],
)
def test_the_oldest_python_is_the_same_everywhere(name: str, pattern: str) -> None:
    assert re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE) == [str(PYTHONS[0])]


def test_no_python_between_the_oldest_and_the_newest_is_left_out() -> None:
    assert [*range(PYTHONS[0], PYTHONS[-1] + 1)] == PYTHONS
