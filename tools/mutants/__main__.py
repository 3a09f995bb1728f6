"""``python -m tools.mutants [TEXT]`` breaks app/ in each of the ways listed here and tells which tests notice.

Each mutant runs in a copy of the tree: first the tests of its folder and, if it lives, all others. With TEXT only those
that have it in their name or file are tried; without, matrix.md is written. The exit status is 1 if one lives.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import cache_from_source
from itertools import repeat
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TABLES = ("by_hand.toml", "drawn.toml")
MATRIX = HERE / "matrix.md"
COPIES = 2
"""Mutants that are tried at the same time: tests wait as well as compute."""
PATIENCE = 5
"""A mutant that takes so many times as long as all tests without one goes round for ever, and that is noticed."""
ENDLESS = "the time limit"


@dataclass(frozen=True)
class Mutant:
    """One change of app/."""

    breaks: str
    """The behaviour that no longer holds."""
    file: str
    old: str
    """The text that stands once in the file."""
    new: str

    def __str__(self) -> str:
        return f"{self.breaks} ({self.file})"

    @property
    def folder(self) -> list[str]:
        """The tests of the folder in which the file lies."""
        match Path(self.file).parts:
            case "app", "ratelimit", "shared.py":
                return ["tests/redis"]
            case "app", folder, *_ if (ROOT / "tests" / folder).is_dir():
                return [f"tests/{folder}"]
            case _:
                return existing(["tests/test_*.py"])


def existing(patterns: Iterable[str]) -> list[str]:
    """The files and folders that the patterns name."""
    return sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))


def read(name: str) -> list[Mutant]:
    """The mutants of a table."""
    return [Mutant(**entry) for entry in tomllib.loads((HERE / name).read_text())["mutant"]]


def main(text: str) -> bool:
    """Try the mutants; True when none lives."""
    mutants = [mutant for name in TABLES for mutant in read(name) if text.lower() in str(mutant).lower()]
    if not mutants:
        sys.exit("No mutant has this in its name or file.")
    if gone := [str(mutant) for mutant in mutants if (ROOT / mutant.file).read_text().count(mutant.old) != 1]:
        sys.exit("\n".join(["The code has changed. What breaks these behaviours now?", *gone]))
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    tests = [*existing(options["testpaths"]), "tests/redis"]
    files = subprocess.check_output(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(COPIES) as pool:
        for number in range(COPIES):
            copies.put(copy(files.rstrip("\0").split("\0"), Path(directory, str(number))))
        print("All tests without a mutant come first.", flush=True)
        begun = time.monotonic()
        if failed := killers(Path(directory, "0"), tests, None):
            sys.exit(f"Without a mutant, these fail already: {', '.join(failed)}")
        seconds = PATIENCE * (time.monotonic() - begun)
        by = pool.map(attempt, mutants, repeat(tests), repeat(seconds), repeat(copies))
        verdicts = dict(zip(mutants, by, strict=True))
    alive = [mutant.breaks for mutant, by in verdicts.items() if not by]
    print(f"{len(verdicts) - len(alive)} killed, {len(alive)} alive", *alive, sep="\n")
    if not text:
        MATRIX.write_text("\n".join(matrix(verdicts, len(alive))))
    return not alive


def copy(files: Iterable[str], directory: Path) -> Path:
    """A copy of the tree without what git ignores."""
    for file in files:
        if (ROOT / file).exists():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, directory / file)
    return directory


def attempt(mutant: Mutant, tests: Sequence[str], seconds: float, copies: SimpleQueue[Path]) -> list[str]:
    """The test files that kill the mutant."""
    directory = copies.get()
    file = directory / mutant.file
    source = file.read_text()
    try:
        change(file, source.replace(mutant.old, mutant.new))
        by = killers(directory, mutant.folder, seconds)
        by = by or killers(directory, [path for path in tests if path not in mutant.folder], seconds)
    finally:
        change(file, source)
        copies.put(directory)
    print(f"{'killed' if by else 'ALIVE '} {mutant}: {', '.join(by)}", flush=True)
    return by


def change(file: Path, source: str) -> None:
    """Give the file this content. Python would take its old bytecode for new if size and second are the same."""
    file.write_text(source)
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def killers(directory: Path, tests: Sequence[str], seconds: float | None) -> list[str]:
    """The test files that fail within the time, each with a test that fails twice in a row."""
    plugins = ["-p", "tools.mutants.once", "-p", "pytest_rerunfailures", "--reruns=1"]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--quiet", "--tb=no", *plugins, "--numprocesses=4", "--dist=loadfile", *tests],
        cwd=directory,
        env=os.environ | {"CI": "true"},  # hypothesis tries the same examples in each run
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = run.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return [ENDLESS]
    finally:
        kill_all(run.pid)
        run.wait()
    named = re.findall(r"^(?:FAILED|ERROR) (tests/[^:\s]+)", output, re.MULTILINE)
    named += ["tests/conftest.py"] if "while loading conftest" in output else []
    if run.returncode and not named:
        raise RuntimeError(output)
    return sorted(set(named))


def kill_all(group: int) -> None:
    """End what the tests of a broken service have left behind."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def matrix(verdicts: dict[Mutant, list[str]], alive: int) -> list[str]:
    """The lines of matrix.md."""
    commit = subprocess.check_output(["git", "describe", "--always", "--abbrev=10", "--dirty"], cwd=ROOT, text=True)
    written = f"`make mutants` wrote this on {datetime.now(UTC):%Y-%m-%d} at commit {commit.strip()}"
    return [
        "# Which test files kill each mutant",
        "",
        f"{written}: {len(verdicts) - alive} killed, {alive} alive.",
        "The tests of the folder come first. All others are asked only about a mutant that they leave alive.",
        "",
        "| The behaviour that it breaks | File | Killed by |",
        "|---|---|---|",
        *(
            f"| {mutant.breaks} | {mutant.file} | {', '.join(by).replace('tests/', '') or '**alive**'} |"
            for mutant, by in verdicts.items()
        ),
        "",
    ]


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1] if len(sys.argv) > 1 else ""))
