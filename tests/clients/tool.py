"""A tool that generates clients, and the programs that it needs, which `make test-clients` installs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.server.gunicorn import ROOT

VENV = ROOT / ".venv-clients"
NODE_MODULES = Path(__file__).parent / "node_modules"
PATIENCE = 300
"""Seconds for a program. The slowest takes some ten of them on an idle machine."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java spends half the time without optimizations for programs that run long."""

Prepare = Callable[[Path], Sequence[str | Path]]
"""Generates the client from openapi.json in that folder, which holds nothing else yet. It compiles the client where its
language compiles, and returns the command that starts our program, which uses the client."""


@dataclass(frozen=True)
class Tool:
    """A generator, and our program that makes all calls of the table with the client that it has generated.

    The program is given the URLs of three services (live, retired, mailless) and three numbers of a network, such as
    198.18.7. Each call names another address of the network in X-Forwarded-For. The program prints one JSON object: the
    outcome of each call by its name, made of the values that the client has typed.
    """

    name: str
    prepare: Prepare
    differences: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The outcomes that differ from the table. Each says in a comment what of the tool is the cause."""


def environment() -> dict[str, str]:
    """The programs of the tools' environment come first, so that Node.js is new enough."""
    return os.environ | {"PATH": f"{VENV / 'bin'}:{os.environ['PATH']}", "JAVA_TOOL_OPTIONS": SHORT_LIVED}


def run(command: Sequence[str | Path], folder: Path) -> str:
    """What a program prints."""
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
