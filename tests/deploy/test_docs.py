"""What docs/deploy.md tells an operator to type does what it says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.deploy.load import new_client
from tests.deploy.site import read_unit, site
from tests.factories import contact_body
from tests.mail.server import SmtpServer
from tests.server.gunicorn import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text()


def block(heading: str, language: str) -> str:
    """The first block in that language under that heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found
    return found[1]


def test_the_counts_of_submissions_are_those_that_the_page_shows(tmp_path: Path) -> None:
    with SmtpServer() as server, site(tmp_path, "0", environ=server.environ) as served:
        first = new_client()
        for client in (first, new_client(), first, first):
            served.request("POST", "/contact.php", client=client, body=contact_body())
        served.request("POST", "/api/v1/contact", client=new_client(), body=contact_body(_bp_check="x"))
        served.request("POST", "/api/v1/contact", client=new_client(), body=contact_body(email="ana"))
        server.replies["message"] = "451 4.3.0 Later"
        served.request("POST", "/api/v1/contact", client=new_client(), body=contact_body())
    command, journal = block("Read the log", "sh"), tmp_path / "log" / "0.log"

    counted = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"cat {journal} | {command.partition(' | ')[2]}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert counted.stdout == block("Read the log", "text")


def test_there_are_ten_commands() -> None:
    assert len(block("Ten commands", "sh").splitlines()) == 10


def test_the_upgrade_loop_asks_the_socket_that_the_unit_makes() -> None:
    _, _, bind = read_unit()["Service"]["Environment"].partition("=unix:")

    assert f"--unix-socket {bind.replace('%i', '$core')} " in block("Upgrade without losing a request", "sh")
