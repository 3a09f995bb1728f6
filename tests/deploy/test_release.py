"""deploy/release.sh with real repositories, environments and gunicorns.

The test plays systemd, the programs that change the machine's users, and nginx's look at its configuration.
"""

import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Listener
from pathlib import Path

import pytest

from app.release import VERSION
from tests.deploy.site import DEPLOY, read_unit, start_instance, stop_instances
from tests.deploy.test_command import SYSTEMD_RUN
from tests.ports import free_port
from tests.programs import run, write_program
from tests.server.gunicorn import ROOT, newest_worker
from tests.waiting import wait_until

HOME = "/opt/public-web-interface"
NO_LIBRARY = "./no-such-library\n"
PARTS = ("Makefile", "app", "deploy", "gunicorn.conf.py", "requirements", "static")

SHOW_RELEASE = """
from pathlib import Path
served, release = app.wsgi_app, Path(__file__).resolve().parent.name
app.wsgi_app = lambda environ, start: served(environ, lambda *head: start(head[0], [*head[1], ("X-Release", release)]))
"""
"""Behind wsgi.py, which each worker loads by itself: an answer shows from which release."""

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

ID = 'test "$*" = "-Gn www-data" && echo www-data {} || exec /usr/bin/id "$@"'
"""The groups of nginx's user."""

HTTP, HTTPS = free_port(), free_port()
"""The ports that nginx needs on the machine."""

LISTENER = """
import pathlib, socket, sys
pathlib.Path("/proc/self/comm").write_text(sys.argv[1])
listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
print("listening", flush=True)
sys.stdin.read()
"""
"""A program of that name which listens on that port until its input ends."""

SYSTEMCTL = f"""#!{sys.executable}
import sys
from multiprocessing.connection import Client
client = Client({{address!r}})
client.send(sys.argv[1:])
output, code = client.recv()
print(output, end="")
sys.exit(code)
"""


class Machine:
    """One after the first commands of docs/deploy.md, with all that belongs to it in a folder of a test.

    It runs instances as the unit says, and serves the stand-in for systemctl.
    """

    def __init__(self, directory: Path) -> None:
        self.directory, self.home, self.nginx = directory, directory / "opt", directory / "nginx"
        self.source, self.releases = self.home / "source", self.home / "releases"
        self.settings = directory / "public-web-interface.env"
        self.libraries = directory / "public-web-interface" / "requirements.txt"
        self.upstream = self.nginx / "conf.d" / "public-web-interface.conf"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.forgiven: set[str] = set()  # the instances of which systemctl has forgotten how often they were tried
        self.nginx_runs = True
        self.calls: list[str] = []  # what systemctl was told
        self.meanwhile: list[dict[str, str]] = []  # what answers while an instance restarts
        for folder in ("opt/source", "bin", "public-web-interface", "local/bin", "log"):
            (directory / folder).mkdir(parents=True)
        for folder in ("conf.d", "snippets", "sites-enabled"):
            (self.nginx / folder).mkdir(parents=True)
        self._listener = Listener(family="AF_UNIX")
        self.play("systemctl", SYSTEMCTL.format(address=self._listener.address))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._listener.accept() as connection:
                connection.send(self._systemctl(*connection.recv()))

    def _systemctl(self, command: str, *arguments: str) -> tuple[str, int]:
        """The output and the exit code."""
        self.calls.append(" ".join([command, *arguments]))
        instance = "".join(filter(str.isdigit, " ".join(arguments)))
        named = self.processes.keys() & {instance} if instance else [*self.processes]
        output, succeeds = "", True
        match command:
            case "is-active":
                succeeds = self.nginx_runs
            case "list-units":
                output = "".join(f"public-web-interface@{running}.service loaded\n" for running in self.processes)
            case "restart":
                self.stop(*named)
                self.meanwhile.append(self.running())
                succeeds = instance in self.forgiven and self.start(instance)
                self.forgiven.discard(instance)
            case "reset-failed" if instance:
                self.forgiven.add(instance)
                succeeds = instance in self.processes
            case "disable" | "stop":
                self.stop(*named)
        return output, 0 if succeeds else 1

    def start(self, instance: str) -> bool:
        """Whether it has come up; it has ended otherwise."""
        unit = read_unit()["Service"]
        command, folder = shlex.split(unit["ExecStart"]), Path(unit["WorkingDirectory"].replace(HOME, str(self.home)))
        process = self.processes[instance] = start_instance(instance, self.directory, command, folder)
        wait_until(lambda: process.poll() is not None or self.ask(instance))
        return process.poll() is None

    def stop(self, *instances: str) -> None:
        stop_instances(*(self.processes.pop(instance) for instance in instances))

    def ask(self, instance: str) -> str:
        """What the instance answers, if it does."""
        socket = f"{self.directory}/run/{instance}/gunicorn.sock"
        asking = ["curl", "--silent", "--include", "--unix-socket", socket, "http://a/api"]
        return run(*asking).stdout

    def release(self, instance: str) -> str:
        """The subject of the commit whose release answers."""
        (commit,) = re.findall(r"^X-Release: .*-(\w+)", self.ask(instance), re.MULTILINE)
        return self.git("log", "-1", "--format=%s", commit).rstrip()

    def running(self) -> dict[str, str]:
        """The release of each instance."""
        return {instance: self.release(instance) for instance in self.processes}

    def worker(self, instance: str) -> int:
        return newest_worker((self.directory / "log" / f"{instance}.log").read_text())

    def play(self, program: str, script: str) -> None:
        """Put a program of the test before that of the machine."""
        write_program(self.directory / "bin" / program, script)

    @property
    def current(self) -> str:
        return (self.home / "current").resolve().name

    def commit(self, name: str, *, added: str = "", lacking: str = "") -> None:
        """Commit a release. The file that is lacking has a library that nobody has."""
        (self.source / "wsgi.py").write_text((ROOT / "wsgi.py").read_text() + SHOW_RELEASE + added)
        for file in ("run.txt", "metrics.txt", "redis.txt"):
            (self.source / "requirements" / file).write_text(NO_LIBRARY if file == lacking else "")
        self.git("add", "--all")
        author = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
        self.git(*author, "commit", "--quiet", "--allow-empty", "--message", name)

    def git(self, *arguments: str) -> str:
        return subprocess.check_output(["git", "-C", self.source, *arguments], text=True)

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """What root types, in a shell that hides what it makes from others."""
        environ = {
            "PATH": f"{self.directory}/bin:{os.environ['PATH']}",
            "PYTHON": str(self.directory / "bin" / "python"),
            # "0" is pip's odd way to say yes to an option that negates. The environment of a release sees all
            # libraries of this one, and pip would look for conflicts among them at each install.
            "PIP_NO_WARN_CONFLICTS": "0",
        }
        # A shell that hangs up takes its whole session along.
        return run(*command, env=environ, umask=0o077, start_new_session=True)

    def release_sh(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.source / "deploy" / "release.sh", *command.split())

    def has_releases(self, *names: str) -> None:
        """Let these be there, too, as if they had been in use."""
        for name in names:
            (self.releases / name).mkdir()
            (self.releases / name / ".whole").touch()

    def moves(self) -> list[str]:
        """What befell the instances."""
        return [call for call in self.calls if call.startswith(("restart ", "disable ", "stop "))]

    def state(self) -> tuple[list[Path], str, list[str]]:
        """What a command that is refused leaves as it was."""
        half_made = [path for path in self.releases.iterdir() if not (path / ".whole").exists()]
        return half_made, self.current, self.moves()


def restarts(instances: str) -> list[str]:
    return [f"restart public-web-interface@{instance}.service" for instance in instances]


@pytest.fixture(scope="module")
def installed_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """With the release "one", and a commit "two" after it, of which a copy is kept."""
    machine = Machine(directory := tmp_path_factory.mktemp("machine") / "now")
    subprocess.run(["cp", "-R", *(ROOT / part for part in PARTS), machine.source], check=True)
    moved = {
        HOME: str(machine.home),
        "/run/public-web-interface": f"{directory}/run",
        "/var/lib/public-web-interface": str(directory),
        "/usr/local/": f"{directory}/local/",
        "/etc/": f"{directory}/",
        "--retry 30": "--retry 1",
        ":80 or sport = :443": f":{HTTP} or sport = :{HTTPS}",
    }
    shipped = [path for path in (machine.source / "deploy").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    texts = {path: path.read_text() for path in shipped}
    for there, here in moved.items():
        assert any(there in text for text in texts.values()), there
        texts = {path: text.replace(there, here) for path, text in texts.items()}
    for path, text in texts.items():
        path.write_text(text)
    programs = {"python": PYTHON, "systemd-run": SYSTEMD_RUN, "nproc": "echo 2", "nginx": "true"}
    for program, script in (programs | {"id": ID.format("public-web-interface")}).items():
        machine.play(program, script)
    for program in ("apt-get", "groupadd", "groupdel", "useradd", "usermod"):
        machine.play(program, f"echo {program} $* >> {directory}/users")
    machine.git("init", "--quiet")
    machine.commit("one")
    installed = machine.release_sh("install")
    assert installed.returncode == 0, installed.stderr
    machine.commit("two")
    machine.stop(*machine.processes)
    shutil.copytree(directory, directory.with_name("installed"), symlinks=True)
    return machine


@pytest.fixture
def machine(installed_once: Machine) -> Iterator[Machine]:
    """With the release "one", none of whose instances runs yet."""
    machine = installed_once
    shutil.rmtree(machine.directory)
    shutil.copytree(machine.directory.with_name("installed"), machine.directory, symlinks=True)
    machine.calls.clear()
    machine.nginx_runs = True
    yield machine
    machine.stop(*machine.processes)


def test_an_instance_keeps_its_release_as_long_as_it_lives(machine: Machine) -> None:
    assert machine.release_sh("use").returncode == 0
    worker, first = machine.worker("0"), machine.current

    machine.upstream.write_text("")  # so nothing is restarted
    assert machine.release_sh("install").returncode == 1
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: machine.worker("0") != worker)
    assert machine.running() == {"0": "one", "1": "one"}
    assert Path(f"/proc/{machine.worker('0')}/cwd").resolve() == machine.releases / first
    machine.stop("0")
    assert machine.start("0")

    assert machine.running() == {"0": "two", "1": "one"}


def test_an_upgrade_restarts_one_instance_after_the_other_and_says_how_to_go_back(machine: Machine) -> None:
    assert machine.release_sh("use").returncode == 0
    machine.meanwhile.clear()

    installed = machine.release_sh("install")

    assert installed.returncode == 0, installed.stderr
    assert machine.running() == {"0": "two", "1": "two"}
    assert machine.meanwhile == [{"1": "one"}, {"0": "two"}]
    (told,) = re.findall("^To go back: (.*)$", installed.stdout, re.MULTILINE)

    *command, release = shlex.split(told)
    back = machine.run(*command, f"{VERSION}+{release}")  # as `public-web-interface version` names it

    assert back.returncode == 0, back.stderr
    assert machine.running() == {"0": "one", "1": "one"}
    assert machine.moves() == restarts("010101")


def test_new_settings_take_a_restart_with_the_release_in_use_whatever_nginx_says(machine: Machine) -> None:
    machine.play("nginx", "exit 1")  # what stands in its way may be a website's
    machine.nginx_runs = False

    used = machine.release_sh("use")

    assert (used.returncode, "nginx does not run" in used.stderr) == (0, True)
    assert machine.moves() == restarts("01")
    assert machine.running() == {"0": "one", "1": "one"}


Prepare = Callable[[Machine], object]


def commit(**parts: str) -> Prepare:
    return lambda machine: machine.commit("broken", **parts)


def write(text: str, name: str) -> Prepare:
    """Write that at the end of one of the machine's files."""

    def append(machine: Machine) -> None:
        path = machine.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)

    return append


WRONG, SAID_OF_IT = write("SMTP_TIMEOUT=abc\n", "public-web-interface.env"), "SMTP_TIMEOUT='abc': expected"
OWN_LIBRARY = write(f"sentry-sdk\n{NO_LIBRARY}", "public-web-interface/requirements.txt")
LINE_OF_A_WEBSITE = "server {\n    include snippets/public-web-interface/website.conf;\n}\n"
WEBSITE = write(LINE_OF_A_WEBSITE, "nginx/sites-enabled/website")
NOT_WHOLE = "there is no complete release"
REFUSED: dict[str, tuple[Prepare, str, str]] = {
    "code that cannot be loaded": (commit(added="raise RuntimeError"), "install", "nothing was restarted"),
    "an upgrade with wrong settings": (WRONG, "install", SAID_OF_IT),
    "a restart with wrong settings": (WRONG, "use", SAID_OF_IT),
    "no library of the metrics": (commit(lacking="metrics.txt"), "install", "no-such-library"),
    "no library of the shared limits": (commit(lacking="redis.txt"), "install", "no-such-library"),
    "no library of the operator's": (OWN_LIBRARY, "install", "no-such-library"),
    "no such branch": (commit(), "install no-such-branch", "fatal: "),
    "half a release": (write("", "opt/releases/half/wsgi.py"), "use half", NOT_WHOLE),
    "a path": (write("", "opt/source/.whole"), "use ../source", NOT_WHOLE),
    "what nginx does not take": (
        lambda machine: machine.play("nginx", "exit 1"),
        "install",
        "nginx rejects its configuration",
    ),
    "an end with a website's line": (WEBSITE, "uninstall", "/nginx/sites-enabled/website"),
}
"""What is prepared and typed, and what is said of it."""


@pytest.mark.parametrize(("prepare", "command", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_changes_nothing(machine: Machine, prepare: Prepare, command: str, said: str) -> None:
    prepare(machine)
    before = machine.state()

    refused = machine.release_sh(command)

    assert refused.returncode != 0
    assert said in refused.stderr
    assert machine.state() == before
    assert "try-reload-or-restart nginx" not in machine.calls


def test_settings_that_were_wrong_are_tried_again_by_what_was_said(machine: Machine) -> None:
    right = machine.settings.read_text()
    WRONG(machine)
    refused = machine.release_sh("install")
    machine.settings.write_text(right)

    (told,) = re.findall("type (/.*)", refused.stderr)

    assert machine.run(*shlex.split(told)).returncode == 0
    assert machine.running() == {"0": "two", "1": "two"}


def test_only_one_upgrade_is_under_way(machine: Machine) -> None:
    before, lock_file = machine.state(), machine.home / ".lock"
    assert lock_file.stat().st_mode & 0o777 == 0o600  # whoever can read it can lock it

    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = machine.release_sh("install")

    assert "another release.sh is at work" in refused.stderr
    assert machine.state() == before


APT_GET = "apt-get install -qq -y --no-upgrade"
PACKAGES = "make python3-venv nginx certbot python3-certbot-nginx curl jq nano dbus"
OTHERS = {"apache2": HTTP, "sslh-select": HTTPS}


@contextmanager
def listening(name: str, port: int) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER, name, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout
        assert program.stdout.readline()
        yield


@pytest.mark.needs("/proc")
@pytest.mark.parametrize(("name", "port"), OTHERS.items(), ids=OTHERS)
def test_nothing_is_installed_beside_another_web_server(machine: Machine, name: str, port: int) -> None:
    assert machine.release_sh("uninstall").returncode == 0
    (machine.directory / "users").write_text("")

    with listening(name, port):
        refused = machine.release_sh("install")

    said = f"release.sh: nginx was not installed: {name} has port {port}, and may have it again after a restart\n"
    assert (refused.returncode, refused.stderr) == (1, said)
    assert (machine.directory / "users").read_text() == f"{APT_GET} iproute2\n"
    assert not machine.releases.exists()


@pytest.mark.needs("/proc")
def test_what_is_missing_of_debian_s_packages_is_installed_once_beside_nginx_alone(machine: Machine) -> None:
    assert machine.release_sh("uninstall").returncode == 0
    (machine.directory / "users").write_text("")

    with listening("nginx", HTTP):
        installed = [machine.release_sh("install") for _ in range(2)]

    assert [each.returncode for each in installed] == [0, 0], installed
    run = [line for line in (machine.directory / "users").read_text().splitlines() if line.startswith("apt-get")]
    assert run == [f"{APT_GET} {packages}" for packages in ("iproute2", PACKAGES)]


ANSWERS_500 = "app.wsgi_app = lambda _, start: start('500 Internal Server Error', []) and []"
STOPS_ON_A_CORE = "import os\nassert '/1/' not in os.environ.get('BIND', '')"
NOT_COMING_UP = {"answers 500": (ANSWERS_500, "00"), "stops on one core": (STOPS_ON_A_CORE, "0110")}


@pytest.mark.parametrize(("added", "instances"), NOT_COMING_UP.values(), ids=NOT_COMING_UP)
def test_an_upgrade_that_does_not_come_up_goes_back(machine: Machine, added: str, instances: str) -> None:
    first = machine.current
    unit = machine.source / "deploy" / "systemd" / "public-web-interface@.service"
    unit.write_text(unit.read_text() + "# newer\n")
    machine.commit("broken", added=added)

    installed = machine.release_sh("install")

    assert installed.returncode == 1
    assert f"the restarted instances are back at {first}" in installed.stderr
    assert machine.current == first
    assert machine.running() == dict.fromkeys({*instances}, "one")
    assert machine.moves() == restarts(instances)
    assert "# newer" not in (machine.directory / "local" / "lib" / "systemd" / "system" / unit.name).read_text()


def test_a_session_that_ends_meanwhile_leaves_no_half_of_an_upgrade(machine: Machine) -> None:
    machine.play("nginx", "kill -HUP $PPID")

    assert machine.release_sh("install").returncode == 0

    assert machine.running() == {"0": "two", "1": "two"}


def test_the_newest_five_releases_that_came_up_stay_and_those_in_use(machine: Machine) -> None:
    first, old = machine.current, [f"2020010{day}T000000Z-0000000" for day in range(1, 9)]
    machine.has_releases(*old)
    (machine.releases / old[6] / ".untried").touch()
    (machine.releases / old[7] / ".whole").unlink()  # of a run that was killed
    with subprocess.Popen(["sleep", "60"], cwd=machine.releases / old[0]) as running:
        installed = machine.release_sh("install")
        running.kill()

    assert installed.returncode == 0
    stay = {old[0], *old[2:6], first, machine.current}
    assert {path.name for path in machine.releases.iterdir()} == stay


def test_a_release_that_never_was_in_use_takes_no_other_one_s_place(machine: Machine) -> None:
    machine.commit("broken", added=ANSWERS_500)
    old = [machine.current, *(f"2020010{day}T000000Z-0000000" for day in range(1, 5))]
    machine.has_releases(*old[1:])
    assert machine.release_sh("install").returncode == 1
    assert {*old} < {path.name for path in machine.releases.iterdir()}

    machine.commit("mended")
    assert machine.release_sh("install").returncode == 0

    assert {path.name for path in machine.releases.iterdir()} == {*old, machine.current}


def test_what_the_operator_changes_survives_an_upgrade(machine: Machine) -> None:
    own = {
        machine.settings: machine.settings.read_text() + "SMTP_PASSWORD=secret\n",
        machine.upstream: machine.upstream.read_text() + "# mine\n",
        machine.directory / "systemd" / "system" / "public-web-interface@.service.d" / "override.conf": "[Service]\n",
        machine.nginx / "sites-enabled" / "public-web-interface.conf": "# mine\n",
        machine.libraries: "sentry-sdk\n",
    }
    for path, text in own.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert machine.release_sh("install").returncode == 0

    assert {path: path.read_text() for path in own} == own
    assert "try-reload-or-restart nginx" in machine.calls


def test_nginx_may_reach_the_sockets_before_the_first_instance_has_its_own_in_another_group(machine: Machine) -> None:
    machine.play("id", ID.format("public-web-interface-operators"))

    assert machine.release_sh("install").returncode == 0

    added = "usermod --append --groups public-web-interface www-data"
    assert added in (machine.directory / "users").read_text().splitlines()
    moves = [call for call in machine.calls if "restart" in call]
    assert moves == ["try-reload-or-restart nginx", *restarts("01"), "try-reload-or-restart nginx"]


def test_an_instance_that_nginx_no_longer_leads_to_ends(machine: Machine) -> None:
    assert machine.release_sh("use").returncode == 0
    machine.upstream.write_text(re.sub(".*/run/1/.*", "", machine.upstream.read_text()))

    assert machine.release_sh("use").returncode == 0

    assert machine.running() == {"0": "one"}
    assert machine.moves()[3:] == ["disable --quiet --now public-web-interface@1.service"]


def test_an_uninstall_leaves_the_settings_and_no_trace_in_nginx(machine: Machine) -> None:
    website = machine.nginx / "sites-enabled" / "website"
    website.symlink_to(elsewhere := machine.directory / "website.conf")
    elsewhere.write_text(LINE_OF_A_WEBSITE.replace("include", "# include"))
    (machine.nginx / "sites-enabled" / "zz-public-web-interface.conf").write_text(
        "include snippets/public-web-interface/a;"
    )

    assert machine.release_sh("use").returncode == 0

    removed, again = (machine.release_sh("uninstall") for _ in range(2))

    assert (removed.returncode, again.returncode) == (0, 0), removed.stderr + again.stderr
    assert [path for path in machine.nginx.rglob("*") if path.is_file()] == [website]
    assert list((machine.directory / "local").rglob("*public*")) == []
    assert machine.settings.exists()
    assert [path.name for path in machine.home.iterdir()] == ["source"]
    assert machine.processes == {}


def test_a_first_install_lays_all_that_the_service_needs_and_one_that_fails_leaves_nginx_as_it_was(
    machine: Machine,
) -> None:
    assert machine.release_sh("uninstall").returncode == 0
    before = sorted(machine.nginx.rglob("*"))
    machine.play("nproc", "echo 3")

    def is_refused(reason: str) -> None:
        refused = machine.release_sh("install")
        assert (refused.returncode, reason in refused.stderr) == (1, True)
        assert sorted(machine.nginx.rglob("*")) == before

    machine.settings.write_text("SMTP_TIMEOUT=abc\n")
    is_refused("SMTP_TIMEOUT")
    machine.settings.unlink()
    machine.play("nginx", "exit 1")
    is_refused("nginx rejects its configuration")
    machine.play("nginx", "true")
    assert machine.release_sh("install").returncode == 0

    assert machine.running() == dict.fromkeys("012", "two")
    assert re.findall(r"^ *server unix:.*/run/(\d)/gunicorn.sock ", machine.upstream.read_text(), re.MULTILINE) == [
        *"012"
    ]
    assert [call[-9] for call in machine.calls if call.startswith("enable ")] == [*"012"]
    assert (machine.nginx / "snippets" / "public-web-interface" / "website.conf").is_file()
    assert (machine.directory / "users").read_text().splitlines()[2:6] == [
        "groupadd --system --force public-web-interface",
        "useradd --system --gid public-web-interface --home-dir /nonexistent --shell /usr/sbin/nologin public-web-interface",
        "usermod --gid public-web-interface public-web-interface",
        "groupadd --system --force public-web-interface-operators",
    ]
    assert (machine.directory / "sudoers.d" / "public-web-interface").stat().st_mode & 0o777 == 0o440
    assert (machine.directory / "local" / "bin" / "public-web-interface").resolve().is_file()
    assert machine.settings.stat().st_mode & 0o777 == 0o600
    units = machine.directory / "local" / "lib" / "systemd" / "system"
    assert {path.name for path in units.iterdir()} == {path.name for path in (DEPLOY / "systemd").iterdir()}
    assert (units / "public-web-interface@.service.d" / "10-sandbox.conf").read_text()
    release = machine.releases / machine.current
    read_by_the_user = (release, release / "app", release / "wsgi.py", release / ".venv" / "bin" / "gunicorn")
    assert [path for path in read_by_the_user if path.stat().st_mode & 0o044 != 0o044] == []
