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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.deploy.site import DEPLOY
from tests.deploy.test_watch import refuse
from tests.mail.conftest import keep, letter
from tests.mail.server import SmtpServer
from tests.ports import free_port
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
USAGE = "(#   public-web-interface .*\n){4}"
FAULTS = "SMTP_PORT='x': expected a port from 1 to 65535; SMTP_PASSWORD is not set: required with SMTP_USERNAME"
CANNOT_RUN = "CRITICAL - nagios cannot run it: see docs/mail.md, The commands\n"


@dataclass(frozen=True)
class Typed:
    """What somebody types, and what comes of it."""

    words: str | list[str]
    status: int
    shown: str = ""
    """A pattern of all that is shown,"""
    said: str = ""
    """and of what is said on standard error."""
    user: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    """Beside those of a mail server that works."""
    prepare: Callable[[Machine], object] | None = None


def settings_are_not_there(machine: Machine) -> None:
    (machine.directory / "env").unlink()


def nothing_kept_and_no_server(machine: Machine) -> None:
    shutil.rmtree(machine.mail_dir / "new")
    machine.settings()


def one_refused(machine: Machine) -> None:
    shutil.rmtree(machine.mail_dir / "new")
    refuse(machine.mail_dir, 1)


def no_server(machine: Machine) -> None:
    machine.settings(SMTP_HOST="127.0.0.1", SMTP_PORT=str(free_port()), SMTP_TLS="none")


def plays(program: str, status: int) -> Callable[[Machine], None]:
    return lambda machine: machine.play(program, f"#!/bin/sh\nexit {status}\n")


EITHER = {"root": 0, "an operator": OPERATOR}
TYPED = {
    "mail list": Typed("mail list", 0, r".*\b4711\b.*", "1 undelivered\n"),
    "mail show": Typed("mail show 4711", 0, ".*Hola.*"),
    "an empty variable": Typed(["mail", "resend", ""], 2, "", ".*the ID is empty\n"),
    "what looks like a variable": Typed(["mail", "resend", "$NOSUCH"], 1, "", r".*\$nosuch is not in MAIL_DIR.*"),
    **{
        f"{command} without settings": Typed(command, 2, "", ".*/env.*\n", prepare=settings_are_not_there)
        for command in ("mail list", "check", "version")
    },
    "check": Typed("check", 0, "The settings can be used.\n"),
    "check, with two faults": Typed(
        "check", 1, said="SMTP_PORT=.*\nTHREADS=.*\n", settings={"SMTP_PORT": "x", "THREADS": "0"}
    ),
    "check, without a folder": Typed("check", 1, said="MAIL_DIR=[^\n]*\n", settings={"MAIL_DIR": "/dev/null"}),
    "restart": Typed("restart", 0, "release.sh use\n"),
    "version, whatever the settings": Typed(
        "version",
        0,
        rf"{RELEASE}\nPython {re.escape(sys.version.partition(' ')[0])}\n(.*\n)?(?i:gunicorn)==\d.*",
        settings={"SMTP_PORT": "x"},
    ),
    **{
        f"{words or 'nothing'} by {who}": Typed(words, 2, "", USAGE, user)
        for words in ("", "version x", "check x", "list", "--help", "mailx")
        for who, user in EITHER.items()
    },
    **{
        f"{words} is left to root": Typed(words, 1, "", "sudo: a password is required\n", OPERATOR)
        for words in (
            "mail show 1",
            "mail drop 1 --yes",
            "mail resend",
            "mail resend 1",
            "mail list -h",
            "mail",
            "restart",
        )
    },
    **{
        f"mail status, all well, by {who}": Typed(
            "mail status",
            0,
            "OK - SMTP_HOST is not set; nothing is kept\n",
            user=user,
            prepare=nothing_kept_and_no_server,
        )
        for who, user in EITHER.items()
    },
    "mail status, one refused": Typed("mail status", 1, "WARNING - 1 refused\n", user=OPERATOR, prepare=one_refused),
    "mail status, no server": Typed("mail status", 2, "CRITICAL - [^\n]*\n", user=OPERATOR, prepare=no_server),
    "mail status, with two faults": Typed(
        "mail status",
        2,
        f"CRITICAL - the settings cannot be used: {FAULTS}\n",
        user=OPERATOR,
        settings={"SMTP_PORT": "x", "SMTP_USERNAME": "web"},
    ),
    **{
        f"mail status, {program} exits with {status}": Typed(
            "mail status", 2, CANNOT_RUN, user=OPERATOR, prepare=plays(program, status)
        )
        for program in ("sudo", "systemd-run")
        for status in (0, 1, 127)
    },
}


@pytest.mark.parametrize("typed", TYPED.values(), ids=TYPED)
def test_what_comes_of_a_command(machine: Machine, typed: Typed) -> None:
    """None of these sends a message or drops one."""
    keep(machine.mail_dir, letter(4711))
    with SmtpServer() as server:
        machine.settings(**(server.environ | typed.settings))
        if typed.prepare:
            typed.prepare(machine)
        before = sorted(machine.mail_dir.rglob("*"))
        words = typed.words.split() if isinstance(typed.words, str) else typed.words

        status, shown, said = machine.type(*words, user=typed.user)

    assert status == typed.status, said
    assert re.fullmatch(typed.shown, shown, re.DOTALL), shown
    assert re.fullmatch(typed.said, said, re.DOTALL), said
    assert server.arrivals == []
    assert sorted(machine.mail_dir.rglob("*")) == before


@pytest.mark.parametrize("command", ALLOWED)
def test_an_operator_may_type_what_the_file_for_sudo_lists(machine: Machine, command: str) -> None:
    with SmtpServer() as server:
        machine.settings(**server.environ)
        as_operator, as_root = (machine.type(*command.split(), user=user)[:2] for user in (OPERATOR, 0))

    assert as_operator == as_root
    assert as_operator[0] == 0


def test_sudo_takes_the_file_and_it_has_no_wildcard() -> None:
    check = subprocess.run(["visudo", "-c", "-f", DEPLOY / "sudoers"], capture_output=True, text=True, check=False)

    assert check.returncode == 0, check.stdout + check.stderr
    assert not re.search(r"[*?\[^]", SUDOERS)
