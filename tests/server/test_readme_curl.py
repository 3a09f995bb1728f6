"""The curl commands of README.md, run as they stand there, get the answers that are shown there."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from app import CONTACT_POLICY
from tests.server.gunicorn import ROOT, serving

EXAMPLE = re.compile(r"^```console\n\$ (curl (?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8000"
"""Where the commands expect the service."""

SECONDS_TO_WAIT = re.compile(r'(?<=^Retry-After: )\d+|(?<="retry_after_seconds":)\d+|(?<=;t=)\d+', re.MULTILINE)


def run(command: str, directory: Path) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    return subprocess.run(
        ["sh", "-c", command], env=environ, stdout=subprocess.PIPE, timeout=30, check=True
    ).stdout.decode()


def as_if_at_once(answer: str, seconds: float) -> str:
    """Gives back the whole seconds that the commands themselves may have taken."""

    def give_back(wait: re.Match[str]) -> str:
        left = int(wait[0])
        return str(max(left, min(left + int(seconds), CONTACT_POLICY.window_seconds)))

    return SECONDS_TO_WAIT.sub(give_back, answer)


def test_the_answers_are_those_that_are_shown(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    examples = EXAMPLE.findall(readme)
    assert len(examples) == readme.count("\n$ curl ") > 0

    with serving(tmp_path) as server:
        address = f"127.0.0.1:{server.port}"
        started = time.monotonic()
        for command, shown in examples:
            answer = run(command.replace(ADDRESS, address), tmp_path)

            head, _, body = as_if_at_once(answer, time.monotonic() - started).partition("\r\n\r\n")
            shown_head, _, shown_body = shown.replace(ADDRESS, address).partition("\n\n")
            status_line, *fields = head.splitlines()
            shown_status_line, *shown_fields = shown_head.splitlines()
            assert status_line == shown_status_line, command
            assert [field for field in shown_fields if field not in fields] == [], command
            assert body == shown_body, command
