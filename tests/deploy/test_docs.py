"""What docs/deploy.md tells an operator to type does what it says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.deploy.load import new_client
from tests.deploy.site import DEPLOY, read_unit, site
from tests.factories import contact_body
from tests.mail.server import SmtpServer
from tests.server.gunicorn import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text()
RELEASE = (DEPLOY / "release.sh").read_text()


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
        served.request("POST", "/wp-login.php", client=new_client(), body=contact_body())
        served.request("GET", "/contact.php", client=new_client())
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


def test_what_nginx_answered_by_itself_is_counted(tmp_path: Path) -> None:
    with site(tmp_path) as served:
        served.request("GET", "/api")
        served.request("GET", "/api")
        served.exchange(b"garbage\r\n\r\n")
    command = re.search(r"^awk .*", PAGE, re.MULTILINE)
    assert command
    log = f"{tmp_path}/log/public-web-interface.log"

    counted = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command[0].replace("/var/log/nginx/public-web-interface.log", log)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert [line.split() for line in counted.stdout.splitlines()] == [["1", "400", "-"], ["2", "500", "502,", "502"]]


def test_there_are_ten_commands() -> None:
    assert len(block("Ten commands", "sh").splitlines()) == 10


def test_the_commands_name_files_that_exist_and_what_the_unit_names() -> None:
    commands, unit = block("Ten commands", "sh"), read_unit()["Service"]

    for path in re.findall(r" (deploy/\S+)", commands):
        assert list(ROOT.glob(path)), path
    assert f"adduser --system --no-create-home --home /nonexistent {unit['User']}\n" in commands
    home = unit["WorkingDirectory"].removesuffix("/current")
    assert f"git clone REPOSITORY {home}/source && cd {home}/source\ndeploy/release.sh install\n" in commands
    assert f"\ncd {home}\n" in RELEASE
    assert "install -m 600 deploy/public-web-interface.env /etc/ " in commands
    assert unit["EnvironmentFile"] == "/etc/public-web-interface.env"
    assert set(re.findall(r"public-web-interface@\d", commands)) == {"public-web-interface@0", "public-web-interface@1"}


def test_the_lists_of_packages_are_renewed_first() -> None:
    assert block("Ten commands", "sh").startswith("apt-get update\n")


def test_the_programs_of_the_page_are_installed_by_it() -> None:
    installed = re.search(r"apt-get install -y (.*)", PAGE)

    assert installed
    assert set(installed[1].split()) == {
        "git",
        "make",
        "python3-venv",
        "nginx",
        "certbot",
        "curl",
        "jq",
        "nano",
    }


def test_an_upgrade_asks_the_socket_that_the_unit_makes() -> None:
    _, _, bind = read_unit()["Service"]["Environment"].partition("=unix:")

    assert f'--unix-socket "{bind.replace("%i", "${instance%.service}")}" ' in RELEASE


def test_the_scripts_and_files_that_the_page_names_are_there() -> None:
    for path in re.findall(r"\bdeploy/[\w/.@-]+\w", PAGE):
        assert (ROOT / path).exists(), path
    for command in re.findall(r"release\.sh (\w+)", PAGE):
        assert f"\n{command}) " in RELEASE
