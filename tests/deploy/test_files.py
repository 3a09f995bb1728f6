"""The shipped files against the code, nginx and systemd."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gunicorn.config import WorkerConnections

from app import API_POLICY, CONTACT_POLICY, envelope
from app.api.body import MAX_BODY_BYTES, invalid_body
from app.api.paths import CONTACT, DOCUMENT, LEGACY_CONTACT
from app.errors import ApiError, ErrorCode
from app.settings import MAX_TIMEOUT, Settings
from app.versions import API_ROOT, V1
from tests.deploy.site import (
    DEPLOY,
    SERVER_NAME,
    Site,
    environment_file,
    installed_files,
    read_unit,
    unit_environment,
)
from tests.programs import write_program
from tests.server.gunicorn import ROOT

HTTP, ANSWERS, LOCATION = (
    (DEPLOY / "nginx" / "snippets" / f"{name}.conf").read_text() for name in ("http", "answers", "service")
)
UPSTREAM = (DEPLOY / "nginx" / "public-web-interface.conf").read_text()
ENVIRONMENT = (DEPLOY / "public-web-interface.env").read_text()
CONTACT_PATHS = (LEGACY_CONTACT, f"{API_ROOT}/{V1}{CONTACT}")
SERVICE, FAILURE, WATCH, TIMER = (
    f"public-web-interface{unit}" for unit in ("@.service", "-failure@.service", "-watch.service", "-watch.timer")
)
FOLDERS = ("public-web-interface@.service.d", "public-web-interface-.service.d")
"""The drop-ins of the instances, and those of the units whose names begin with public-web-interface-."""


def run(*command: object, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], env=os.environ | environ, capture_output=True, text=True, check=False
    )


def test_nginx_takes_the_site(tmp_path: Path) -> None:
    main = Site(tmp_path, {}).render()

    check = run("nginx", "-t", "-c", main)

    assert check.returncode == 0, check.stderr
    assert "warn" not in check.stderr


def test_gixy_finds_nothing_that_is_not_explained(tmp_path: Path) -> None:
    check = run(Path(sys.executable).with_name("gixy"), "--format=json", Site(tmp_path, {}).render())

    found = {(Path(finding["path"]).name, finding["plugin"]) for finding in json.loads(check.stdout)}
    # Debian's nginx.conf allows old versions of TLS and lets the server choose the cipher: the site sets both itself.
    assert found == {("nginx.conf", "weak_ssl_tls")}


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A folder with the units. Their programs are those of this clone."""
    for folder in FOLDERS:
        shutil.copytree(DEPLOY / "systemd" / folder, tmp_path / folder)
    for unit in (SERVICE, FAILURE, WATCH, TIMER):
        text = (DEPLOY / "systemd" / unit).read_text()
        (tmp_path / unit.replace("@", "@0")).write_text(
            text.replace("/opt/public-web-interface/current/deploy/", f"{DEPLOY}/")
        )
    return tmp_path


def test_no_unit_is_forgotten() -> None:
    assert {path.name for path in (DEPLOY / "systemd").iterdir()} == {SERVICE, FAILURE, WATCH, TIMER, *FOLDERS}


@pytest.mark.parametrize("unit", [SERVICE, FAILURE, WATCH, TIMER])
def test_systemd_takes_the_unit(units: Path, unit: str) -> None:
    check = run("systemd-analyze", "verify", units / unit.replace("@", "@0"), SYSTEMD_UNIT_PATH=f"{units}:")

    assert (check.returncode, check.stderr) == (0, "")


@pytest.mark.parametrize(("unit", "exposure"), [(SERVICE, 14), (FAILURE, 24), (WATCH, 24)])
def test_the_unit_shuts_its_programs_in(units: Path, unit: str, exposure: int) -> None:
    """Of 100, as systemd-analyze counts: what is left is the network and chown, and what sendmail needs."""
    check = run(
        "systemd-analyze", "security", "--offline=true", f"--threshold={exposure}", units / unit.replace("@", "@0")
    )

    assert check.returncode == 0, check.stdout


WATCH_SH = (
    "!/usr/bin/setpriv --reuid=public-web-interface --regid=nogroup --init-groups"
    " /opt/public-web-interface/current/deploy/watch.sh"
)
UNIT, FAILING, WATCHING, TELLING = (
    "\n".join(path.read_text() for path in sorted((DEPLOY / "systemd").glob(pattern)))
    for pattern in (SERVICE, FAILURE, WATCH, f"{FOLDERS[1]}/*")
)
ONCE_A_MINUTE = [
    f"-{WATCH_SH} failure %i",
    "/bin/sleep 60",
    "+/bin/systemctl reset-failed public-web-interface@%i.service",
    "+/bin/systemctl --no-block start public-web-interface@%i.service",
]
LINES = {
    "who tells that an instance does not come up": (UNIT, "^OnFailure=", "public-web-interface-failure@%i.service"),
    "ten tries": (UNIT, "^StartLimitBurst=", "10"),
    "a second after each other": (UNIT, "^RestartSec=", "1"),
    "an end to telling": (FAILING, "^PartOf=", "public-web-interface@%i.service"),
    "no end to trying": (FAILING, "^StartLimitIntervalSec=", "0"),
    "telling, a minute's wait, and new tries": (FAILING, "^ExecStart=", ONCE_A_MINUTE),
    "the settings of the service": (UNIT, "^EnvironmentFile=", "/etc/public-web-interface.env"),
    "a look at the mail": (WATCHING, "^ExecStart=", f"{WATCH_SH} mail"),
    "with the same settings": (WATCHING, "^EnvironmentFile=", "/etc/public-web-interface.env"),
    "as the same user": (TELLING + UNIT, "^User=", ["public-web-interface"] * 2),
    "whom to tell": (TELLING, "^EnvironmentFile=", "-/etc/public-web-interface-watch.env"),
    "what was told": (TELLING, "^RuntimeDirectory=", "public-web-interface-watch"),
    "for more than one run": (TELLING, "^RuntimeDirectoryPreserve=", "yes"),
    "where messages are kept": (UNIT, "^StateDirectory=", "public-web-interface"),
    "no connection of nginx that is kept": (HTTP + LOCATION + UPSTREAM, "^ *keepalive|header Connection", []),
    "whose requests end with it": (LOCATION, "proxy_http_version ", "1.0;"),
    "nor one of gunicorn": ((ROOT / "gunicorn.conf.py").read_text(), "^keepalive = ", "0"),
    "the address of a client, not what it says": (LOCATION, "header X-Forwarded-For ", "$remote_addr;"),
    "a folder for messages": (ENVIRONMENT, "^MAIL_DIR=", "/var/lib/public-web-interface/mail"),
}
"""A line of a shipped file, and its value. systemd 252 did what these are for when it was tried by hand."""


@pytest.mark.parametrize(("text", "line", "values"), LINES.values(), ids=LINES)
def test_the_files_say(text: str, line: str, values: str | list[str]) -> None:
    found = re.findall(rf"(?:{line})(.*)", text, re.MULTILINE)

    assert found == (values if isinstance(values, list) else [values])


# A process holds a connection to the mail server, one to Redis and the file of a message for each of its threads.
THREADS, SMTP_TIMEOUT = 32, 10
DESCRIPTORS = 2 * (WorkerConnections.default + 3 * THREADS)
NUMBERS = {
    "to hand over when it stops": (UNIT, r"TimeoutStopSec=(\d+)", MAX_TIMEOUT + 11),
    "to look at the mail": (WATCHING, r"TimeoutStartSec=(\d+)min", (2 * MAX_TIMEOUT + 60 + 2 * 30) / 60 + 0.1),
    "to try ten times though each hangs": (UNIT, r"StartLimitIntervalSec=(\d+)min", 10 * (90 + 1) / 60 + 0.1),
    "descriptors": (UNIT, r"LimitNOFILE=(\d+)", DESCRIPTORS),
    # No message is written to nginx's disk. With as much memory as the limit, those in chunks would be.
    "memory for a body": (LOCATION, r"client_body_buffer_size (\d+)k", 2 * MAX_BODY_BYTES / 1024),
    "wait for an answer": (LOCATION, r"proxy_read_timeout (\d+)s", SMTP_TIMEOUT + 1),
}


@pytest.mark.parametrize(("text", "line", "least"), NUMBERS.values(), ids=NUMBERS)
def test_there_is_enough(text: str, line: str, least: float) -> None:
    (number,) = re.findall(line, text)

    assert int(number) >= least


ANSWERS_OF_SYSTEMCTL = {
    "the first one is about to restart": (["17", "17", "0", "0"], 3),
    "nothing is under way": (["0"], 1),
    "no answer": ([""], 1),
}


@pytest.mark.parametrize("instance", ["0", "1", "2"])
@pytest.mark.parametrize(("answers", "asked"), ANSWERS_OF_SYSTEMCTL.values(), ids=ANSWERS_OF_SYSTEMCTL)
def test_no_instance_stops_before_the_first_one_serves_again(
    tmp_path: Path, instance: str, answers: list[str], asked: int
) -> None:
    """systemd 252 and 257 did so when it was tried by hand; here its program is played."""
    command = shlex.split(read_unit()["Service"]["ExecStop"].replace("%i", instance))
    (tmp_path / "answers").write_text("".join(f"{answer}\n" for answer in answers))
    write_program(
        tmp_path / "systemctl",
        f"""test "$*" = "show -P Job public-web-interface@0.service" || exit 1
echo >> {tmp_path}/asked
sed -n "$(wc -l < {tmp_path}/asked)p" {tmp_path}/answers""",
    )
    (tmp_path / "asked").touch()

    subprocess.run(command, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True, timeout=20)

    assert (tmp_path / "asked").read_text().count("\n") == (0 if instance == "0" else asked)


def test_the_script_reads_the_settings_of_its_example() -> None:
    example = (DEPLOY / "public-web-interface-watch.env").read_text()
    read = re.findall(r"\$\{(WATCH_[A-Z]+)-\}", (DEPLOY / "watch.sh").read_text())

    assert re.findall(r"^([A-Z_]+)=", example, re.MULTILINE) == read


@pytest.mark.parametrize("instance", ["0", "1"])
def test_nginx_looks_for_the_socket_where_the_unit_puts_it(instance: str) -> None:
    installed = installed_files("0", "1")["conf.d/public-web-interface.conf"]

    assert f"server {unit_environment(instance)['BIND']} max_fails=0;" in installed


def test_the_example_names_every_setting() -> None:
    named = re.findall(r"^#?([A-Z0-9_]+)=", ENVIRONMENT, re.MULTILINE)

    assert sorted(named) == sorted(name.upper() for name in Settings.__dataclass_fields__)


def test_the_example_is_accepted(tmp_path: Path) -> None:
    settings = Settings.from_env(environment_file() | {"MAIL_DIR": str(tmp_path)})

    assert (settings.trusted_proxies, settings.public_base_url) == (1, f"https://{SERVER_NAME}")
    assert (settings.threads, settings.smtp_timeout) == (THREADS, SMTP_TIMEOUT)


ERRORS_OF_NGINX = {
    "malformed": invalid_body("http"),
    "too-large": invalid_body("too_large"),
    "unavailable": ApiError(ErrorCode.INTERNAL_ERROR),
}


@pytest.mark.parametrize(("location", "error"), ERRORS_OF_NGINX.items(), ids=ERRORS_OF_NGINX)
def test_nginx_answers_with_the_bodies_of_the_service(location: str, error: ApiError) -> None:
    found = re.search(
        rf"location = /\.\./public-web-interface/{location} {{.*?return (\d+) '(.*?)';", ANSWERS, re.DOTALL
    )

    assert found
    assert int(found[1]) == error.code.status
    body = envelope.failure(error, retry_after=None, docs=f"https://$server_name{DOCUMENT}")
    assert found[2] == json.dumps(body, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(("field", "position"), [("quota", 0), ("window", 1)])
def test_nginx_states_the_policies_of_the_service(field: str, position: int) -> None:
    table = re.search(rf"map \$request_uri \$public_web_interface_{field} {{\n(.*?)}}", HTTP, re.DOTALL)

    assert table
    default, contact = table[1].replace(";", "").strip().splitlines()
    assert default.split() == ["default", str(API_POLICY[position])]
    pattern, value = contact.split()
    assert int(value) == CONTACT_POLICY[position]
    for path in CONTACT_PATHS:
        assert re.search(pattern.strip('"~'), path)
        assert re.search(pattern.strip('"~'), f"{path}?x=1")
        assert not re.search(pattern.strip('"~'), f"{path}/x")


def test_nginx_takes_what_the_service_takes() -> None:
    (kilobytes,) = re.findall(r"client_max_body_size (\d+)k", LOCATION)

    assert int(kilobytes) * 1024 == MAX_BODY_BYTES


@pytest.mark.parametrize("status", [400, 413, 414, 431, 494, 500, 502, 503, 504])
def test_every_error_of_nginx_s_own_has_an_answer(status: int) -> None:
    """Some of these no client can make nginx answer as it is set up here."""
    answered = [line for line in LOCATION.splitlines() if line.startswith("error_page")]

    assert len([line for line in answered if str(status) in line.split()]) == 1
