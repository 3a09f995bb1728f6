"""The Makefile and .ci/run say what they install before they do, and a missing network in one line."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.gunicorn import ROOT

APT_GET = 'echo "apt-get $*"; exit 1'
OFFLINE_NPM = """
echo "npm error code ECONNREFUSED"
echo "npm error FetchError: request to http://127.0.0.1:1/yargs-parser failed, reason: connect ECONNREFUSED 127.0.0.1:1"
exit 1
"""
UNREACHABLE = "cannot reach its index, or the index lacks a package: is the network there? See build/"


class Machine:
    """A clone of the project on a machine that has only the programs which a test gives it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._programs = directory / "bin"
        self._programs.mkdir()
        for name in ("bash", "cat", "dirname", "env", "grep", "id", "make", "mkdir", "sh", "touch"):
            (self._programs / name).symlink_to(shutil.which(name) or name)
        for name in ("Makefile", ".ci/run"):
            (directory / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
        self.add("sudo", 'exec "$@"')

    def add(self, name: str, script: str) -> None:
        """Install a program, or one of the virtual environment when its name begins with .venv/."""
        path = self.directory / name if "/" in name else self._programs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            env={"PATH": str(self._programs)} | environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def closed() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


def faults(result: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines on standard error without those of make itself."""
    assert result.returncode != 0
    return [line for line in result.stderr.splitlines() if not line.startswith("make: ")]


@pytest.fixture
def developed(machine: Machine) -> Machine:
    """One whose libraries are installed."""
    for name in ("python", "coverage"):
        machine.add(f".venv/bin/{name}", "")
    (machine.directory / "node_modules").mkdir()
    for name in (
        *("requirements-dev.txt", ".venv/.dev", "package-lock.json", "node_modules/.package-lock.json"),
        *("requirements-clients.txt", ".venv-clients/.clients"),
        *("tests/clients/package-lock.json", "tests/clients/node_modules/.package-lock.json"),
    ):
        (machine.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.directory / name).touch()
    return machine


@pytest.mark.parametrize(
    ("target", "packages"),
    [
        ("test-deploy", "nginx nftables sudo iproute2 systemd jq"),
        ("test-mta", "postfix libsasl2-modules opendkim opendkim-tools"),
        ("test-message", "spamassassin mutt"),
        ("check", "nginx nftables sudo iproute2 systemd jq chromium firefox-esr redis-server"),
    ],
)
def test_what_is_missing_is_named_with_the_reason_before_it_is_installed(
    developed: Machine, target: str, packages: str
) -> None:
    developed.add("apt-get", APT_GET)
    developed.add("curl", "")

    result = developed.run("make", target)

    assert result.stdout.splitlines() == [
        f"Installing Debian's packages {packages}, which 'make {target}' needs",
        "apt-get update -qq",
    ]
    assert faults(result) == [f"Debian's packages {packages} could not be installed: please install them"]


def test_libraries_that_are_no_programs_are_installed_as_well(developed: Machine) -> None:
    developed.add("apt-get", 'echo "$*"')
    developed.add("debconf-set-selections", "exec cat")
    developed.add("javac", "")
    (developed.directory / "usr/share/php/GuzzleHttp").mkdir(parents=True)

    result = developed.run("make", "--silent", "test-clients", f"USR={developed.directory}/usr")

    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if line.startswith("install ")] == [
        "install -y -qq --no-remove --no-install-recommends php-cli php-mbstring php-curl",
    ]


def test_the_installation_asks_nothing_removes_nothing_and_starts_no_mail_server(developed: Machine) -> None:
    developed.add("apt-get", 'echo "$DEBIAN_FRONTEND apt-get $*"')
    developed.add("debconf-set-selections", "exec cat")

    result = developed.run("make", "--silent", "test-mta")

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1:] == [
        " apt-get update -qq",
        "postfix postfix/main_mailer_type select No configuration",
        "noninteractive apt-get install -y -qq --no-remove postfix libsasl2-modules opendkim opendkim-tools",
    ]


def test_no_daemon_comes_with_a_program_that_recommends_one(developed: Machine) -> None:
    developed.add("apt-get", 'echo "$*"')
    developed.add("debconf-set-selections", "exec cat")

    result = developed.run("make", "--silent", "test-message")

    assert result.returncode == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if line.startswith("install ")] == [
        "install -y -qq --no-remove --no-install-recommends spamassassin mutt",
        "install -y -qq --no-remove chromium",
    ]


def test_what_is_there_is_not_named(developed: Machine) -> None:
    developed.add("redis-server", "")

    result = developed.run("make", "--silent", "test-redis")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


DOWNLOAD = """
echo "apt-get $*"
test "$1" = update && touch lists && exit
test -e lists && touch prometheus_2.42_amd64.deb
"""
UNPACK = """
echo "dpkg-deb $*"
mkdir -p "$3/usr/bin"
cp ../bin/true "$3/usr/bin/prometheus"
cp ../bin/true "$3/usr/bin/promtool"
"""
UNPACKING = "Unpacking Debian's package prometheus in build/prometheus, which 'make test-monitoring' needs"


def test_prometheus_is_unpacked_and_not_installed(developed: Machine) -> None:
    for name in ("cp", "rm"):
        (developed.directory / "bin" / name).symlink_to(shutil.which(name) or name)
    developed.add("true", "")
    developed.add("apt-get", DOWNLOAD)
    developed.add("dpkg-deb", UNPACK)
    developed.add(".venv/bin/python", "command -v prometheus; command -v promtool; touch build/alert.txt")

    first = developed.run("make", "--silent", "test-monitoring")
    second = developed.run("make", "--silent", "test-monitoring")

    found = [f"{developed.directory}/build/prometheus/usr/bin/{name}" for name in ("prometheus", "promtool")]
    assert first.stdout.splitlines() == [
        UNPACKING,
        "apt-get download -qq -o APT::Sandbox::User=root prometheus",
        "apt-get update -qq",
        "apt-get download -qq -o APT::Sandbox::User=root prometheus",
        "dpkg-deb -x prometheus_2.42_amd64.deb prometheus",
        *found,
    ]
    assert second.stdout.splitlines() == found
    assert not list((developed.directory / "build").glob("*.deb"))


def test_a_prometheus_that_cannot_be_unpacked_is_one_line(developed: Machine) -> None:
    (developed.directory / "bin" / "rm").symlink_to(shutil.which("rm") or "rm")
    developed.add("apt-get", APT_GET)

    result = developed.run("make", "test-monitoring")

    assert result.stdout.splitlines()[0] == UNPACKING
    assert faults(result) == [
        "Debian's package prometheus could not be unpacked: please put prometheus and promtool on PATH"
    ]


def test_ci_names_npm_before_it_installs_it(machine: Machine) -> None:
    machine.add("apt-get", APT_GET)

    result = machine.run(".ci/run")

    assert result.stdout.splitlines() == [
        "npm is missing: installing Debian's packages nodejs and npm, which 'make check' needs",
        "apt-get update -qq",
    ]


PIP = f'exec {sys.executable} "$@"'
OFFLINE_PIP = 'test "$2" = venv || { echo "ERROR: No matching distribution found for flask==3.1.3"; exit 1; }'


@pytest.mark.parametrize(
    ("target", "libraries", "environment", "pip"),
    [
        ("run", "requirements.txt", ".venv", PIP),
        ("lint", "requirements-dev.txt", ".venv", OFFLINE_PIP),
        ("bench", "requirements-bench.txt", ".venv-bench", OFFLINE_PIP),
        (".venv-clients/.clients", "requirements-clients.txt", ".venv-clients", OFFLINE_PIP),
    ],
    ids=["run", "dev", "bench", "clients"],
)
def test_an_index_out_of_reach_is_one_line(
    machine: Machine, closed: str, target: str, libraries: str, environment: str, pip: str
) -> None:
    for name in (".venv", ".venv-bench", ".venv-clients"):
        machine.add(f"{name}/bin/python", pip)
    (machine.directory / libraries).write_text("flask==3.1.3 --hash=sha256:" + "0" * 64)
    environ = {"PIP_INDEX_URL": closed, "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull, "PIP_IGNORE_INSTALLED": "1"}

    result = machine.run("make", target, PIP_TARGET=str(machine.directory / "installed"), **environ)

    assert f"Installing the libraries of {libraries} into {environment}\n" in result.stdout
    assert faults(result) == [f"pip {UNREACHABLE}pip.log"]
    assert "No matching distribution" in (machine.directory / "build" / "pip.log").read_text()


def test_a_wrong_hash_is_no_fault_of_the_network(machine: Machine) -> None:
    machine.add(".venv/bin/python", PIP)
    with zipfile.ZipFile(machine.directory / "forged-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("forged.py", "")
    (machine.directory / "requirements.txt").write_text(f"./{Path(str(wheel.filename)).name} --hash=sha256:{'0' * 64}")

    result = machine.run("make", "run", PIP_NO_INDEX="1", PIP_TARGET=str(machine.directory / "installed"))

    assert "DO NOT MATCH THE HASHES" in result.stderr
    assert "network" not in result.stderr


@pytest.mark.parametrize(
    ("npm", "said"),
    [
        pytest.param(OFFLINE_NPM, f"npm {UNREACHABLE}npm.log", id="out of reach"),
        pytest.param("echo 'npm error code EINTEGRITY'; exit 1", "npm error code EINTEGRITY", id="a wrong hash"),
    ],
)
def test_what_npm_downloads_is_said_first_and_a_fault_in_one_line(machine: Machine, npm: str, said: str) -> None:
    machine.add("npm", npm)
    (machine.directory / "package-lock.json").touch()

    result = machine.run("make", "node_modules/.package-lock.json")

    assert result.stdout == (
        "Downloading the packages of package-lock.json with npm: "
        "'make docs', 'make lint-api', 'make test-browser' and 'make test-message' need them\n"
    )
    assert faults(result) == [said]


def test_the_packages_of_the_generators_are_downloaded_by_their_own_npm(developed: Machine) -> None:
    developed.add(".venv-clients/bin/npm", f'echo "$*"; {OFFLINE_NPM}')
    (developed.directory / "tests/clients/node_modules/.package-lock.json").unlink()

    result = developed.run("make", "test-clients")

    assert result.stdout == (
        "Downloading the packages of tests/clients/package-lock.json with npm: 'make test-clients' needs them\n"
    )
    assert faults(result) == [f"npm {UNREACHABLE}npm.log"]
    assert (developed.directory / "build/npm.log").read_text().startswith("--prefix=tests/clients ci --ignore-scripts")
