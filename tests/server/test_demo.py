"""`make demo`: the form and the service at once, both gone with Ctrl-C, and neither without the other."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples import demo
from tests.ports import free_port
from tests.server.gunicorn import BOOT_SECONDS, ROOT

MakeDemo = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "demo.log"


@pytest.fixture
def make_demo(tmp_path: Path, log_file: Path) -> Iterator[MakeDemo]:
    """Types `make demo` in a terminal of its own, with the interpreter of the tests."""
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    python = environment / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (environment / ".run").touch()
    started: list[subprocess.Popen[bytes]] = []

    def make(**environ: str) -> subprocess.Popen[bytes]:
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                ["make", "demo", f"VENV={environment}"],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], "MAIL_DIR": str(tmp_path / "mail")} | environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield make
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(BOOT_SECONDS)


def wait_until_it_is_gone(demo: subprocess.Popen[bytes], *addresses: str) -> None:
    """Return once no process is left in the terminal and nobody listens at the addresses."""
    demo.wait(BOOT_SECONDS)
    deadline = time.monotonic() + BOOT_SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(demo.pid, 0)
            time.sleep(0.05)
        pytest.fail("something outlived the demo")
    assert not any(map(fetch, addresses))


def fetch(address: str, data: bytes | None = None) -> str | None:
    """The answer to a GET or, with data, to a POST; None when nobody answers."""
    try:
        with urllib.request.urlopen(address, data, timeout=10) as response:  # noqa: S310 - http, to this machine
            return str(response.read().decode())
    except urllib.error.URLError:
        return None


def test_the_form_posts_to_the_service_wherever_it_is_and_ctrl_c_ends_both(make_demo: MakeDemo, log_file: Path) -> None:
    service, form = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{(form_port := free_port())}"

    process = make_demo(BIND=service.removeprefix("http://"), DEMO_PORT=str(form_port))
    deadline = time.monotonic() + BOOT_SECONDS
    while not (fetch(f"{service}/api/v1/health") and fetch(f"{form}/contact-form.js")):
        assert process.poll() is None, log_file.read_text()
        assert time.monotonic() < deadline, log_file.read_text()
        time.sleep(0.1)
    pages = {fetch(f"{form}/{name}") for name in ("", "?tipo=ventas", "index.html", "%69ndex.html")}
    (action,) = {action for page in pages for action in re.findall('action="([^"]*)"', str(page))}
    answer = fetch(action, urllib.parse.urlencode({"form_type": "demo", "email": "maria@example.com"}).encode())
    # As a terminal does: to every process that runs in it.
    os.killpg(process.pid, signal.SIGINT)
    wait_until_it_is_gone(process, service, form)

    assert action == f"{service}/api/v1/contact"
    assert '"ok":true' in str(answer)
    assert f"The service: {service}   The form: {form}\n" in log_file.read_text()
    assert "Traceback" not in log_file.read_text()


def test_a_service_that_cannot_start_ends_the_demo(make_demo: MakeDemo, log_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"

        process = make_demo(BIND=bind, DEMO_PORT="0")
        wait_until_it_is_gone(process)

    assert process.returncode != 0
    addresses, starting, line, *_ = log_file.read_text().splitlines()
    assert (addresses.startswith("The service: "), "Starting gunicorn" in starting) == (True, True)
    assert line.startswith(f"BIND='{bind}': Address already in use: set BIND to ")


def test_a_port_of_the_form_that_is_taken_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("DEMO_PORT", str(port))
        with pytest.raises(SystemExit) as stopped:
            demo.main()

    assert stopped.value.code == (
        f"DEMO_PORT='{port}': Address already in use: set DEMO_PORT to another port, such as 8081"
    )


@pytest.mark.parametrize("bind", ["unix:/run/service", "unix:run:8000", "127.0.0.1:0"])
def test_an_address_that_no_browser_can_find_is_one_line(monkeypatch: pytest.MonkeyPatch, bind: str) -> None:
    monkeypatch.setenv("BIND", bind)

    with pytest.raises(SystemExit) as stopped:
        demo.main()

    assert stopped.value.code == f"BIND='{bind}': the demo needs HOST:PORT, because a browser must find the service"
