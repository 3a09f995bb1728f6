"""flask mail in a process of its own, as an operator types it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.server.gunicorn import ROOT

FLASK_MAIL = [sys.executable, "-m", "flask", "--app", "wsgi", "mail"]


def run(
    command: list[str], mail_dir: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command, such as FLASK_MAIL with more words, in a service whose MAIL_DIR this is."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "MAIL_DIR": str(mail_dir), **(environ or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
