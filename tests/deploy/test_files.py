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
SERVICE = "public-web-interface@.service"
TELLING = ("public-web-interface-failure@.service", "public-web-interface-watch.service")
"""The units that tell the operator."""
MAX_EXPOSURE = {SERVICE: 14, **dict.fromkeys(TELLING, 24)}
"""Of 100, as systemd-analyze counts: what is left is the network and chown, and what sendmail needs of the units."""


def test_nginx_takes_the_site(tmp_path: Path) -> None:
    main = Site(tmp_path, {}).render()

    check = subprocess.run(["nginx", "-t", "-c", str(main)], capture_output=True, text=True, check=False)

    assert check.returncode == 0, check.stderr
    assert "warn" not in check.stderr


def test_gixy_finds_nothing_that_is_not_explained(tmp_path: Path) -> None:
    gixy = Path(sys.executable).with_name("gixy")

    check = subprocess.run(
        [gixy, "--format=json", Site(tmp_path, {}).render()], capture_output=True, text=True, check=False
    )

    found = {(Path(finding["path"]).name, finding["plugin"]) for finding in json.loads(check.stdout)}
    # Debian's nginx.conf allows old versions of TLS and lets the server choose the cipher: the site sets both itself.
    assert found == {("nginx.conf", "weak_ssl_tls")}


UNITS = {
    "public-web-interface@.service": "public-web-interface@0.service",
    "public-web-interface-failure@.service": "public-web-interface-failure@0.service",
    "public-web-interface-watch.service": "public-web-interface-watch.service",
    "public-web-interface-watch.timer": "public-web-interface-watch.timer",
}
"""The shipped units, each with an instance of it."""
FOLDERS = ("public-web-interface@.service.d", "public-web-interface-.service.d")
"""The drop-ins of the instances, and those of the units whose names begin with public-web-interface-."""


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """A folder with an instance of each unit. Their programs are those of this clone."""
    for folder in FOLDERS:
        shutil.copytree(DEPLOY / "systemd" / folder, tmp_path / folder)
    for shipped, instance in UNITS.items():
        text = (DEPLOY / "systemd" / shipped).read_text()
        (tmp_path / instance).write_text(text.replace("/opt/public-web-interface/current/deploy/", f"{DEPLOY}/"))
    return tmp_path


def test_no_unit_is_forgotten() -> None:
    assert {path.name for path in (DEPLOY / "systemd").iterdir()} == {*UNITS, *FOLDERS}


@pytest.mark.parametrize("unit", UNITS.values())
def test_systemd_takes_the_unit(units: Path, unit: str) -> None:
    check = subprocess.run(
        ["systemd-analyze", "verify", units / unit],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (check.returncode, check.stderr) == (0, "")


@pytest.mark.parametrize(("unit", "most"), MAX_EXPOSURE.items(), ids=MAX_EXPOSURE)
def test_the_unit_shuts_its_programs_in(units: Path, unit: str, most: int) -> None:
    check = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={most}", units / UNITS[unit]],
        capture_output=True,
        text=True,
        check=False,
    )

    assert check.returncode == 0, check.stdout


@pytest.mark.parametrize("unit", TELLING)
def test_what_tells_the_operator_takes_nothing_of_that_back(unit: str) -> None:
    common = read_unit(SERVICE)["Service"].keys() - {"Type", "EnvironmentFile", "ExecStart", "TimeoutStopSec"}

    own = re.findall(r"^(\w+)=", (DEPLOY / "systemd" / unit).read_text().partition("[Service]")[2], re.MULTILINE)

    assert not common & set(own)


WATCH_SH = (
    "!/usr/bin/setpriv --reuid=public-web-interface --regid=nogroup --init-groups"
    " /opt/public-web-interface/current/deploy/watch.sh"
)


def test_an_instance_that_does_not_come_up_is_given_up_told_and_started_again() -> None:
    """systemd 252 did so with these units when it was tried by hand; here they are only read."""
    name = "public-web-interface-failure@.service"
    unit, failure, text = read_unit(), read_unit(name), (DEPLOY / "systemd" / name).read_text()
    limits = unit["Unit"]
    hanging = 90 + int(unit["Service"]["RestartSec"])

    assert limits["OnFailure"] == "public-web-interface-failure@%i.service"
    assert limits["StartLimitIntervalSec"] == "20min"
    assert int(limits["StartLimitBurst"]) * hanging < 20 * 60
    assert failure["Unit"]["PartOf"] == "public-web-interface@%i.service"
    assert failure["Unit"]["StartLimitIntervalSec"] == "0"
    commands = re.findall(r"^ExecStart=(.*)", text, re.MULTILINE)
    assert commands == [
        f"-{WATCH_SH} failure %i",
        "/bin/sleep 60",
        "+/bin/systemctl reset-failed public-web-interface@%i.service",
        "+/bin/systemctl --no-block start public-web-interface@%i.service",
    ]


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


@pytest.mark.parametrize("unit", TELLING)
def test_what_tells_the_operator_has_its_settings_and_its_memory(unit: str) -> None:
    text = (DEPLOY / "systemd" / unit).read_text()
    service = read_unit(unit)["Service"]

    assert service["EnvironmentFile"] == "-/etc/public-web-interface-watch.env"
    assert service["User"] == read_unit()["Service"]["User"]
    assert f" --reuid={service['User']} " in text
    assert service["RuntimeDirectory"] == "public-web-interface-watch"
    assert service["RuntimeDirectoryPreserve"] == "yes"


def test_the_script_reads_the_settings_of_its_example() -> None:
    example = (DEPLOY / "public-web-interface-watch.env").read_text()
    read = re.findall(r"\$\{(WATCH_[A-Z]+)-\}", (DEPLOY / "watch.sh").read_text())

    assert re.findall(r"^([A-Z_]+)=", example, re.MULTILINE) == read


def test_the_mail_is_looked_after_with_the_settings_of_the_service_for_as_long_as_it_takes() -> None:
    text = (DEPLOY / "systemd" / "public-web-interface-watch.service").read_text()
    service = read_unit("public-web-interface-watch.service")["Service"]

    assert f"\nEnvironmentFile={read_unit()['Service']['EnvironmentFile']}\n" in text
    assert service["ExecStart"] == f"{WATCH_SH} mail"
    assert int(service["TimeoutStartSec"].removesuffix("min")) * 60 > 2 * MAX_TIMEOUT + 60 + 2 * 30


def test_the_unit_waits_for_the_longest_hand_over() -> None:
    assert int(read_unit()["Service"]["TimeoutStopSec"]) > MAX_TIMEOUT + 10


def test_the_unit_has_descriptors_for_all_that_its_process_may_hold(tmp_path: Path) -> None:
    held_by_a_thread = 3  # connections to the mail server and to Redis, and the file of a message
    threads = Settings.from_env(environment_file() | {"MAIL_DIR": str(tmp_path)}).threads

    assert int(read_unit()["Service"]["LimitNOFILE"]) >= 2 * (WorkerConnections.default + held_by_a_thread * threads)


@pytest.mark.parametrize("instance", ["0", "1"])
def test_nginx_looks_for_the_socket_where_the_unit_puts_it(instance: str) -> None:
    installed = installed_files("0", "1")["conf.d/public-web-interface.conf"]

    assert f"server {unit_environment(instance)['BIND']} max_fails=0;" in installed


def test_messages_are_kept_in_the_directory_that_systemd_makes() -> None:
    directory = read_unit()["Service"]["StateDirectory"]

    assert environment_file()["MAIL_DIR"] == f"/var/lib/{directory}/mail"


def test_the_example_names_every_setting() -> None:
    named = re.findall(r"^#?([A-Z0-9_]+)=", ENVIRONMENT, re.MULTILINE)

    assert sorted(named) == sorted(name.upper() for name in Settings.__dataclass_fields__)


def test_the_example_is_accepted(tmp_path: Path) -> None:
    settings = Settings.from_env(environment_file() | {"MAIL_DIR": str(tmp_path)})

    assert settings.trusted_proxies == 1
    assert settings.public_base_url == f"https://{SERVER_NAME}"


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


def test_nginx_takes_what_the_service_takes_and_waits_for_its_answer(tmp_path: Path) -> None:
    limit = re.search(r"client_max_body_size (\d+)k", LOCATION)
    memory = re.search(r"client_body_buffer_size (\d+)k", LOCATION)
    wait = re.search(r"proxy_read_timeout (\d+)s", LOCATION)

    assert limit
    assert int(limit[1]) * 1024 == MAX_BODY_BYTES
    assert memory
    # No message is written to nginx's disk. With as much as the limit, those in chunks would be.
    assert int(memory[1]) >= 2 * int(limit[1])
    assert wait
    assert int(wait[1]) > Settings.from_env({"MAIL_DIR": str(tmp_path)}).smtp_timeout


def test_nginx_and_the_service_keep_no_connection_to_each_other() -> None:
    kept = r"^ *(?:keepalive|keepalive_timeout|proxy_set_header Connection) .*;"
    assert re.findall(kept, HTTP + LOCATION + UPSTREAM, re.MULTILINE) == []
    assert re.findall(r"proxy_http_version (.*);", LOCATION) == ["1.0"]
    assert re.search(r"^keepalive = 0$", (ROOT / "gunicorn.conf.py").read_text(), re.MULTILINE)


@pytest.mark.parametrize("status", [400, 413, 414, 431, 494, 500, 502, 503, 504])
def test_every_error_of_nginx_s_own_has_an_answer(status: int) -> None:
    """Some of these no client can make nginx answer as it is set up here."""
    answered = [line for line in LOCATION.splitlines() if line.startswith("error_page")]

    assert len([line for line in answered if str(status) in line.split()]) == 1


def test_a_client_s_own_forwarded_address_is_thrown_away() -> None:
    assert re.findall(r"proxy_set_header X-Forwarded-For (.*);", LOCATION) == ["$remote_addr"]
