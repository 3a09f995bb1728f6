"""The commands of docs/monitoring.md lead from a reference to both logs and to the message."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.deploy.site import RELAY, RELAYED, site
from tests.factories import LOG_TIME, REFERENCE, REQUEST_ID, contact_body
from tests.mail.server import SmtpServer
from tests.pages import MONITORING
from tests.server.gunicorn import ROOT

(CONSOLE,) = MONITORING.blocks("From an id to everything", "console")
TYPED = re.findall(r"^\$ (.*)\n((?:[^$`].*\n)*)", CONSOLE, re.MULTILINE)
"""Each command with its output."""


def without_chance(output: str, request_id: str) -> str:
    """The output as if the request had the page's id, without what is another one each time."""
    output = output.replace(request_id, REQUEST_ID)
    output = re.sub(rf"({REQUEST_ID[:8]})[0-9a-f]{{24}}\.[0-9a-f]{{16}}", r"\1…", output)
    return re.sub(rf"{LOG_TIME}|\(\S+T\S+\)|\d+\.\d ms|\d+\.\d{{3}} s|\d+ (s|min) ago", "*", output)


def test_the_commands_lead_from_a_reference_to_both_logs_and_to_the_message(tmp_path: Path) -> None:
    replies = iter(["451 4.3.0 Later", "550 5.7.1 No"])
    hurried = {"GUNICORN_CMD_ARGS": "--config tests/server/hurried_gunicorn.py", "RETRY_SECONDS": "1"}
    alone = {f"    server unix:{tmp_path}/run/1/gunicorn.sock max_fails=0;\n": ""}
    with SmtpServer() as server, site(tmp_path, "0", environ=server.environ | hurried, changes=alone) as served:
        served.request("GET", "/api/v1/health")
        server.on_message = lambda: server.replies.update(message=next(replies))
        answer = served.request(
            "POST", "/api/v1/contact", client=RELAY, headers={RELAYED: "203.0.113.7"}, body=contact_body()
        )
        served.wait_for_log("0", " was not delivered in attempt 2")
    request_id = answer.headers["X-Request-ID"]
    reference = f"{request_id[:4]}-{request_id[4:8]}".upper()

    script = "\nprintf '\\0'\n".join(command for command, _ in TYPED)
    for there, here in {
        REFERENCE: reference,
        "journalctl -u 'public-web-interface@*' -o cat": f"cat {tmp_path}/log/0.log",
        "/var/log/nginx/": f"{tmp_path}/log/",
        "public-web-interface mail": f"{sys.executable} -m flask --app wsgi mail",
    }.items():
        assert there in script
        script = script.replace(there, here)
    run = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=ROOT,
        env=os.environ | server.environ | {"MAIL_DIR": f"{tmp_path}/mail"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    outputs = [without_chance(output, request_id).replace(reference, REFERENCE) for output in run.stdout.split("\0")]
    shown = [without_chance(output, REQUEST_ID) for _, output in TYPED]
    assert outputs[:-1] == shown[:-1]
    message = shown[-1].removesuffix("…\n")
    assert outputs[-1].startswith(message)
    assert "¿Es posible el jueves?" in outputs[-1].removeprefix(message)
