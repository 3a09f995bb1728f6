"""The flask command as a developer and an operator type it: it says what it is asked for and no more."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.server.gunicorn import ROOT, Server

FLASK = [sys.executable, "-m", "flask", "--app", "wsgi"]
MAIL_SERVER = {"SMTP_HOST": "127.0.0.1", "SALES_EMAIL": "ventas@example.com", "MAIL_FROM": "web@example.com"}


@pytest.mark.parametrize(
    ("arguments", "environ", "said"),
    [
        (["--help"], {}, ""),
        (["mail", "resend"], MAIL_SERVER, "0 handled, 0 undelivered\n"),
    ],
    ids=["help", "mail resend"],
)
def test_a_command_logs_nothing_of_its_own(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], said: str
) -> None:
    (tmp_path / "mail").mkdir()
    environ = {"MAIL_DIR": str(tmp_path / "mail")} | environ

    result = subprocess.run(
        [*FLASK, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=True
    )

    assert result.stderr == said


def test_flasks_own_server_says_where_it_is_and_is_ok_and_writes_one_line_per_request(tmp_path: Path) -> None:
    port = free_port()
    log_file = tmp_path / "flask.log"
    environ = {"MAIL_DIR": str(tmp_path / "mail")}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [*FLASK, "run", "--port", str(port)],
            cwd=ROOT,
            env=environ,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    server = Server(process, port, log_file)

    try:
        server.wait_for("Running on")
        _, first = server.request("GET", "/api/v1/health")
        with server.connect() as malformed:
            malformed.sendall(b"GET / maria@example.com HTTP/1.1\r\n\r\n")
            while malformed.recv(4096):
                pass
    finally:
        process.terminate()
        process.wait(30)

    assert json.loads(first)["data"]["status"] == "ok"
    assert "maria" not in server.log
    assert f"Running on http://127.0.0.1:{port}" in server.log
    assert "messages are stored" in server.log
    assert len(re.findall("GET /api/v1/health", server.log)) == 1
    assert re.search(r"INFO app\.request [0-9a-f]{32} GET /api/v1/health 200 ", server.log)
