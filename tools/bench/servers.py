"""The measured servers, each in its own processes on one core."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp

from tools import ROOT

BUILD = ROOT / "build" / "bench"
"""The servers' messages and output. The folder for temporary files could be in memory, where a sync is free."""

_CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = _CORES[0], _CORES[-1]

BOOT_SECONDS = 20
HEALTH = "/api/v1/health"
"""The path that every server has."""


@dataclass(frozen=True)
class Server:
    """A server that accepts requests."""

    pid: int
    port: int


def service(app: str = "wsgi:app", **settings: str) -> AbstractContextManager[Server]:
    """The service as `make run` starts it, behind one trusted proxy; or another ``app`` under the same server."""
    port = _free_port()
    settings |= {"BIND": f"127.0.0.1:{port}", "MAIL_DIR": mkdtemp(dir=BUILD), "TRUSTED_PROXIES": "1"}
    return _serving(port, "gunicorn", app, **settings)


def gunicorn(app: str) -> AbstractContextManager[Server]:
    """A rival under gunicorn with this service's settings."""
    port = _free_port()
    return _serving(
        port, "gunicorn", "-c", f"python:{__package__}.rivals.gunicorn_settings", "-b", f"127.0.0.1:{port}", app
    )


def uvicorn(app: str) -> AbstractContextManager[Server]:
    """A rival under uvicorn, with its fastest event loop and parser, which it selects by itself."""
    port = _free_port()
    return _serving(port, "uvicorn", "--port", str(port), "--no-access-log", "--log-level", "warning", app)


@contextmanager
def _serving(port: int, *arguments: str, **environ: str) -> Iterator[Server]:
    """Run a Python module until the block ends; it accepts requests when the block begins."""
    command = ["taskset", "--cpu-list", str(SERVER_CORE), sys.executable, "-m", *arguments]
    with NamedTemporaryFile(dir=BUILD) as output:
        running = subprocess.Popen(
            command,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **environ},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + BOOT_SECONDS
            while not _answers(port):
                if time.monotonic() > deadline or running.poll() is not None:
                    raise RuntimeError(f"{command} is not ready\n{Path(output.name).read_text(errors='replace')}")
                time.sleep(0.005)
            yield Server(running.pid, port)
        finally:
            # At once and with its children, because a worker would wait for the hanging mail server.
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", HEALTH)
        return connection.getresponse().status == HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
