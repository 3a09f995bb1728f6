"""The curl commands of README.md, run as they stand there, get the answers that are shown there."""

import re
import subprocess

import pytest

from app import CONTACT_POLICY
from tests.pages import README
from tests.server.gunicorn import Server

EXAMPLE = re.compile(r"^```console\n\$ (curl (?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r'(?<=^Retry-After: )\d+|(?<="retry_after_seconds":)\d+|(?<=;t=)\d+', re.MULTILINE)
"""What the time between two commands changes."""


@pytest.mark.needs("curl")
def test_the_answers_are_those_that_are_shown(shared_server: Server) -> None:
    """No other test posts a form to this server from 127.0.0.1."""
    examples = EXAMPLE.findall(README.text)
    commands, shown = (
        [text.replace("127.0.0.1:8000", f"127.0.0.1:{shared_server.port}") for text in texts]
        for texts in zip(*examples, strict=True)
    )

    answered = ""
    for command in commands:
        answered += subprocess.check_output(["sh", "-ec", command], text=True, timeout=30)
        for _ in range(CONTACT_POLICY.quota - 1):  # what is left after the first
            shared_server.request("POST", "/contact.php")

    lines = SECONDS.sub("30", answered).splitlines()
    assert len(examples) == README.text.count("\n$ curl ") > 0
    assert [line for line in SECONDS.sub("30", "\n".join(shown)).splitlines() if line not in lines] == []
