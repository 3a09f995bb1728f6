"""The measured servers, each in processes of its own."""

from __future__ import annotations

import getpass
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from bench.machine import LOAD_CORE, SERVER_CORE, cpu_seconds, pinned

ROOT = Path(__file__).parents[1]
RIVALS = Path(__file__).parent / "rivals"
BOOT_SECONDS = 20
THREADS = 32


@dataclass(frozen=True)
class Server:
    """A server that takes requests. Its port is 0 when it listens on a unix socket."""

    pid: int
    port: int

    def cpu_seconds(self) -> float:
        """The processor time that it has taken, its workers included."""
        return cpu_seconds(self.pid)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def service(
    directory: Path,
    *,
    app: str = "wsgi:app",
    unix: Path | None = None,
    core: int | None = SERVER_CORE,
    threads: int = THREADS,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Start the service as `make run` does, behind one trusted proxy; or another ``app`` under the same server."""
    port = free_port()
    settings = {
        "BIND": f"unix:{unix}" if unix else f"127.0.0.1:{port}",
        "MAIL_DIR": str(directory / "mail"),
        "THREADS": str(threads),
        "TRUSTED_PROXIES": "1",
    }
    command = [sys.executable, "-m", "gunicorn", app]
    with _listening(command, unix or port, directory, core, **settings | dict(environ or {})) as server:
        yield server


@contextmanager
def gunicorn(app: str, directory: Path) -> Iterator[Server]:
    """A rival under gunicorn with the settings that this service has."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--config", "python:bench.rivals.gunicorn_settings", app]
    with _listening([*command, "--bind", f"127.0.0.1:{port}"], port, directory, SERVER_CORE) as server:
        yield server


@contextmanager
def uvicorn(app: str, directory: Path) -> Iterator[Server]:
    """A rival under uvicorn, with its fastest event loop and parser, which it finds by itself."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--no-access-log", "--log-level", "warning", app]
    with _listening(command, port, directory, SERVER_CORE) as server:
        yield server


@contextmanager
def php_fpm(socket_file: Path, directory: Path) -> Iterator[Server]:
    """PHP's process manager, with eight processes on one core."""
    configuration = directory / "php-fpm.conf"
    directory.mkdir(parents=True, exist_ok=True)
    configuration.write_text(f"""
[global]
error_log = {directory}/error.log
[bench]
user = {getpass.getuser()}
listen = {socket_file}
pm = static
pm.max_children = 8
""")
    program = next(Path("/usr/sbin").glob("php-fpm*"))
    command = [str(program), "--nodaemonize", "--allow-to-run-as-root", "--fpm-config", str(configuration)]
    with _listening(command, socket_file, directory, SERVER_CORE, TMPDIR=str(directory)) as server:
        yield server


@contextmanager
def nginx(http_block: str, directory: Path, *, core: int | None = LOAD_CORE) -> Iterator[Server]:
    """An nginx on a core; ``PORT`` in the block of its configuration becomes the one that it listens on."""
    port = free_port()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "nginx.conf").write_text(f"""
daemon off;
user {getpass.getuser()};
worker_processes 1;
pid {directory}/pid;
error_log {directory}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    keepalive_requests 1000000;
{http_block.replace("PORT", str(port))}
}}
""")
    command = ["/usr/sbin/nginx", "-c", str(directory / "nginx.conf"), "-p", str(directory)]
    with _listening(command, port, directory, core) as server:
        yield server


@contextmanager
def redis(directory: Path) -> Iterator[str]:
    """A redis-server on any core; yields the address for RATE_LIMIT_STORAGE."""
    socket_file = directory / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(socket_file), "--save", "", "--dir", str(directory)]
    with process(["redis-server", *options], directory, None, ready=socket_file.exists):
        yield f"redis+unix://{socket_file}"


def proxy(*socket_files: Path, choice: str = "hash $http_x_forwarded_for;") -> str:
    """The block of an nginx that spreads the clients over the services behind these sockets.

    ``choice`` is the directive that chooses; when it is empty the services take turns.
    """
    servers = "\n".join(f"server unix:{path};" for path in socket_files)
    return f"""
    upstream service {{
        {choice}
        {servers}
    }}
    server {{
        listen 127.0.0.1:PORT;
        location / {{
            proxy_pass http://service;
            proxy_http_version 1.0;
            proxy_set_header X-Forwarded-For $http_x_forwarded_for;
        }}
    }}
"""


@contextmanager
def process(
    command: list[str], directory: Path, core: int | None, *, ready: Callable[[], bool], **environ: str
) -> Iterator[int]:
    """Run a program on a core, or on any, until the block ends; it is ready when the block begins."""
    directory.mkdir(parents=True, exist_ok=True)
    prefix = [] if core is None else pinned(core)
    output = directory / "output.log"
    with output.open("wb") as log:
        running = subprocess.Popen(
            [*prefix, *command],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **environ},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + BOOT_SECONDS
        while not ready():
            if time.monotonic() > deadline or running.poll() is not None:
                raise RuntimeError(f"{command} is not ready\n{output.read_text(errors='replace')}")
            time.sleep(0.01)
        yield running.pid
    finally:
        # At once and with its children, because a worker would wait for the mail server that hangs.
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


@contextmanager
def _listening(
    command: list[str], address: int | Path, directory: Path, core: int | None, **environ: str
) -> Iterator[Server]:
    """Run a server that takes requests when the block begins, under a port or at a unix socket."""
    if isinstance(address, Path):
        address.unlink(missing_ok=True)
        with process(command, directory, core, ready=address.exists, **environ) as pid:
            yield Server(pid, 0)
    else:
        with process(command, directory, core, ready=partial(_answers, address), **environ) as pid:
            yield Server(pid, address)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/api/v1/health")
        return connection.getresponse().status < HTTPStatus.INTERNAL_SERVER_ERROR
    except OSError:
        return False
    finally:
        connection.close()
