"""A command in a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.server.gunicorn import ROOT


def run(command: list[str], mail_dir: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command as a service does whose MAIL_DIR this is."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "MAIL_DIR": str(mail_dir), **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
