"""deploy/public-web-interface with the real commands; systemd-run, sudo and id are played, because none can work here.

sudo lets an operator do what deploy/sudoers lists, and systemd-run reads the settings and variables as systemd does.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.site import DEPLOY
from tests.deploy.test_watch import refuse
from tests.mail.conftest import keep, letter
from tests.mail.server import SmtpServer
from tests.programs import write_program
from tests.server.gunicorn import ROOT

COMMAND = "/usr/local/bin/public-web-interface"
SETTINGS = "/etc/public-web-interface.env"
RELEASE = "20261124T014400Z-73bd0d6"
SUDOERS = (DEPLOY / "sudoers").read_text()
ALLOWED = re.findall(rf"{COMMAND} ([a-z -]+)", SUDOERS)
"""What a member of the operators' group may type."""

ID = "#!/bin/sh\n" + 'test "$1" = -u && echo "${PLAYED_USER:-0}" || echo nagios\n'
SUDO = f"""#!{sys.executable}
import os, sys
if sys.argv[3:] not in {[allowed.split() for allowed in ALLOWED]!r}:
    sys.exit("sudo: a password is required")
os.environ.pop("PLAYED_USER")
os.execv(sys.argv[2], sys.argv[2:])
"""
SYSTEMD_RUN = """#!/bin/bash
while [ "${1#-}" != "$1" ]; do
    case $1:$2 in
    -p:*) declare "${2%%=*}=${2#*=}"; shift ;;
    *) options="$options$1" ;;
    esac
    shift
done
test "$options $User $UMask" = "--quiet--pipe--wait--collect public-web-interface 0077" || exit 1
test "$StateDirectory $StateDirectoryMode" = "public-web-interface 0700" || exit 1
arguments=()
for word; do
    if [[ $word =~ ^\\$[A-Za-z_]+$ ]]; then
        name=${word:1}
        arguments+=(${!name-})
    else
        arguments+=("${word//\\$\\$/\\$}")
    fi
done
cd "$WorkingDirectory" &&
    exec env -i PATH="$PATH" bash -c 'set -a && . "$0" && exec "$@"' "$EnvironmentFile" "${arguments[@]}"
"""


@dataclass
class Machine:
    """One on which docs/deploy.md was followed."""

    directory: Path

    def __post_init__(self) -> None:
        release = self.directory / "releases" / RELEASE
        (release / ".venv" / "bin").mkdir(parents=True)
        for name in ("app", "static", "wsgi.py", "gunicorn.conf.py"):
            (release / name).symlink_to(ROOT / name)
        (self.directory / "current").symlink_to(release)
        (release / "deploy").mkdir()
        (self.directory / "command").symlink_to("current/deploy/public-web-interface")
        for module in ("flask", "gunicorn", "pip"):
            write_program(release / ".venv" / "bin" / module, f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        write_program(release / ".venv" / "bin" / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (self.directory / "bin").mkdir()
        self.play("id", ID)
        self.play("sudo", SUDO)
        self.play("systemd-run", SYSTEMD_RUN)
        script = (DEPLOY / "public-web-interface").read_text()
        for there, here in ((COMMAND, "command"), (SETTINGS, "env")):
            assert there in script
            script = script.replace(there, str(self.directory / here))
        write_program(release / "deploy" / "public-web-interface", script)
        write_program(release / "deploy" / "release.sh", '#!/bin/sh\necho "release.sh $*"\n')
        self.mail_dir.mkdir()
        self.settings()

    def play(self, name: str, script: str) -> None:
        write_program(self.directory / "bin" / name, script)

    @property
    def mail_dir(self) -> Path:
        return self.directory / "mail"

    def settings(self, **settings: str) -> None:
        """Write these into the service's settings."""
        lines = {"MAIL_DIR": str(self.mail_dir), **settings}.items()
        (self.directory / "env").write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in lines))

    def type(self, *arguments: str, user: int = 0) -> tuple[int, str, str]:
        """The exit status, and what was written to standard output and standard error."""
        environ = {"PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", "PLAYED_USER": str(user)}
        run = subprocess.run(
            [self.directory / "command", *arguments], env=environ, capture_output=True, text=True, check=False
        )
        return run.returncode, run.stdout, run.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


OPERATOR = 1000


def test_the_mail_is_that_of_the_service(machine: Machine) -> None:
    keep(machine.mail_dir, letter(4711))

    status, listed, said = machine.type("mail", "list")

    assert (status, said) == (0, "1 undelivered\n")
    assert "4711" in listed
    assert machine.type("mail", "show", "4711")[0] == 0


def test_an_empty_variable_is_a_usage_error_and_sends_nothing(machine: Machine) -> None:
    keep(machine.mail_dir, letter(1))
    with SmtpServer() as server:
        machine.settings(**server.environ)
        status, _, said = machine.type("mail", "resend", "")

    assert (status, server.arrivals) == (2, [])
    assert said.endswith("the ID is empty\n")


def test_what_looks_like_a_variable_is_taken_as_it_was_typed(machine: Machine) -> None:
    keep(machine.mail_dir, letter(1))
    with SmtpServer() as server:
        machine.settings(**server.environ)
        status, _, said = machine.type("mail", "resend", "$NOSUCH")

    assert (status, server.arrivals) == (1, [])
    assert "$nosuch is not in MAIL_DIR" in said


@pytest.mark.parametrize("command", ["mail list", "check", "version"])
def test_settings_that_are_not_there_are_named(machine: Machine, command: str) -> None:
    (machine.directory / "env").unlink()

    status, shown, said = machine.type(*command.split())

    assert (status != 0, shown) == (True, "")
    assert f"{machine.directory}/env" in said


def test_the_settings_are_tried_as_a_start_does(machine: Machine) -> None:
    with SmtpServer() as server:
        machine.settings(**server.environ)
        assert machine.type("check") == (0, "The settings can be used.\n", "")

    machine.settings(SMTP_PORT="x", THREADS="0")
    status, shown, said = machine.type("check")
    assert (status, shown) == (1, "")
    assert [line.partition("=")[0] for line in said.splitlines()] == ["SMTP_PORT", "THREADS"]

    shutil.rmtree(machine.mail_dir)
    machine.mail_dir.touch()
    machine.settings()
    status, shown, said = machine.type("check")
    assert (status, shown) == (1, "")
    assert [line.partition("=")[0] for line in said.splitlines()] == ["MAIL_DIR"]


def test_a_restart_is_that_of_the_release_in_use_and_left_to_root(machine: Machine) -> None:
    assert machine.type("restart") == (0, "release.sh use\n", "")
    assert machine.type("restart", user=OPERATOR)[:2] == (1, "")


def test_the_version_names_the_release_python_and_the_libraries(machine: Machine) -> None:
    machine.settings(SMTP_PORT="x")

    status, shown, _ = machine.type("version")

    assert status == 0
    assert shown.splitlines()[:2] == [RELEASE, f"Python {sys.version.partition(' ')[0]}"]
    assert re.search(r"^gunicorn==\d", shown, re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize("user", [0, OPERATOR])
@pytest.mark.parametrize("arguments", [[], ["version", "x"], ["check", "x"], ["list"], ["--help"], ["mailx"]], ids=str)
def test_anything_else_is_a_usage_error(machine: Machine, arguments: list[str], user: int) -> None:
    status, shown, said = machine.type(*arguments, user=user)

    assert (status, shown) == (2, "")
    assert said.count("public-web-interface ") == 4


@pytest.mark.parametrize("command", ALLOWED)
def test_an_operator_may_type_what_the_file_for_sudo_lists(machine: Machine, command: str) -> None:
    with SmtpServer() as server:
        machine.settings(**server.environ)
        as_operator, as_root = (machine.type(*command.split(), user=user)[:2] for user in (OPERATOR, 0))

    assert as_operator == as_root
    assert as_operator[0] == 0


@pytest.mark.parametrize(
    "command", ["mail show 1", "mail drop 1 --yes", "mail resend", "mail resend 1", "mail list -h", "mail"]
)
def test_what_shows_or_deletes_a_message_is_left_to_root(machine: Machine, command: str) -> None:
    keep(machine.mail_dir, letter(1))

    assert machine.type(*command.split(), user=OPERATOR)[:2] == (1, "")
    assert "1 undelivered" in machine.type("mail", "list")[2]


class TestStatus:
    @pytest.mark.parametrize("user", [0, OPERATOR])
    def test_it_is_one_line_and_the_exit_status_that_nagios_knows(self, machine: Machine, user: int) -> None:
        assert machine.type("mail", "status", user=user)[:2] == (
            0,
            "OK - SMTP_HOST is not set; nothing is kept\n",
        )
        with SmtpServer() as server:
            machine.settings(**server.environ)
            refuse(machine.mail_dir, 1)
            assert machine.type("mail", "status", user=user)[:2] == (1, "WARNING - 1 refused\n")
        status, line, _ = machine.type("mail", "status", user=user)
        assert (status, line.count("\n"), line.partition(" - ")[0]) == (2, 1, "CRITICAL")

    def test_settings_that_cannot_be_used_are_critical(self, machine: Machine) -> None:
        machine.settings(SMTP_PORT="x")
        assert "the settings cannot be used: SMTP_PORT='x'" in machine.type("mail", "status", user=OPERATOR)[1]
        machine.settings(SMTP_PORT="x", SMTP_USERNAME="web")

        assert machine.type("mail", "status", user=OPERATOR)[:2] == (
            2,
            (
                "CRITICAL - the settings cannot be used: SMTP_PORT='x': expected a port from 1 to 65535; "
                "SMTP_PASSWORD is not set: required with SMTP_USERNAME\n"
            ),
        )

    @pytest.mark.parametrize("program", ["sudo", "systemd-run"])
    @pytest.mark.parametrize("status", [0, 1, 127])
    def test_what_cannot_be_found_out_is_critical(self, machine: Machine, program: str, status: int) -> None:
        machine.play(program, f"#!/bin/sh\nexit {status}\n")

        assert machine.type("mail", "status", user=OPERATOR)[:2] == (
            2,
            "CRITICAL - nagios cannot run it: see docs/mail.md, The commands\n",
        )


def test_sudo_takes_the_file_and_it_has_no_wildcard() -> None:
    check = subprocess.run(["visudo", "-c", "-f", DEPLOY / "sudoers"], capture_output=True, text=True, check=False)

    assert check.returncode == 0, check.stdout + check.stderr
    assert not re.search(r"[*?\[^]", SUDOERS)
