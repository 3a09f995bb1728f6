"""How the service starts, serves and refuses to start, with the real gunicorn and the real flask command."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from app.settings import PRIVATE_DIRECTORY
from tests.mail import disks
from tests.ports import free_port
from tests.server.gunicorn import GUNICORN, Server, serving, start

FLASK = (sys.executable, "-m", "flask", "--app", "wsgi")
ROUTES = (*FLASK, "routes")

WRONG = {"SMTP_PORT": "smtp", "TRUSTED_PROXIES": "-1", "WORKERS": "2"}
WRONG_SAID = [
    "SMTP_PORT='smtp': expected ",
    "TRUSTED_PROXIES='-1': expected ",
    "WORKERS='2': expected 1 without RATE_LIMIT_STORAGE, ",
]
SHARED = {"RATE_LIMIT_STORAGE": "redis://:hunter2@127.0.0.1:1"}
INSTALL = ".venv/bin/pip install --require-hashes -r requirements-redis.txt"
SHARED_SAID = [f"RATE_LIMIT_STORAGE is set: requires the extra [redis], {INSTALL}"]
MISREAD = {"RATE_LIMIT_STORAGE": "redis://:hunter2@127.0.0.1:1?patience=none"}
MISREAD_SAID = ["RATE_LIMIT_STORAGE=(hidden): expected "]

REFUSED: dict[str, tuple[Sequence[str], dict[str, str], list[str], list[str]]] = {
    "gunicorn: wrong settings": (GUNICORN, WRONG, [], WRONG_SAID),
    "gunicorn: shared limits without their library": (GUNICORN, SHARED, ["redis"], SHARED_SAID),
    "flask: shared limits without their library": (ROUTES, SHARED, ["redis"], SHARED_SAID),
    "gunicorn: an address that their library misreads": (GUNICORN, MISREAD, [], MISREAD_SAID),
}
"""The command, the settings, libraries that are missing, and how the lines of the output begin: there are no others."""


def refused(directory: Path, command: Sequence[str], environ: dict[str, str], missing: list[str]) -> list[str]:
    """The lines that are said by a command that ends because it cannot start."""
    (directory / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({missing!r}))\n")
    process, log_file = start(directory, command=command, PYTHONPATH=str(directory), **environ)
    assert process.wait(60) != 0
    return log_file.read_text().splitlines()


@pytest.mark.parametrize(("command", "environ", "missing", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_stops_the_start_with_a_line_for_each_fault(
    tmp_path: Path, command: Sequence[str], environ: dict[str, str], missing: list[str], said: list[str]
) -> None:
    lines = refused(tmp_path, command, environ, missing)

    assert [line[: len(begin)] for line, begin in zip(lines, said, strict=True)] == said


def test_a_service_that_could_take_no_form_stops(tmp_path: Path) -> None:
    assert "import of email_validator halted" in "".join(refused(tmp_path, GUNICORN, {}, ["email_validator"]))


@pytest.mark.needs("mount namespaces")
@pytest.mark.parametrize(
    ("disk", "reason"),
    [(disks.FULL, "No space left on device"), (disks.READ_ONLY, "Read-only file system")],
    ids=["full", "read-only"],
)
def test_a_store_that_takes_no_message_stops_the_start(tmp_path: Path, disk: str, reason: str) -> None:
    result = disks.run(disk, tmp_path, [*GUNICORN], BIND="127.0.0.1:0")

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


@pytest.mark.needs("mount namespaces")
def test_a_disk_that_is_full_stops_no_reload(tmp_path: Path) -> None:
    result = disks.run(disks.TMPFS, tmp_path, [sys.executable, "-c", RELOAD, str(tmp_path)])

    assert result.stdout == "None 204\n", result.stderr


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
        _, health = server.request("GET", "/api/v1/health")
        with server.connect() as malformed:
            malformed.sendall(b"GET / maria@example.com HTTP/1.1\r\n\r\n")
            while malformed.recv(4096):
                pass

    assert json.loads(health)["data"]["status"] == "ok"
    assert f"messages are stored in {server.mail_dir}" in server.log
    assert "maria" not in server.log
    assert len(re.findall("GET /api/v1/health", server.log)) == 1
    assert re.search(r"INFO app\.request [0-9a-f]{32} GET /api/v1/health 200 ", server.log)
