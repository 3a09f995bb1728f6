"""What docs/deploy.md tells an operator to type does what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests import pages
from tests.deploy.connections import NAMESPACE
from tests.deploy.load import new_client
from tests.deploy.site import DEPLOY, read_unit, site, unit_environment
from tests.factories import contact_body
from tests.mail.server import SmtpServer
from tests.server.gunicorn import ROOT

PAGE = pages.DEPLOY
RELEASE = (DEPLOY / "release.sh").read_text()
RULES = (DEPLOY / "nftables" / "public-web-interface.nft").read_text()


def block(heading: str, language: str) -> str:
    """The first block in that language under that heading."""
    return PAGE.blocks(heading, language)[0]


def test_the_counts_of_submissions_are_those_that_the_page_shows(tmp_path: Path) -> None:
    hurried = {"GUNICORN_CMD_ARGS": "--config tests/server/hurried_gunicorn.py", "RETRY_SECONDS": "1"}
    with SmtpServer() as server, site(tmp_path, "0", environ=server.environ | hurried) as served:
        first = new_client()
        for client in (first, new_client(), first, first):
            served.request("POST", "/contact.php", client=client, body=contact_body())
        served.request("POST", "/api/v1/contact", client=new_client(), body=contact_body(_bp_check="x"))
        served.request("POST", "/api/v1/contact", client=new_client(), body=contact_body(email="ana"))
        served.request("POST", "/wp-login.php", client=new_client(), body=contact_body())
        served.request("GET", "/contact.php", client=new_client())
        server.replies["message"] = "451 4.3.0 Later"
        served.request("POST", "/api/v1/contact", client=new_client(), body=contact_body())
        server.replies.clear()
        served.wait_for_log("0", " delivered in attempt ")
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
    command = re.search(r"^awk .*", PAGE.text, re.MULTILINE)
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
    assert f"git clone REPOSITORY {home}/source && cd {home}/source\ndeploy/release.sh install && " in commands
    assert f"\ncd {home}\n" in RELEASE
    assert "install -m 600 deploy/public-web-interface.env /etc/ " in commands
    assert unit["EnvironmentFile"] == "/etc/public-web-interface.env"
    assert set(re.findall(r"public-web-interface@\d", commands)) == {"public-web-interface@0", "public-web-interface@1"}


def test_the_lists_of_packages_are_renewed_first() -> None:
    assert block("Ten commands", "sh").startswith("apt-get update\n")


def test_the_page_begins_with_the_choice_and_the_commands() -> None:
    """No background stands between the title and the first command."""
    before, _, _ = PAGE.text.partition("```sh\n")

    assert before.count("\n\n") <= 3
    assert "## Beside a website" in PAGE.text.partition("```nginx\n")[0]


def test_a_website_gets_the_snippets_of_the_stand_alone_site() -> None:
    assert block("Beside a website", "sh").splitlines()[0] in block("Ten commands", "sh")


def test_in_between_an_upgrade_no_new_snippet_takes_the_place_of_a_former_one() -> None:
    (removed,) = re.findall(r"`rm \S+/public-web-interface-\{(.*?)\}\.conf`", PAGE.section("Which files change"))
    shipped = {path.stem for path in (DEPLOY / "nginx" / "snippets").iterdir()}

    assert not shipped & {f"public-web-interface-{name}" for name in removed.split(",")}


def test_an_upgrade_copies_as_the_installation_does() -> None:
    installed = {part for line in block("Ten commands", "sh").splitlines() for part in line.split(" && ")}
    upgraded = {part for line in block("Which files change", "sh").splitlines() for part in line.split(" && ")}

    copied = {part for part in upgraded if part.startswith(("cp ", "ln ", "deploy/"))}
    assert len(copied) == 4
    assert copied <= installed


def test_the_programs_of_the_page_are_installed_by_it() -> None:
    installed = re.search(r"apt-get install -y (.*) && systemctl start dbus.socket", PAGE.text)

    assert installed
    assert set(installed[1].split()) == {
        "git",
        "make",
        "python3-venv",
        "nginx",
        "nftables",
        "certbot",
        "curl",
        "jq",
        "nano",
        "dbus",
    }


def test_an_upgrade_asks_the_socket_that_the_unit_makes() -> None:
    socket = unit_environment("${instance%.service}")["BIND"].removeprefix("unix:")

    assert f'--unix-socket "{socket}" ' in RELEASE


def test_the_scripts_and_files_that_the_page_names_are_there() -> None:
    for path in re.findall(r"\bdeploy/[\w/.@-]+\w", PAGE.text):
        assert (ROOT / path).exists(), path
    for command in re.findall(r"release\.sh (\w+)", PAGE.text):
        assert f"\n{command}) " in RELEASE


def test_nginx_takes_more_connections_as_the_page_says(tmp_path: Path) -> None:
    """On the configuration that Debian's package has installed here."""
    configuration = tmp_path / "nginx"
    shutil.copytree("/etc/nginx", configuration, symlinks=True)
    main = configuration / "nginx.conf"
    main.write_text(main.read_text().replace("/etc/nginx/", f"{configuration}/").replace("/run/", f"{tmp_path}/"))
    raised = block("Bound the connections", "sh").splitlines()[:2]
    commands = "\n".join(raised).replace("/etc/nginx/", f"{configuration}/")

    commands = commands.replace("nginx -t && systemctl reload nginx", f"nginx -T -c {main}")
    run = subprocess.run(["bash", "-ec", commands], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
    assert "warn" not in run.stderr
    connections = re.findall(r"^\s*worker_connections (\d+);", run.stdout, re.MULTILINE)
    descriptors = re.findall(r"^worker_rlimit_nofile (\d+);", run.stdout, re.MULTILINE)
    assert (connections, descriptors) == (["4096"], ["8192"])


def test_the_rules_are_loaded_after_those_of_the_machine(tmp_path: Path) -> None:
    """As Debian's service does it at each start and reload: what stands in /etc/nftables.conf is made anew."""
    commands = block("Bound the connections", "sh").splitlines()[2:]
    moved = "\n".join(commands).replace("/etc/", f"{tmp_path}/").replace(" && systemctl enable nftables", "")
    (tmp_path / "nftables.conf").write_text("flush ruleset\ntable inet filter {\n}\n")
    load = f"nft -f {tmp_path}/nftables.conf"

    loaded = subprocess.run(
        [*NAMESPACE, "bash", "-ec", f"{moved}\nnft list tables\n{load}\n{load}\nnft list tables"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert loaded.returncode == 0, loaded.stderr
    tables = ["table inet public_web_interface", "table inet filter", "table inet public_web_interface"]
    assert loaded.stdout.splitlines() == tables


def test_the_page_states_the_limits_of_the_rules() -> None:
    limits = re.findall(r"ct count over (\d+) |limit rate over (\d+)/second burst (\d+) packets", RULES)

    assert set(limits) == {("64", "", ""), ("", "20", "128")}
    assert "may have 64 connections open and open 20 a second after the first 128" in " ".join(PAGE.text.split())
