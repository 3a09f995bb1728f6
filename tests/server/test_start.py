"""How the service starts, serves and refuses to start, with the real gunicorn and the real flask command."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from app.mail.spool import PRIVATE_DIRECTORY
from tests.ports import free_port
from tests.server.gunicorn import BOOT_SECONDS, GUNICORN, ROOT, Server, serving, start
from tests.versions import HEALTH

FLASK = (sys.executable, "-m", "flask", "--app", "wsgi")
EXTRAS = ("prometheus_client", "redis")


def run(directory: Path, command: Sequence[str], missing: Sequence[str], **environ: str) -> tuple[int, list[str]]:
    """The exit status and the lines of a command that ends, on a machine without these libraries."""
    (directory / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({missing!r}))\n")
    process, log_file = start(directory, command=command, PYTHONPATH=str(directory), **environ)
    return process.wait(BOOT_SECONDS), log_file.read_text().splitlines()


INSTALL = "needs the extra [{0}]: run .venv/bin/python -m pip install --require-hashes -r requirements/{0}.txt"
WRONG = {"SMTP_PORT": "smtp", "TRUSTED_PROXIES": "-1", "WORKERS": "2"}
WRONG_SAID = [
    "SMTP_PORT='smtp': expected ",
    "TRUSTED_PROXIES='-1': expected ",
    "WORKERS='2': expected 1 without RATE_LIMIT_STORAGE, ",
]
SHARED = {"RATE_LIMIT_STORAGE": "redis://:hunter2@127.0.0.1:1"}
MISREAD = {"RATE_LIMIT_STORAGE": "redis://:hunter2@127.0.0.1:1?patience=none"}
MISREAD_SAID = ["RATE_LIMIT_STORAGE=(hidden): expected a URL that the redis library understands: redis://"]
METRICS = {"METRICS_BIND": "127.0.0.1:1"}

REFUSED: dict[str, tuple[dict[str, str], Sequence[str], list[str]]] = {
    "wrong settings": (WRONG, [], WRONG_SAID),
    "shared limits without their library": (SHARED, EXTRAS, ["RATE_LIMIT_STORAGE " + INSTALL.format("redis")]),
    "an address that their library misreads": (MISREAD, [], MISREAD_SAID),
    "metrics without their library": (METRICS, EXTRAS, ["METRICS_BIND " + INSTALL.format("metrics")]),
}
"""The settings, libraries that are missing, and what the lines of the output say: there are no others."""


@pytest.mark.parametrize(("environ", "missing", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_stops_the_start_with_a_line_for_each_fault(
    tmp_path: Path, environ: dict[str, str], missing: Sequence[str], said: list[str]
) -> None:
    status, lines = run(tmp_path, GUNICORN, missing, **environ)

    assert status == os.EX_CONFIG
    assert [text for text, line in zip(said, lines, strict=True) if text in line] == said


TAKEN = "{0}='127.0.0.1:{1}': Address already in use"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another program listens, which would share it."""
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as listener:
        yield listener.getsockname()[1]


def test_an_address_that_is_taken_stops_the_start_at_once(tmp_path: Path, taken: int) -> None:
    status, (starting, line) = run(tmp_path, GUNICORN, [], BIND=f"127.0.0.1:{taken}")

    assert status == os.EX_CONFIG
    assert "Starting gunicorn" in starting
    fault = TAKEN.format("BIND", taken)
    assert line == f"{fault}: set BIND to another address, such as 127.0.0.1:{taken + 1}"


def test_an_address_of_the_metrics_that_is_taken_costs_the_metrics_and_no_form(tmp_path: Path, taken: int) -> None:
    said = f"there are no metrics: {TAKEN.format('METRICS_BIND', taken)}"
    environ = {"METRICS_BIND": f"127.0.0.1:{taken}"}

    with serving(tmp_path, **environ) as server:
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(r"(?s)Booting worker.*Booting worker")
        assert server.post_form()[0].status == 200
        assert "Metrics at" not in server.log
        assert re.findall(r"(\S+) app.metrics.listener - (.*)", server.log) == [("ERROR", said)]


def test_a_check_beside_the_service_finds_the_metrics_of_its_own_user_in_order(tmp_path: Path) -> None:
    environ = {"METRICS_BIND": f"127.0.0.1:{free_port()}"}
    with serving(tmp_path, **environ):
        assert run(tmp_path, (*GUNICORN, "--check-config"), [], **environ) == (0, [])


def test_the_new_program_of_an_upgrade_listens_beside_the_old_one(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("gunicorn")  # python -m cannot: gunicorn starts itself once more by a path
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("BIND", "METRICS_BIND")}
    with serving(tmp_path, command=(sys.executable, str(script)), **addresses) as server:
        server.process.send_signal(signal.SIGUSR2)
        new = int(server.wait_for(r"(?s)Listening at.*Listening at: \S+ \((\d+)\)")[1])
        server.wait_for(r"(?s)Booting worker.*Booting worker")
        os.kill(new, signal.SIGTERM)
        server.wait_until_it_answers()


CRITICAL = "CRITICAL - invalid settings: SMTP_PORT='smtp': expected a port from 1 to 65535; TRUSTED_PROXIES="
ENDS: dict[str, tuple[Sequence[str], int, list[str]]] = {
    "a command": ((*FLASK, "mail", "list"), os.EX_CONFIG, []),
    "a plain import": ((sys.executable, "-c", "import wsgi"), os.EX_CONFIG, []),
    "the command that Nagios reads": ((*FLASK, "mail", "status"), 2, [CRITICAL]),
}


@pytest.mark.parametrize(("command", "status", "shown"), ENDS.values(), ids=ENDS)
def test_wrong_settings_end_whatever_reads_them(command: Sequence[str], status: int, shown: list[str]) -> None:
    ended = subprocess.run(command, cwd=ROOT, env=WRONG, capture_output=True, text=True, check=False)

    assert ended.returncode == status
    for text, lines in ((shown, ended.stdout), (WRONG_SAID, ended.stderr)):
        assert [line[: len(start)] for start, line in zip(text, lines.splitlines(), strict=True)] == text


@pytest.mark.parametrize(
    ("missing", "environ"), [(EXTRAS, {}), ([], METRICS)], ids=["without extras", "beside a service with metrics"]
)
def test_a_command_needs_no_extras_and_serves_no_metrics(
    tmp_path: Path, missing: Sequence[str], environ: dict[str, str]
) -> None:
    mail_list = run(tmp_path, (*FLASK, "mail", "list"), missing, MAIL_DIR=str(tmp_path), **environ)

    assert mail_list == (0, ["0 undelivered"])


def test_a_store_that_takes_no_message_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "mail").mkdir(mode=0o700)
    (tmp_path / "mail" / "new").touch()

    status, (starting, line) = run(tmp_path, GUNICORN, [])

    assert status == os.EX_CONFIG
    assert "Starting gunicorn" in starting
    assert line == f"MAIL_DIR='{tmp_path}/mail': expected {PRIVATE_DIRECTORY}: File exists"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("proxied"), TRUSTED_PROXIES="1", LOG_FORMAT="json") as server:
        yield server


def test_the_log_can_be_read_by_machines(proxied: Server) -> None:
    records = [json.loads(line) for line in proxied.log.splitlines()]

    assert {record["logger"] for record in records} >= {"gunicorn.error", "app.mail.mailer"}


def test_no_proxy_is_believed_unless_it_is_trusted(shared_server: Server, proxied: Server) -> None:
    """They come from 127.0.0.1, which gunicorn by itself would trust."""
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "www.example.com", "X-Forwarded-For": "192.0.2.1"}

    answers = [server.request("GET", "/api?section=docs", headers=forwarded)[1] for server in (shared_server, proxied)]

    distrusted, trusted = (json.loads(answer)["data"]["docs"]["openapi"] for answer in answers)
    assert distrusted == f"http://127.0.0.1:{shared_server.port}/openapi.json"
    assert trusted == "https://www.example.com/openapi.json"


def test_flasks_own_server_says_where_it_is_and_is_ok_and_writes_one_line_per_request(tmp_path: Path) -> None:
    port = str(free_port())
    command, listening = (*FLASK, "run", "--port", port), rf"Running on http://127\.0\.0\.1:({port})"
    with serving(tmp_path, command=command, listening=listening) as server:
        _, health = server.request("GET", HEALTH)
        with server.connect() as malformed:
            malformed.sendall(b"GET / maria@example.com HTTP/1.1\r\n\r\n")
            while malformed.recv(4096):
                pass

    assert json.loads(health)["data"]["status"] == "ok"
    assert f"messages are stored in {server.mail_dir}" in server.log
    assert "maria" not in server.log
    assert len(re.findall(f"GET {HEALTH}", server.log)) == 1
    assert re.search(rf"INFO app\.request [0-9a-f]{{32}} GET {HEALTH} 200 ", server.log)
