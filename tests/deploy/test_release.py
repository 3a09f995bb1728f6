"""deploy/release.sh with real repositories, environments and gunicorns.

The test plays systemd, the programs that change the machine's users, and nginx's look at its configuration.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Listener
from pathlib import Path

import pytest

from tests.deploy.site import (
    DEPLOY,
    INSTANCES,
    NO_MAIL_SERVER,
    START_SECONDS,
    environment_file,
    installed_files,
    moved_environment,
    read_unit,
)
from tests.deploy.test_command import SYSTEMD_RUN
from tests.programs import write_program
from tests.server.gunicorn import ROOT, newest_worker
from tests.waiting import wait_until

HOME = "/opt/public-web-interface"
RUN = "/run/public-web-interface"
STATE = "/var/lib/public-web-interface"
PARTS = (
    "Makefile",
    "app",
    "deploy",
    "gunicorn.conf.py",
    "requirements-metrics.txt",
    "requirements-redis.txt",
    "static",
)

SHOW_RELEASE = """
import importlib, os, sys

class Shown:
    served, status = app.wsgi_app, None

    def __call__(self, environ, start_response):
        imported_late = importlib.import_module("app.ratelimit.shared").__file__
        shown = f"$NAME {os.getcwd()} {sys.prefix} {__file__} {imported_late}"
        start = lambda status, fields: start_response(self.status or status, [*fields, ("X-Release", shown)])
        return self.served(environ, start)

app.wsgi_app = Shown()
"""
"""Behind wsgi.py: an answer shows the name of the release, its folder, and where it takes its parts from."""

PYTHON = f"""#!{sys.executable}
import pathlib, subprocess, sys
subprocess.run([{sys.executable!r}, *sys.argv[1:], *(["--without-pip"] if "venv" in sys.argv else [])], check=True)
if "venv" in sys.argv:
    environment = pathlib.Path(".venv").resolve()
    packages = next(environment.glob("lib/python3*/site-packages")) / "libraries.pth"
    packages.write_text(next(path for path in {sys.path!r} if path.endswith("site-packages")))
    for name in ("gunicorn", "pip"):
        script = pathlib.Path({sys.prefix!r}, "bin", name).read_text().partition("\\n")[2]
        (environment / "bin" / name).write_text(f"#!{{environment}}/bin/python\\n{{script}}")
        (environment / "bin" / name).chmod(0o755)
"""
"""The interpreter for make, whose environments have the libraries of this one: nothing needs to be downloaded."""

SYSTEMCTL = f"""#!{sys.executable}
import os, pathlib, signal, sys
from multiprocessing.connection import Client
if sys.argv[1] != "start" and pathlib.Path(__file__).with_name("hang-up").exists():
    os.kill(os.getppid(), signal.SIGHUP)
client = Client({{address!r}})
client.send(sys.argv[1:])
output, code = client.recv()
print(output, end="")
sys.exit(code)
"""


def instance_of(unit: str) -> str:
    return unit.removeprefix("public-web-interface@").removesuffix(".service")


@dataclass
class Systemd:
    """Runs instances as the unit says, and serves the stand-in for systemctl."""

    directory: Path
    home: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    enabled: set[str] = field(default_factory=set)
    """The instances that start with the machine."""
    restarts: list[str] = field(default_factory=list)
    """The instances that systemctl has restarted, in their order,"""
    beside: list[dict[str, str]] = field(default_factory=list)
    """and the releases of the others just before."""
    calls: list[str] = field(default_factory=list)
    """What else systemctl was told."""
    forgiven: set[str] = field(default_factory=set)
    """The units of which systemctl has forgotten how often they were tried. The others were tried too often."""
    failures: list[Exception] = field(default_factory=list)
    """What the stand-in itself could not do: systemctl has failed then."""

    def __post_init__(self) -> None:
        (self.directory / "bin").mkdir()
        self._listener = Listener(address := str(self.directory / "systemd.sock"), "AF_UNIX")
        write_program(self.directory / "bin" / "systemctl", SYSTEMCTL.format(address=address))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            with self._listener.accept() as connection:
                command = connection.recv()
                if command == ["stop"]:
                    return
                try:
                    connection.send(self._systemctl(command))
                except Exception as error:  # noqa: BLE001 - the next test needs this thread
                    self.failures.append(error)

    def _systemctl(self, command: list[str]) -> tuple[str, int]:  # noqa: PLR0911 - a line for each command
        """The output and the exit code."""
        match command:
            case (
                ["daemon-reload"]
                | ["start", "dbus.socket"]
                | ["try-reload-or-restart", "nginx"]
                | ["reset-failed", "public-web-interface*"]
            ):
                self.calls.append(" ".join(command))
                return "", 0
            case ["reset-failed", unit]:
                self.forgiven.add(unit)
                return "", 0 if instance_of(unit) in self.processes else 1
            case ["enable", "--quiet", unit]:
                self.enabled.add(instance_of(unit))
                return "", 0
            case ["list-units", "--plain", "--no-legend", "public-web-interface@*.service"]:
                return "".join(f"public-web-interface@{instance}.service loaded\n" for instance in self.processes), 0
            case ["disable", "--quiet", "--now", unit]:
                self.stop(instance_of(unit))
                del self.processes[instance_of(unit)]
                self.enabled.remove(instance_of(unit))
                return "", 0
            case ["stop", "public-web-interface*"]:
                self.stop(*self.processes)
                self.processes.clear()
                return "", 0
            case ["restart", unit] if unit not in self.forgiven:
                return "", 1
            case ["restart", unit]:
                self.forgiven.remove(unit)
                instance = instance_of(unit)
                self.restarts.append(instance)
                self.beside.append({other: self.release(other) for other in self.processes if other != instance})
                if instance in self.processes:
                    self.stop(instance)
                return "", 0 if self.start(instance) else 1
            case _:
                raise ValueError(command)

    def start(self, instance: str) -> bool:
        """Whether the instance has come up."""
        self.launch(instance)
        return self.has_come_up(instance)

    def launch(self, instance: str) -> None:
        unit = read_unit()["Service"]
        directory = unit["WorkingDirectory"].replace(HOME, str(self.home))
        run = self.directory / "run"
        (run / instance).mkdir(parents=True, exist_ok=True)
        environ = {"PATH": os.environ["PATH"], "MAIL_DIR": f"{self.directory}/mail", "PWD": directory}
        with self._log_of(instance).open("wb") as log:
            self.processes[instance] = subprocess.Popen(
                shlex.split(unit["ExecStart"]),
                cwd=directory,
                env=environment_file() | moved_environment(instance, run) | NO_MAIL_SERVER | environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def has_come_up(self, instance: str) -> bool:
        """Whether it answers; it has ended when it does not."""
        process = self.processes[instance]
        wait_until(lambda: process.poll() is not None or self.answers(instance))
        return process.poll() is None

    def stop(self, *instances: str) -> None:
        for instance in instances:
            self.processes[instance].terminate()
        for instance in instances:
            self.processes[instance].wait(START_SECONDS)

    def answers(self, instance: str) -> bool:
        try:
            return bool(self._ask(instance))
        except OSError:
            return False

    def runs_in(self, instance: str, folder: Path) -> bool:
        """Whether the instance lives and is at work there."""
        process = self.processes[instance]
        return process.poll() is None and Path(f"/proc/{process.pid}/cwd").resolve() == folder

    def release(self, instance: str) -> str:
        """The name of the release that answers, all of whose parts are in its folder."""
        found = re.search(r"^X-Release: (\S+) (\S+) (.*)\r$", self._ask(instance).decode(), re.MULTILINE)
        assert found
        assert Path(found[2]).parent == self.home / "releases"
        for part in found[3].split():
            assert part.startswith(f"{found[2]}/")
        return found[1]

    def _ask(self, instance: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(START_SECONDS)
            connection.connect(str(self.directory / "run" / instance / "gunicorn.sock"))
            connection.sendall(b"GET /openapi.json HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def worker(self, instance: str) -> int:
        return newest_worker(self._log_of(instance).read_text())

    def close(self) -> None:
        self.stop(*self.processes)
        with Client(self._listener.address) as client:
            client.send(["stop"])
        self._thread.join(START_SECONDS)
        self._listener.close()

    def _log_of(self, instance: str) -> Path:
        return self.directory / f"{instance}.log"


@dataclass
class Server:
    """A machine after the first commands of docs/deploy.md, with all that belongs to it in folders of a test."""

    directory: Path
    systemd: Systemd
    first: str = ""
    """The release that was installed first,"""
    enabled_first: set[str] = field(default_factory=set)
    """the instances that it enabled,"""
    second: str = ""
    """and the commit after it."""

    @property
    def source(self) -> Path:
        return self.systemd.home / "source"

    @property
    def releases(self) -> list[str]:
        return sorted(path.name for path in (self.systemd.home / "releases").iterdir())

    @property
    def added(self) -> Path:
        """The file with the libraries that the operator adds."""
        return self.directory / "public-web-interface" / "requirements.txt"

    @property
    def settings(self) -> Path:
        return self.directory / "public-web-interface.env"

    @property
    def upstream(self) -> Path:
        """What nginx knows of the instances."""
        return self.directory / "nginx" / "conf.d" / "public-web-interface.conf"

    def lead_to(self, *instances: str) -> None:
        """Let nginx know of these instances."""
        text = installed_files(*instances)["conf.d/public-web-interface.conf"]
        self.upstream.write_text(text.replace(RUN, f"{self.directory}/run").replace("/etc/", f"{self.directory}/"))

    def play(self, program: str, script: str) -> None:
        """Put a program of the test before that of the machine."""
        write_program(self.systemd.directory / "bin" / program, script)

    def play_usual(self) -> None:
        """Two cores, and an nginx that takes its configuration."""
        self.play("nproc", "echo 2")
        self.play("nginx", "true")

    @property
    def current(self) -> str:
        return (self.systemd.home / "current").resolve().name

    def commit(self, name: str, *, added: str = "", requirements: str = "") -> str:
        """Commit a release that shows this name, with code of a test at the end; returns the commit."""
        shown = SHOW_RELEASE.replace("$NAME", name)
        (self.source / "wsgi.py").write_text((ROOT / "wsgi.py").read_text() + shown + added)
        (self.source / "requirements.txt").write_text(requirements)
        for arguments in (["add", "--all"], ["commit", "--quiet", "--message", name]):
            identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
            subprocess.run(["git", "-C", self.source, *identity, *arguments], check=True)
        return subprocess.check_output(["git", "-C", self.source, "rev-parse", "HEAD"], text=True).rstrip()

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """What root types, in a shell that hides what it makes from others."""
        return subprocess.run(
            command,
            env={
                "PATH": f"{self.systemd.directory}/bin:{os.environ['PATH']}",
                "PYTHON": str(self.directory / "python"),
                # "0" is pip's odd way to say yes to an option that negates. The environment of a release sees all
                # libraries of this one, and pip would look for conflicts among them at each install.
                "PIP_NO_WARN_CONFLICTS": "0",
            },
            capture_output=True,
            text=True,
            check=False,
            umask=0o077,
            start_new_session=True,  # a shell that hangs up takes its whole session along
        )

    def release(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.source / "deploy" / "release.sh", *arguments)

    def running(self) -> dict[str, str]:
        """The release of each instance."""
        return {instance: self.systemd.release(instance) for instance in self.systemd.processes}

    def state(self) -> tuple[object, ...]:
        """All that an install can change."""
        pids = {instance: process.pid for instance, process in self.systemd.processes.items()}
        return self.releases, self.current, self.running(), pids

    def reset(self, *instances: str) -> None:
        """Back to the first release, with these instances of it alone; those that run already are left alone."""
        systemd = self.systemd
        home = systemd.home / "releases" / self.first
        for left in (systemd.directory / "bin" / "hang-up", self.added):
            left.unlink(missing_ok=True)
        self.settings.write_text((home / "deploy" / "public-web-interface.env").read_text())
        self.lead_to(*instances)
        self.play_usual()
        for arguments in (["reset", "--hard", "--quiet", self.second], ["clean", "-ffdxq"]):
            subprocess.run(["git", "-C", self.source, *arguments], check=True)
        others = [name for name in systemd.processes if name not in instances or not systemd.runs_in(name, home)]
        systemd.stop(*others)
        for other in others:
            del systemd.processes[other]
        for release in self.releases:
            if release != self.first:
                shutil.rmtree(home.with_name(release))
        current = systemd.home / "current"
        current.unlink(missing_ok=True)
        current.symlink_to(Path("releases", self.first))
        missing = [instance for instance in instances if instance not in systemd.processes]
        for instance in missing:
            systemd.launch(instance)
        assert all(systemd.has_come_up(instance) for instance in missing)
        assert set(self.running().values()) <= {"one"}
        systemd.calls.clear()
        systemd.restarts.clear()
        systemd.beside.clear()
        systemd.failures.clear()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With the release "one" installed, and the release "two" in the repository."""
    directory = tmp_path_factory.mktemp("machine")
    systemd = Systemd(directory, directory / "opt")
    server = Server(directory, systemd)
    server.source.mkdir(parents=True)
    parts = ["tar", "--create", "--exclude=__pycache__", f"--directory={ROOT}", *PARTS]
    subprocess.run(["tar", "--extract"], cwd=server.source, input=subprocess.check_output(parts), check=True)
    write_program(directory / "python", PYTHON)
    moved = {
        HOME: str(systemd.home),
        RUN: f"{directory}/run",
        STATE: str(directory),
        "/usr/local/": f"{directory}/local/",
        "/etc/": f"{directory}/",
        "--retry 30": "--retry 1",
    }
    texts = {path: path.read_text() for path in (server.source / "deploy").rglob("*") if path.is_file()}
    for there, here in moved.items():
        assert any(there in text for text in texts.values()), there
        texts = {path: text.replace(there, here) for path, text in texts.items()}
    for path, text in texts.items():
        path.write_text(text)
    for folder in ("nginx/conf.d", "nginx/snippets", "nginx/sites-enabled", "local/bin"):
        (directory / folder).mkdir(parents=True)
    server.play("systemd-run", SYSTEMD_RUN)
    server.play_usual()
    for program in ("useradd", "groupadd", "groupdel"):
        server.play(program, f"echo {program} $* >> {directory}/users")
    subprocess.run(["git", "init", "--quiet", server.source], check=True)
    try:
        server.commit("one")
        installed = server.release("install")
        assert installed.returncode == 0, installed.stderr
        server.first, server.enabled_first = server.current, set(systemd.enabled)
        server.second = server.commit("two")
        yield server
    finally:
        systemd.close()


@pytest.fixture
def stopped(machine: Server) -> Server:
    """With the release "one" in use and no instance."""
    machine.reset()
    return machine


@pytest.fixture
def upgradable(machine: Server) -> Iterator[Server]:
    """With two instances of the release "one"."""
    machine.reset(*INSTANCES)
    yield machine
    assert machine.systemd.failures == []


def test_an_instance_keeps_its_release_as_long_as_it_lives(upgradable: Server) -> None:
    systemd = upgradable.systemd
    worker = systemd.worker("0")

    upgradable.lead_to()
    assert upgradable.release("install").returncode == 1  # nothing is restarted
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: systemd.worker("0") != worker)
    assert systemd.release("0") == "one"
    worker = systemd.worker("0")
    systemd.processes["0"].send_signal(signal.SIGHUP)
    wait_until(lambda: systemd.worker("0") != worker and not Path(f"/proc/{worker}").exists())
    assert systemd.release("0") == "one"
    systemd.stop("0")
    assert systemd.start("0")

    assert upgradable.running() == {"0": "two", "1": "one"}


def test_an_upgrade_restarts_one_instance_after_the_other_and_says_how_to_go_back(upgradable: Server) -> None:
    installed = upgradable.release("install")

    assert installed.returncode == 0, installed.stderr
    assert upgradable.running() == {"0": "two", "1": "two"}
    assert upgradable.systemd.restarts == ["0", "1"]
    assert upgradable.systemd.beside == [{"1": "one"}, {"0": "two"}]
    told = re.search(r"^To go back: (.*)$", installed.stdout, re.MULTILINE)
    assert told

    back = upgradable.run(*shlex.split(told[1]))

    assert back.returncode == 0, back.stderr
    assert upgradable.running() == {"0": "one", "1": "one"}


def test_new_settings_take_a_restart_with_the_release_in_use(upgradable: Server) -> None:
    assert upgradable.release("use").returncode == 0

    assert upgradable.systemd.restarts == ["0", "1"]
    assert upgradable.running() == {"0": "one", "1": "one"}


def test_a_release_that_cannot_be_loaded_restarts_nothing(upgradable: Server) -> None:
    before = upgradable.current, upgradable.running()
    upgradable.commit("broken", added="raise RuntimeError")

    assert upgradable.release("install").returncode == 1

    assert (upgradable.current, upgradable.running()) == before
    assert upgradable.systemd.restarts == []


@pytest.mark.parametrize("command", ["use", "install"])
def test_wrong_settings_are_named_and_restart_nothing(upgradable: Server, command: str) -> None:
    before = upgradable.current, upgradable.running()
    with upgradable.settings.open("a") as settings:
        settings.write("SMTP_TIMEOUT=abc\n")

    used = upgradable.release(command)

    assert used.returncode == 1
    assert "SMTP_TIMEOUT='abc': expected" in used.stderr
    assert (upgradable.current, upgradable.running()) == before
    assert upgradable.systemd.restarts == []
    upgradable.settings.write_text(upgradable.settings.read_text().replace("SMTP_TIMEOUT=abc", ""))
    (told,) = re.findall(r"type (/.*)", used.stderr)
    assert upgradable.run(*shlex.split(told)).returncode == 0


def test_what_fails_changes_nothing(upgradable: Server) -> None:
    before = upgradable.state()
    upgradable.commit("broken", requirements="./no-such-library")

    assert upgradable.release("install").returncode != 0
    assert upgradable.release("install", "no-such-branch").returncode != 0
    assert upgradable.release("use", "no-such-release").returncode != 0

    assert upgradable.state() == before


def test_what_is_half_made_is_not_used(upgradable: Server) -> None:
    before = upgradable.state()
    (upgradable.systemd.home / "releases" / "half" / ".venv").mkdir(parents=True)

    assert upgradable.release("use", "half").returncode != 0

    assert upgradable.state() == (sorted([upgradable.first, "half"]), *before[1:])


NOT_COMING_UP = {
    "stops": ("if 'BIND' in os.environ: raise RuntimeError", ["0", "0"]),
    "answers 500": ("app.wsgi_app.status = '500 Internal Server Error'", ["0", "0"]),
    "stops on one core": ("if '/1/' in os.environ.get('BIND', ''): raise RuntimeError", ["0", "1", "1", "0"]),
}


@pytest.mark.parametrize(("added", "restarts"), NOT_COMING_UP.values(), ids=NOT_COMING_UP)
def test_an_upgrade_that_does_not_come_up_goes_back(upgradable: Server, added: str, restarts: list[str]) -> None:
    before = upgradable.current
    upgradable.commit("broken", added=added)

    installed = upgradable.release("install")

    assert installed.returncode == 1
    assert f"those that had moved are back at {before}" in installed.stderr
    assert upgradable.current == before
    assert upgradable.running() == {"0": "one", "1": "one"}
    assert upgradable.systemd.restarts == restarts


def test_a_session_that_ends_meanwhile_leaves_no_half_of_an_upgrade(upgradable: Server) -> None:
    (upgradable.directory / "bin" / "hang-up").touch()

    installed = upgradable.release("install")

    assert installed.returncode == 0
    assert upgradable.running() == {"0": "two", "1": "two"}


def test_only_one_upgrade_is_under_way(upgradable: Server) -> None:
    before = upgradable.state()
    lock_file = upgradable.systemd.home / ".lock"
    assert lock_file.stat().st_mode & 0o777 == 0o600  # whoever can read it can lock it
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        installed = upgradable.release("install")

    assert "another release.sh is at work" in installed.stderr
    assert upgradable.state() == before


def test_a_commit_can_be_named(upgradable: Server) -> None:
    assert upgradable.release("install", "HEAD^").returncode == 0

    assert upgradable.running() == {"0": "one", "1": "one"}
    assert len(upgradable.releases) == 2


def test_the_user_of_the_service_can_read_a_release(stopped: Server) -> None:
    folder = stopped.systemd.home / "current"
    for path in (folder, folder / "app", folder / "wsgi.py", folder / ".venv" / "bin" / "gunicorn"):
        assert path.stat().st_mode & 0o044 == 0o044


def test_the_newest_five_releases_stay_and_those_in_use(upgradable: Server) -> None:
    old = [f"2020010{day}T000000Z-0000000" for day in range(1, 8)]
    releases = upgradable.systemd.home / "releases"
    for name in old:
        (releases / name).mkdir()
        (releases / name / ".whole").touch()
    with subprocess.Popen(["sleep", "60"], cwd=releases / old[0]) as running:
        installed = upgradable.release("install")
        running.kill()

    assert installed.returncode == 0
    assert upgradable.releases == sorted([old[0], *old[-3:], upgradable.first, upgradable.current])


@pytest.mark.parametrize(
    "name", ["../source", "../releases/{current}", "{current}/", "./{current}", "{source}", ".", ".."]
)
def test_what_is_not_the_name_of_a_release_is_not_used(stopped: Server, name: str) -> None:
    (stopped.source / ".whole").touch()
    before = stopped.state()

    result = stopped.release("use", name.format(current=stopped.current, source=stopped.source))

    assert result.returncode == 1
    assert "there is no whole release" in result.stderr
    assert stopped.state() == before


@pytest.mark.parametrize("extra", ["metrics", "redis"])
def test_the_libraries_that_a_setting_may_need_are_in_each_release(stopped: Server, extra: str) -> None:
    (stopped.source / f"requirements-{extra}.txt").write_text("./no-such-library")
    stopped.commit(extra)

    installed = stopped.release("install")

    assert installed.returncode != 0
    assert "no-such-library" in installed.stderr


def test_the_libraries_that_the_operator_adds_are_in_each_release(upgradable: Server) -> None:
    upgradable.added.parent.mkdir(exist_ok=True)
    upgradable.added.write_text("sentry-sdk\n./no-such-library\n")

    installed = upgradable.release("install")

    assert installed.returncode != 0
    assert "no-such-library" in installed.stderr
    assert upgradable.current == upgradable.first
    upgradable.added.write_text("sentry-sdk\n")
    assert upgradable.release("install").returncode == 0


def test_the_first_install_lays_all_that_the_service_needs(machine: Server) -> None:
    directory = machine.directory
    units = directory / "local" / "lib" / "systemd" / "system"

    assert (directory / "users").read_text().splitlines()[:2] == [
        "useradd --system --gid nogroup --home-dir /nonexistent --shell /usr/sbin/nologin public-web-interface",
        "groupadd --system --force public-web-interface-operators",
    ]
    assert {path.name for path in units.iterdir()} == {path.name for path in (DEPLOY / "systemd").iterdir()}
    assert (units / "public-web-interface@.service.d" / "10-sandbox.conf").read_text()
    assert (directory / "sudoers.d" / "public-web-interface").stat().st_mode & 0o777 == 0o440
    assert (directory / "local" / "bin" / "public-web-interface").resolve().is_file()
    assert (directory / "nginx" / "snippets" / "public-web-interface" / "website.conf").is_file()
    assert machine.settings.stat().st_mode & 0o777 == 0o600
    assert machine.enabled_first == set(INSTANCES)


def test_what_the_operator_changes_survives_an_upgrade(upgradable: Server) -> None:
    own = {
        upgradable.settings: upgradable.settings.read_text() + "SMTP_PASSWORD=secret\n",
        upgradable.upstream: upgradable.upstream.read_text() + "# mine\n",
        upgradable.directory
        / "systemd"
        / "system"
        / "public-web-interface@.service.d"
        / "override.conf": "[Service]\n",
        upgradable.directory / "nginx" / "sites-enabled" / "public-web-interface.conf": "# mine\n",
    }
    for path, text in own.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert upgradable.release("install").returncode == 0

    assert {path: path.read_text() for path in own} == own
    assert "try-reload-or-restart nginx" in upgradable.systemd.calls


def test_a_machine_gets_an_instance_for_each_core(upgradable: Server) -> None:
    upgradable.upstream.unlink()
    upgradable.play("nproc", "echo 3")

    installed = upgradable.release("install")

    assert installed.returncode == 0, installed.stderr
    assert upgradable.running() == dict.fromkeys("012", "two")
    upgraded = upgradable.upstream.read_text()
    upgradable.lead_to("0", "1", "2")
    assert upgraded == upgradable.upstream.read_text()


def test_a_release_that_nginx_does_not_take_is_not_used(upgradable: Server) -> None:
    before = upgradable.current, upgradable.running()
    upgradable.play("nginx", "exit 1")

    installed = upgradable.release("install")
    restarted = upgradable.release("use")

    assert installed.returncode == 1
    assert "nginx does not take its configuration" in installed.stderr
    assert (upgradable.current, upgradable.running()) == before
    assert "try-reload-or-restart nginx" not in upgradable.systemd.calls
    assert restarted.returncode == 0  # what stands in nginx's way may be a website's


def test_an_instance_that_nginx_no_longer_leads_to_ends(upgradable: Server) -> None:
    upgradable.systemd.enabled = {"0", "1"}
    upgradable.lead_to("0")

    assert upgradable.release("use").returncode == 0

    assert upgradable.running() == {"0": "one"}
    assert upgradable.systemd.enabled == {"0"}


def test_a_first_install_that_fails_leaves_nginx_alone(stopped: Server) -> None:
    stopped.upstream.unlink()
    snippets = stopped.directory / "nginx" / "snippets" / "public-web-interface"
    snippets.unlink()
    (stopped.systemd.home / "current").unlink()
    stopped.settings.write_text("SMTP_TIMEOUT=abc\n")

    assert stopped.release("install").returncode == 1

    assert not stopped.upstream.exists()
    assert not snippets.is_symlink()
    stopped.settings.unlink()
    stopped.play("nproc", "echo 1")
    assert stopped.release("install").returncode == 0
    assert stopped.running() == {"0": "two"}
    assert snippets.is_dir()


def test_the_units_go_back_with_the_release(upgradable: Server) -> None:
    unit = upgradable.source / "deploy" / "systemd" / "public-web-interface@.service"
    unit.write_text(unit.read_text() + "# newer\n")
    upgradable.commit("broken", added=NOT_COMING_UP["stops"][0])
    installed = upgradable.directory / "local" / "lib" / "systemd" / "system" / unit.name

    assert upgradable.release("install").returncode == 1

    assert "# newer" not in installed.read_text()


def test_an_uninstall_leaves_the_settings_and_no_trace_in_nginx(upgradable: Server) -> None:
    """The last one of the machine, of which it leaves no release."""
    nginx, elsewhere = upgradable.directory / "nginx", upgradable.directory / "website.conf"
    website = nginx / "sites-enabled" / "website"
    website.symlink_to(elsewhere)
    elsewhere.write_text("server {\n    include snippets/public-web-interface/website.conf;\n}\n")
    (nginx / "sites-enabled" / "zz-public-web-interface.conf").write_text("include snippets/public-web-interface/a;")
    before = upgradable.state()

    refused = upgradable.release("uninstall")

    assert refused.returncode == 1
    assert str(website) in refused.stderr
    assert upgradable.state() == before
    elsewhere.write_text("server {\n    # include snippets/public-web-interface/website.conf;\n}\n")
    for _ in range(2):
        removed = upgradable.release("uninstall")
        assert removed.returncode == 0, removed.stderr
    assert [path for path in nginx.rglob("*") if path.is_file()] == [website]
    assert list((upgradable.directory / "local").rglob("*public*")) == []
    assert upgradable.settings.exists()
    assert [path.name for path in upgradable.systemd.home.iterdir()] == ["source"]
    assert upgradable.systemd.processes == {}
