"""deploy/release.sh with real repositories, environments and gunicorns; only systemd is played by the test."""

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

from tests.deploy.site import NO_MAIL_SERVER, START_SECONDS, environment_file, moved_environment, read_unit
from tests.server.gunicorn import ROOT, newest_worker
from tests.waiting import wait_until

HOME = "/opt/public-web-interface"
RUN = "/run/public-web-interface"
INSTANCES = ("0", "1")
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
if pathlib.Path(__file__).with_name("hang-up").exists():
    os.kill(os.getppid(), signal.SIGHUP)
client = Client({{address!r}})
client.send(sys.argv[1:])
output, code = client.recv()
print(output, end="")
sys.exit(code)
"""


@dataclass
class Systemd:
    """Runs instances as the unit says, and serves the stand-in for systemctl."""

    directory: Path
    home: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
    """The instances that systemctl knows."""
    restarts: list[str] = field(default_factory=list)
    """The instances that systemctl has restarted, in their order,"""
    beside: list[dict[str, str]] = field(default_factory=list)
    """and the releases of the others just before."""
    forgiven: set[str] = field(default_factory=set)
    """The units of which systemctl has forgotten how often they were tried. The others were tried too often."""
    failures: list[Exception] = field(default_factory=list)
    """What the stand-in itself could not do: systemctl has failed then."""

    def __post_init__(self) -> None:
        (self.directory / "bin").mkdir()
        self._listener = Listener(address := str(self.directory / "systemd.sock"), "AF_UNIX")
        systemctl = self.directory / "bin" / "systemctl"
        systemctl.write_text(SYSTEMCTL.format(address=address))
        systemctl.chmod(0o755)
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

    def _systemctl(self, command: list[str]) -> tuple[str, int]:
        """The output and the exit code."""
        match command:
            case ["list-units", "--plain", "--no-legend", "public-web-interface@*.service"]:
                return "".join(f"public-web-interface@{instance}.service loaded\n" for instance in self.listed), 0
            case ["reset-failed", unit]:
                self.forgiven.add(unit)
                return "", 0
            case ["restart", unit] if unit not in self.forgiven:
                return "", 1
            case ["restart", unit]:
                self.forgiven.remove(unit)
                instance = unit.removeprefix("public-web-interface@").removesuffix(".service")
                self.restarts.append(instance)
                self.beside.append({other: self.release(other) for other in self.listed if other != instance})
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
        for left in (systemd.directory / "bin" / "hang-up", self.directory / "public-web-interface.env", self.added):
            left.unlink(missing_ok=True)
        for arguments in (["reset", "--hard", "--quiet", self.second], ["clean", "-ffdxq"]):
            subprocess.run(["git", "-C", self.source, *arguments], check=True)
        home = systemd.home / "releases" / self.first
        others = [name for name in systemd.processes if name not in instances or not systemd.runs_in(name, home)]
        systemd.stop(*others)
        for other in others:
            del systemd.processes[other]
        for release in self.releases:
            if release != self.first:
                shutil.rmtree(home.with_name(release))
        current = systemd.home / "current"
        current.unlink()
        current.symlink_to(Path("releases", self.first))
        missing = [instance for instance in instances if instance not in systemd.processes]
        for instance in missing:
            systemd.launch(instance)
        assert all(systemd.has_come_up(instance) for instance in missing)
        assert set(self.running().values()) <= {"one"}
        systemd.listed = instances
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
    for part in PARTS:
        subprocess.run(["cp", "-r", ROOT / part, server.source], check=True)
    (directory / "python").write_text(PYTHON)
    (directory / "python").chmod(0o755)
    script = server.source / "deploy" / "release.sh"
    text = script.read_text()
    moved = {HOME: str(systemd.home), RUN: f"{directory}/run", "/etc/": f"{directory}/", "--retry 30": "--retry 1"}
    for there, here in moved.items():
        assert there in text
        text = text.replace(there, here)
    script.write_text(text)
    subprocess.run(["git", "init", "--quiet", server.source], check=True)
    try:
        server.commit("one")
        installed = server.release("install")
        assert installed.returncode == 0, installed.stderr
        server.first = server.current
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
    systemd.listed = ()  # so that nothing is restarted
    worker = systemd.worker("0")

    assert upgradable.release("install").returncode == 0
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


def test_settings_that_need_a_library_which_a_release_lacks_restart_nothing_and_name_the_way(
    upgradable: Server,
) -> None:
    release = upgradable.systemd.home / "releases" / upgradable.first
    (libraries,) = release.glob(".venv/lib/python3*/site-packages/libraries.pth")
    (upgradable.directory / "public-web-interface.env").write_text("RATE_LIMIT_STORAGE=redis://localhost\n")
    before = upgradable.state()

    away = libraries.rename(libraries.with_suffix(".away"))
    used = upgradable.release("use")
    away.rename(libraries)

    assert (used.returncode, used.stdout) == (1, "")
    assert used.stderr == (
        f"release.sh: RATE_LIMIT_STORAGE is set, and {upgradable.first} lacks the library that it needs:"
        " use 'release.sh install'\n"
    )
    assert upgradable.state() == before
    assert upgradable.systemd.restarts == []
    assert upgradable.release("use").returncode == 0


def test_what_fails_changes_nothing(upgradable: Server) -> None:
    before = upgradable.state()
    upgradable.commit("broken", requirements="./no-such-library")

    assert upgradable.release("install").returncode != 0
    assert upgradable.release("install", "no-such-branch").returncode != 0
    assert upgradable.release("use", "no-such-release").returncode != 0
    assert upgradable.release("remove", "no-such-release").returncode != 0
    assert upgradable.release("remove").returncode != 0
    assert upgradable.release("remove", "").returncode != 0

    assert upgradable.state() == before


def test_what_is_half_made_is_not_used_and_can_be_removed(upgradable: Server) -> None:
    before = upgradable.state()
    (upgradable.systemd.home / "releases" / "half" / ".venv").mkdir(parents=True)

    assert upgradable.release("use", "half").returncode != 0
    assert upgradable.release("remove", "half").returncode == 0

    assert upgradable.state() == before


NOT_COMING_UP = {
    "stops": ("raise RuntimeError", ["0", "0"]),
    "answers 500": ("app.wsgi_app.status = '500 Internal Server Error'", ["0", "0"]),
    "stops on one core": ("if '/1/' in os.environ['BIND']: raise RuntimeError", ["0", "1", "1", "0"]),
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
    with (upgradable.systemd.home / ".lock").open("w") as lock:
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


def test_a_release_in_use_is_not_removed(upgradable: Server) -> None:
    one = upgradable.current
    upgradable.systemd.listed = ("0",)
    assert upgradable.release("install").returncode == 0
    before = upgradable.state()

    assert upgradable.release("remove", upgradable.current).returncode != 0
    assert upgradable.release("remove", one).returncode != 0  # instance 1 is still that one
    assert upgradable.state() == before
    upgradable.systemd.stop("1")
    del upgradable.systemd.processes["1"]
    assert upgradable.release("remove", one).returncode == 0

    assert one not in upgradable.releases


@pytest.mark.parametrize("name", ["../source", "{current}/", "./{current}", "{source}", "."])
@pytest.mark.parametrize("command", ["use", "remove"])
def test_what_is_not_the_name_of_a_release_is_neither_used_nor_removed(
    stopped: Server, command: str, name: str
) -> None:
    # The clone looks like a release, as after `make run` in it.
    (stopped.source / ".venv").mkdir()
    (stopped.source / ".venv" / ".run").touch()
    before = stopped.state()

    result = stopped.release(command, name.format(current=stopped.current, source=stopped.source))

    assert result.returncode != 0
    assert "is not the name of a release" in result.stderr
    assert stopped.state() == before
    assert stopped.source.is_dir()


def test_the_library_for_the_metrics_is_installed(stopped: Server) -> None:
    (stopped.source / "requirements-metrics.txt").write_text("./no-such-library")
    stopped.commit("metrics")

    installed = stopped.release("install")

    assert installed.returncode != 0
    assert "no-such-library" in installed.stderr


def test_the_library_for_redis_follows_the_settings(stopped: Server) -> None:
    settings = stopped.directory / "public-web-interface.env"
    (stopped.source / "requirements-redis.txt").write_text("./no-such-library")
    stopped.commit("redis")

    settings.write_text("RATE_LIMIT_STORAGE=redis://localhost\n")
    installed = stopped.release("install")
    assert installed.returncode != 0
    assert "no-such-library" in installed.stderr
    settings.write_text("#RATE_LIMIT_STORAGE=redis://localhost\nRATE_LIMIT_STORAGE=\n")
    assert stopped.release("install").returncode == 0


def test_the_libraries_that_the_operator_adds_are_in_each_release(stopped: Server) -> None:
    stopped.added.parent.mkdir(exist_ok=True)
    stopped.added.write_text("sentry-sdk\n./no-such-library\n")

    installed = stopped.release("install")

    assert installed.returncode != 0
    assert "no-such-library" in installed.stderr
    assert stopped.current == stopped.first
    stopped.added.write_text("sentry-sdk\n")
    assert stopped.release("install").returncode == 0
