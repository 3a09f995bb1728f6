"""`make demo`: the form and the service at once, and both gone with Ctrl-C."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.browser.visitor import ROOT
from tests.server.gunicorn import BOOT_SECONDS, free_port


def answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_the_demo_serves_both_and_ends_both(tmp_path: Path) -> None:
    service, form = free_port(), free_port()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "BIND": f"127.0.0.1:{service}",
        "MAIL_DIR": str(tmp_path / "mail"),
    }
    log = tmp_path / "demo.log"
    with log.open("wb") as output:
        demo = subprocess.Popen(
            ["make", "demo", f"DEMO_PORT={form}"],
            cwd=ROOT,
            env=environ,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + BOOT_SECONDS
        while not (answers(service, "/api/v1/health") and answers(form, "/contact-form.js")):
            assert demo.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        # As a terminal does: to every process that runs in it.
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait(30)
        deadline = time.monotonic() + BOOT_SECONDS
        while answers(service, "/api/v1/health") or answers(form, "/contact-form.js"):
            assert time.monotonic() < deadline, "something outlived Ctrl-C"
            time.sleep(0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGKILL)

    assert f"http://127.0.0.1:{form}" in log.read_text()
