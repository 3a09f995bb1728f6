"""deploy/public-web-interface with the real commands; systemd-run, sudo and id are played, because none can work here.

sudo lets an operator do what deploy/sudoers lists, and systemd-run reads the settings and variables as systemd does.
"""

import os
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.release import VERSION
from tests.deploy.site import DEPLOY
from tests.deploy.test_watch import refuse
from tests.mail.conftest import keep, numbered
from tests.mail.server import SmtpServer
from tests.ports import free_port
from tests.programs import run, write_program
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
    exec env -i PATH="$PATH" ${Environment-} bash -c 'set -a && . "$0" && exec "$@"' "$EnvironmentFile" "${arguments[@]}"
"""


class Machine:
    """One on which docs/deploy.md was followed."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.mail_dir = directory, directory / "mail"
        self.environ = {"MAIL_DIR": str(self.mail_dir)}
        release = directory / "releases" / RELEASE
        for folder in (release / "deploy", directory / "bin", self.mail_dir):
            folder.mkdir(parents=True)
        shutil.copytree(ROOT / "app", release / "app")  # a module has its release from its folder
        (release / ".venv").symlink_to(sys.prefix)
        for name in ("static", "wsgi.py", "gunicorn.conf.py"):
            (release / name).symlink_to(ROOT / name)
        (directory / "current").symlink_to(release)
        (directory / "command").symlink_to("current/deploy/public-web-interface")
        self.binds = [f"127.0.0.1:{free_port()}" for _ in range(2)]  # METRICS_BIND of each instance
        shown = "\n\n".join(f"BIND=unix:/run/sock METRICS_BIND={bind}" for bind in self.binds)
        asked = """test "$*" = "show -P Environment public-web-interface@*" || exit 1"""
        systemctl = f"{asked}\necho '{shown}'"
        for program, script in {"id": ID, "sudo": SUDO, "systemd-run": SYSTEMD_RUN, "systemctl": systemctl}.items():
            self.play(program, script)
        script = (DEPLOY / "public-web-interface").read_text()
        for there, here in ((COMMAND, "command"), (SETTINGS, "env")):
            assert there in script
            script = script.replace(there, str(directory / here))
        write_program(release / "deploy" / "public-web-interface", script)
        write_program(release / "deploy" / "release.sh", 'echo "release.sh $*"')

    def play(self, name: str, script: str) -> None:
        write_program(self.directory / "bin" / name, script)

    def settings(self, **settings: str) -> None:
        """Change these of the service's settings."""
        self.environ |= settings
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in self.environ.items()]
        (self.directory / "env").write_text("".join(lines))

    def type(self, words: str, *, user: int) -> tuple[int, str, str]:
        """The exit status, and what was written to standard output and standard error."""
        environ = {"PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}", "PLAYED_USER": str(user)}
        typed = run(self.directory / "command", *shlex.split(words), env=environ)
        return typed.returncode, typed.stdout, typed.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


ROOT_USER, OPERATOR = 0, 1000
USAGE = "(#   public-web-interface .*\n){4}"
FAULTS = "SMTP_PORT='x': expected a port from 1 to 65535; SMTP_PASSWORD is not set: required with SMTP_USERNAME"
CANNOT_RUN = "CRITICAL - nagios cannot run it: see docs/mail.md, The commands\n"
TO_ROOT = "sudo: a password is required\n"
Prepare = Callable[[Machine], object]
Typed = tuple[str, int, str, str, Prepare]
"""The words, the exit status, patterns of what is shown and of what is said on standard error, and what was before."""


def nothing(_: Machine) -> None:
    """Leave the machine as it is."""


def sets(**settings: str) -> Prepare:
    return lambda machine: machine.settings(**settings)


def exits(program: str, status: int) -> Prepare:
    return lambda machine: machine.play(program, f"exit {status}")


def settings_are_not_there(machine: Machine) -> None:
    (machine.directory / "env").unlink()


def nothing_kept(machine: Machine) -> None:
    shutil.rmtree(machine.mail_dir / "new")


def one_refused(machine: Machine) -> None:
    nothing_kept(machine)
    refuse(machine.mail_dir, 1)


SAID_OF_VERSION = (
    rf"{re.escape(VERSION)}\+{RELEASE}\nPython {re.escape(sys.version.partition(' ')[0])}\n(.*\n)?(?i:gunicorn)==\d.*"
)
TWO_FAULTS = sets(SMTP_PORT="x", SMTP_USERNAME="web")
SAID_OF_TWO = f"CRITICAL - invalid settings: {FAULTS}\n"
SAID_OF_A_SLIP = r"WARNING: SMTP_PROT is not a setting; is it SMTP_PORT\?\n"
BY_ROOT: dict[str, Typed] = {
    "mail list": ("mail list", 0, r".*\b4711\b.*", "1 undelivered\n", nothing),
    "mail show": ("mail show 4711", 0, ".*Hola.*", "", nothing),
    "an empty variable": ("mail resend ''", 2, "", ".*the ID is empty\n", nothing),
    "what looks like a variable": ("mail resend '$NOSUCH'", 1, "", r".*\$nosuch is not in MAIL_DIR.*", nothing),
    "no settings": ("mail list", 2, "", ".*/env.*\n", settings_are_not_there),
    "check": ("check", 0, "The settings can be used.\n", "", nothing),
    "check, with a slip of the pen": ("check", 0, "The settings can be used.\n", SAID_OF_A_SLIP, sets(SMTP_PROT="465")),
    "check, with two faults": ("check", 78, "", "SMTP_PORT=.*\nSMTP_PASSWORD .*\n", TWO_FAULTS),
    "restart": ("restart", 0, "release.sh use\n", "", nothing),
    "version, whatever the settings": ("version", 0, SAID_OF_VERSION, "", TWO_FAULTS),
    "no words": ("", 2, "", USAGE, nothing),
    "another word": ("check x", 2, "", USAGE, nothing),
}
BY_OPERATOR: dict[str, Typed] = {
    "an operator's show": ("mail show 1", 1, "", TO_ROOT, nothing),
    "an operator's drop": ("mail drop 1 --yes", 1, "", TO_ROOT, nothing),
    "an operator's resend of all": ("mail resend", 1, "", TO_ROOT, nothing),
    "an operator's restart": ("restart", 1, "", TO_ROOT, nothing),
    "status, all well": ("mail status", 0, "OK - no messages\n", "", nothing_kept),
    "status, one refused": ("mail status", 1, "WARNING - 1 refused\n", "", one_refused),
    "status, no server": ("mail status", 2, "CRITICAL - .*\n", "", sets(SMTP_PORT=str(free_port()))),
    "status, two faults": ("mail status", 2, SAID_OF_TWO, "", TWO_FAULTS),
    "status, sudo fails": ("mail status", 2, CANNOT_RUN, "", exits("sudo", 1)),
    "status, nothing is said": ("mail status", 2, CANNOT_RUN, "", exits("systemd-run", 0)),
}
TYPED = [(ROOT_USER, typed) for typed in BY_ROOT.values()] + [(OPERATOR, typed) for typed in BY_OPERATOR.values()]


@pytest.mark.parametrize(("user", "typed"), TYPED, ids=[*BY_ROOT, *BY_OPERATOR])
def test_what_comes_of_a_command(machine: Machine, user: int, typed: Typed) -> None:
    """None of these sends a message or drops one."""
    words, status, shown, said, prepare = typed
    keep(machine.mail_dir, numbered(4711))
    with SmtpServer() as server:
        machine.settings(**server.environ)
        prepare(machine)
        before = sorted(machine.mail_dir.rglob("*"))

        exited, output, errors = machine.type(words, user=user)

    assert exited == status, errors
    assert re.fullmatch(shown, output, re.DOTALL), output
    assert re.fullmatch(said, errors, re.DOTALL), errors
    assert server.arrivals == []
    assert sorted(machine.mail_dir.rglob("*")) == before


@pytest.mark.parametrize("instance", [0, 1])
def test_a_check_names_an_address_of_the_metrics_that_another_program_has(machine: Machine, instance: int) -> None:
    machine.settings()
    host, _, port = machine.binds[instance].partition(":")
    with socket.create_server((host, int(port))):
        status, shown, said = machine.type("check", user=ROOT_USER)

    assert (status, shown) == (0, "The settings can be used.\n")
    assert said == f"ERROR: there are no metrics: METRICS_BIND={machine.binds[instance]!r}: Address already in use\n"


@pytest.mark.parametrize("words", ALLOWED)
def test_an_operator_may_type_what_the_file_for_sudo_lists(machine: Machine, words: str) -> None:
    with SmtpServer() as server:
        machine.settings(**server.environ)

        status, _, said = machine.type(words, user=OPERATOR)

    assert status == 0, said


def test_sudo_takes_the_file_and_it_has_no_wildcard() -> None:
    check = run("visudo", "-c", "-f", DEPLOY / "sudoers")

    assert check.returncode == 0, check.stdout + check.stderr
    assert not re.search(r"[*?\[^]", SUDOERS)
