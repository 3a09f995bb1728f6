"""Programs that a test puts in the place of real ones."""

from pathlib import Path


def write_program(path: Path, script: str) -> None:
    """Write a program: a script of sh, unless its first line names another interpreter."""
    path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
