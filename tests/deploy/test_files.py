"""The shipped files against the code, nginx and systemd."""

import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from gunicorn.config import WorkerConnections

from app.settings import MAX_TIMEOUT, Settings
from tests.deploy.site import DEPLOY, SERVER_NAME, Site, environment_file, read_unit
from tests.programs import run, write_program
from tests.server.gunicorn import ROOT, newest_worker, serving
from tests.versions import CONTACT_PATHS
from tests.waiting import wait_until


def read(pattern: str) -> str:
    """The texts of these files in deploy/."""
    return "\n".join(path.read_text() for path in sorted(DEPLOY.glob(pattern)))


HTTP, ANSWERS, LOCATION, SERVER, LIMITS, TLS = (
    read(f"nginx/snippets/{name}.conf") for name in ("http", "answers", "service", "server", "limits", "tls")
)
ENVIRONMENT = read("public-web-interface.env")
NAMES = ("@.service", "-failure@.service", "-watch.service")
INSTANCE, FAILURE, WATCH = (read(f"systemd/public-web-interface{name}") for name in NAMES)
TELLING = read("systemd/public-web-interface-.service.d/*")
"""What both units that tell the operator have in common."""


def test_gixy_finds_nothing_that_is_not_explained(tmp_path: Path) -> None:
    check = run(Path(sys.executable).with_name("gixy"), "--format=json", Site(tmp_path).render())

    found = {(Path(finding["path"]).name, finding["plugin"]) for finding in json.loads(check.stdout)}
    # Debian's nginx.conf allows old versions of TLS and lets the server choose the cipher: the site sets both itself.
    assert found == {("nginx.conf", "weak_ssl_tls")}


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A folder with the units. Their programs are those of this clone."""
    shutil.copytree(DEPLOY / "systemd", tmp_path, dirs_exist_ok=True)
    for unit in [path for path in tmp_path.iterdir() if path.is_file()]:
        text = unit.read_text().replace("/opt/public-web-interface/current/deploy/", f"{DEPLOY}/")
        unit.rename(unit.with_name(unit.name.replace("@", "@0"))).write_text(text)
    return tmp_path


def test_systemd_takes_the_units(units: Path) -> None:
    names = [unit for unit in units.iterdir() if unit.is_file()]

    check = run("systemd-analyze", "verify", *names, env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"})

    assert (len(names), check.returncode, check.stderr) == (4, 0, "")


@pytest.mark.parametrize(("name", "exposure"), [(NAMES[0], 14), (NAMES[1], 24), (NAMES[2], 24)])
def test_the_unit_shuts_its_programs_in(units: Path, name: str, exposure: int) -> None:
    """Of 100, as systemd-analyze counts: what is left is the network and chown, and what sendmail needs."""
    unit = units / f"public-web-interface{name}".replace("@", "@0")

    check = run("systemd-analyze", "security", "--offline=true", f"--threshold={exposure}", unit)

    assert check.returncode == 0, check.stdout


LINES = {
    "as the same user": (TELLING + INSTANCE, "^User=", ["public-web-interface"] * 2),
    "with the same settings": (INSTANCE + WATCH, "^EnvironmentFile=", ["/etc/public-web-interface.env"] * 2),
    "a group of its own, not that of PHP": (INSTANCE, "^Group=", ["public-web-interface"]),
    "who alone reaches the sockets": (INSTANCE, "^RuntimeDirectoryMode=", ["0750"]),
}
"""Lines of the units, and their values."""


@pytest.mark.parametrize(("text", "line", "values"), LINES.values(), ids=LINES)
def test_the_units_say(text: str, line: str, values: list[str]) -> None:
    assert re.findall(rf"{line}(.*)", text, re.MULTILINE) == values


def test_messages_are_kept_where_systemd_lets_the_service_write() -> None:
    (folder,) = re.findall("^StateDirectory=(.*)", INSTANCE, re.MULTILINE)

    assert environment_file()["MAIL_DIR"].startswith(f"/var/lib/{folder}/")


def test_each_cipher_of_tls_1_2_has_forward_secrecy_and_authenticated_encryption() -> None:
    (ciphers,) = re.findall("ssl_ciphers (.*);", TLS)
    context = ssl.create_default_context()
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")

    found = {(it["kea"], it["aead"]) for it in context.get_ciphers() if it["protocol"] != "TLSv1.3"}
    assert found == {("kx-ecdhe", True)}
    assert {*re.findall(r"TLSv[\d.]+", "".join(re.findall("ssl_protocols .*", TLS)))} == {"TLSv1.2", "TLSv1.3"}


# A process holds a connection to the mail server, one to Redis and the file of a message for each of its threads.
THREADS, SMTP_TIMEOUT = 32, 10
NUMBERS = {
    "to send when it stops": (INSTANCE, r"TimeoutStopSec=(\d+)", MAX_TIMEOUT + 11),
    "to look at the mail": (WATCH, r"TimeoutStartSec=(\d+)min", (2 * MAX_TIMEOUT + 60 + 2 * 30) / 60 + 0.1),
    "to try ten times though each hangs": (INSTANCE, r"StartLimitIntervalSec=(\d+)min", 10 * (90 + 1) / 60 + 0.1),
    "descriptors": (INSTANCE, r"LimitNOFILE=(\d+)", 2 * (WorkerConnections.default + 3 * THREADS)),
    "wait for an answer": (LOCATION, r"proxy_read_timeout (\d+)s", SMTP_TIMEOUT + 1),
}


@pytest.mark.parametrize(("text", "line", "least"), NUMBERS.values(), ids=NUMBERS)
def test_there_is_enough(text: str, line: str, least: float) -> None:
    (number,) = re.findall(line, text)

    assert int(number) >= least


def test_a_client_may_open_twice_what_nginx_serves_it_at_a_time_over_either_version_of_http() -> None:
    (streams,) = re.findall("http2_max_concurrent_streams (.*);", SERVER)
    (served,) = re.findall("limit_conn public_web_interface_clients (.*);", LIMITS)

    assert streams == served
    assert re.findall("ct count over (.*?) }", read("nftables/*")) == [str(2 * int(served))] * 3


@pytest.mark.needs("/proc")
@pytest.mark.parametrize("instance", [0, 1, 9])
def test_an_instance_runs_on_one_core_of_those_that_there_are(tmp_path: Path, instance: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    options = shlex.split(read_unit()["Service"]["ExecStartPost"].removeprefix("-+/usr/bin/python3"))

    def chosen(process: int) -> set[int]:
        threads = [int(thread.name) for thread in Path(f"/proc/{process}/task").iterdir()]
        return {core for thread in threads for core in os.sched_getaffinity(thread)}

    with serving(tmp_path) as server:
        environ = {"%i": str(instance), "$MAINPID": str(server.process.pid)}
        subprocess.run([sys.executable, *(environ.get(option, option) for option in options)], cwd=ROOT, check=True)
        first = newest_worker(server.log)
        found = [chosen(process) for process in (server.process.pid, first)]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: newest_worker(server.log) != first)
        found.append(chosen(newest_worker(server.log)))

    assert found == [{cores[instance % len(cores)]}] * 3


ANSWERS_OF_SYSTEMCTL = {
    "while the first one is about to restart": ("1", ["17", "17", "0", "18"], ["18"]),
    "without an answer": ("1", [], []),
    "as the first one": ("0", ["17"], ["17"]),
}


@pytest.mark.parametrize(("instance", "answers", "left"), ANSWERS_OF_SYSTEMCTL.values(), ids=ANSWERS_OF_SYSTEMCTL)
def test_no_instance_stops_before_the_first_one_serves_again(
    tmp_path: Path, instance: str, answers: list[str], left: list[str]
) -> None:
    """systemd 252 and 257 did so when it was tried by hand; here its program is played."""
    command = shlex.split(read_unit()["Service"]["ExecStop"].replace("%i", instance))
    file = tmp_path / "answers"
    file.write_text("\n".join(answers))
    asked = 'test "$*" = "show -P Job public-web-interface@0.service"'
    write_program(tmp_path / "systemctl", f"{asked} || exit 1\nsed -n 1p {file}\nsed -i 1d {file}")

    subprocess.run(command, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True, timeout=20)

    assert file.read_text().split() == left


def test_the_script_reads_the_settings_of_its_example() -> None:
    named = re.findall(r"^([A-Z_]+)=", read("public-web-interface-watch.env"), re.MULTILINE)

    assert named == re.findall(r"\$\{(WATCH_[A-Z]+)-\}", read("watch.sh"))


def test_the_example_is_accepted(tmp_path: Path) -> None:
    settings = Settings.from_env(environment_file() | {"MAIL_DIR": str(tmp_path)})

    assert (settings.trusted_proxies, settings.public_base_url) == (1, f"https://{SERVER_NAME}")
    assert (settings.threads, settings.smtp_timeout) == (THREADS, SMTP_TIMEOUT)


@pytest.mark.parametrize("field", ["quota", "window"])
def test_nginx_knows_the_contact_paths(field: str) -> None:
    (pattern,) = re.findall(rf'map \$request_uri \$public_web_interface_{field} {{\n.*\n +"~(.*)" \d+;', HTTP)

    for path in CONTACT_PATHS:
        assert [bool(re.search(pattern, f"{path}{end}")) for end in ("", "?x=1", "/x")] == [True, True, False]
