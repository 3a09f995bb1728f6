"""Programs that a test runs, or puts in the place of real ones."""

import subprocess
from pathlib import Path
from typing import Any


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """What a program wrote, and how it ended; the options are those of ``subprocess.run``."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def write_program(path: Path, script: str) -> None:
    """Write a program: a script of sh, unless its first line names another interpreter."""
    path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
