"""How the service starts, serves and refuses to start, with the real gunicorn and the real flask command."""

from __future__ import annotations

import json
import mailbox
import os
import re
import subprocess
import sys
from email.utils import parseaddr
from pathlib import Path

import pytest

from app.settings import PRIVATE_DIRECTORY
from tests.client import validate_response
from tests.mail import disks
from tests.mail.server import SmtpServer
from tests.server.gunicorn import ROOT, Server, serving, start

COMMANDS = {
    "gunicorn": [sys.executable, "-m", "gunicorn"],
    "flask": [sys.executable, "-m", "flask", "--app", "wsgi", "routes"],
}


def test_a_posted_form_is_stored_where_the_log_says(tmp_path: Path) -> None:
    form = b"form_type=demo&nombre=Mar%C3%ADa&email=maria%40example.com&mensaje=Hola"

    with serving(tmp_path) as server:
        response, body = server.request(
            "POST", "/contact.php", form, {"Content-Type": "application/x-www-form-urlencoded"}
        )

    assert response.status == 200
    validate_response("POST", "/contact.php", response.status, response.headers.items(), body)
    assert f"messages are stored in {tmp_path / 'mail'}" in server.log
    (message,) = mailbox.Maildir(tmp_path / "mail", create=False)
    assert parseaddr(message["Reply-To"])[1] == "maria@example.com"


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_fault_of_the_settings_stops_the_start_without_a_traceback(tmp_path: Path, command: list[str]) -> None:
    environ = {
        "MAIL_DIR": str(tmp_path / "mail"),
        "SMTP_PORT": "smtp",
        "TRUSTED_PROXIES": "-1",
        "PATH": os.environ["PATH"],
    }

    result = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode != 0
    assert re.findall(r"^([A-Z_]+)=", result.stderr, re.MULTILINE) == ["SMTP_PORT", "TRUSTED_PROXIES"]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        pytest.param(disks.FULL, "No space left on device", id="full"),
        pytest.param(disks.READ_ONLY, "Read-only file system", id="read-only"),
    ],
)
def test_a_store_that_takes_no_message_stops_the_start(tmp_path: Path, disk: str, reason: str) -> None:
    result = disks.run(disk, tmp_path, COMMANDS["gunicorn"], BIND="127.0.0.1:0")

    assert result.returncode != 0
    starting, line = result.stderr.splitlines()
    assert "Starting gunicorn" in starting
    assert line == f"MAIL_DIR='{tmp_path}/mail': expected {PRIVATE_DIRECTORY}: {reason}"


RELOAD = """
import signal, sys
from pathlib import Path
from tests.server.gunicorn import serving

directory = Path(sys.argv[1])
with serving(directory) as server:
    try:
        (directory / "mail" / "filler").write_bytes(bytes(1 << 20))
    except OSError:
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(r"(?s)Booting worker.*Booting worker")
        print(server.process.poll(), server.request("OPTIONS", "/api")[0].status)
"""


def test_a_disk_that_is_full_stops_no_reload(tmp_path: Path) -> None:
    result = disks.run(disks.TMPFS, tmp_path, [sys.executable, "-c", RELOAD, str(tmp_path)])

    assert result.stdout == "None 204\n", result.stderr


@pytest.mark.parametrize("missing", ["marshmallow", "email_validator"])
def test_a_service_that_could_take_no_form_stops(tmp_path: Path, missing: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")

    process, log_file = start(tmp_path, BIND="127.0.0.1:0", PYTHONPATH=str(tmp_path))

    assert process.wait(60) != 0
    assert f"import of {missing} halted" in log_file.read_text()


def test_several_workers_without_a_shared_storage_are_refused(tmp_path: Path) -> None:
    process, log_file = start(tmp_path, WORKERS="2")

    assert process.wait(60) != 0
    assert "RATE_LIMIT_STORAGE" in log_file.read_text()


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_shared_storage_without_the_extra_stops_the_start(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['redis'] = None\n")
    environ = {
        "MAIL_DIR": str(tmp_path / "mail"),
        "RATE_LIMIT_STORAGE": "redis://:hunter2@127.0.0.1:1",
        "PYTHONPATH": str(tmp_path),
        "PATH": os.environ["PATH"],
    }

    result = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=False)

    assert result.returncode != 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("RATE_LIMIT_STORAGE is set: requires the extra [redis], ")
    assert line.endswith("pip install --require-hashes -r requirements-redis.txt")


def test_an_address_that_the_library_does_not_understand_stops_the_start(tmp_path: Path) -> None:
    process, log_file = start(tmp_path, RATE_LIMIT_STORAGE="redis://:hunter2@127.0.0.1:1?patience=none")

    assert process.wait(60) != 0
    (line,) = log_file.read_text().splitlines()
    assert line.startswith("RATE_LIMIT_STORAGE=(hidden): expected ")


def test_the_log_can_be_read_by_machines(tmp_path: Path) -> None:
    with serving(tmp_path, LOG_FORMAT="json") as server:
        pass

    records = [json.loads(line) for line in server.log.splitlines()]
    assert {record["logger"] for record in records} >= {"gunicorn.error", "app.mail.mailer"}


def test_no_proxy_is_believed_unless_it_is_trusted(tmp_path: Path, server: Server) -> None:
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "www.example.com", "X-Forwarded-For": "192.0.2.1"}

    _, distrusted = server.request("GET", "/api?section=docs", headers=forwarded)
    with serving(tmp_path, TRUSTED_PROXIES="1") as behind_a_proxy:
        _, trusted = behind_a_proxy.request("GET", "/api?section=docs", headers=forwarded)

    assert json.loads(distrusted)["data"]["docs"]["openapi"].startswith("http://127.0.0.1:")
    assert json.loads(trusted)["data"]["docs"]["openapi"] == "https://www.example.com/openapi.json"


def test_a_worker_that_ends_leaves_the_mail_server_with_quit(tmp_path: Path) -> None:
    with SmtpServer() as relay:
        with serving(tmp_path, **relay.environ) as server:
            assert server.post_form()[0].status == 200

        assert [connection.commands[-1].upper() for connection in relay.connections] == ["QUIT"] * len(
            relay.connections
        )
