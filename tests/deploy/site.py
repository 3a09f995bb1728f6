"""The shipped nginx site in front of the shipped unit's processes, moved to folders and ports of a test."""

from __future__ import annotations

import configparser
import http.client
import json
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any

import trustme

from tests.ports import free_port
from tests.server.gunicorn import ROOT, newest_worker

DEPLOY = ROOT / "deploy"
SERVER_NAME = "www.example.com"
OWN_NAME = "api.example.com"
"""Another name of the service, beside a website: as long, so that answers that show it are as long, too."""
START_SECONDS = 30
INSTANCES = ("0", "1")
OWN_MACHINE = {"public-web-interface.conf": (DEPLOY / "nginx" / "own-machine.conf").read_text()}
BACKLOG = 511  # nginx's own
NO_MAIL_SERVER = {"SMTP_HOST": "", "SMTP_USERNAME": "", "SMTP_PASSWORD": ""}

RELAY = "127.0.0.99"
"""A client of which nginx believes, in the tests alone, that it speaks for another address,"""
RELAYED = "X-Test-Client"
"""the one in this field."""

_MAIN = """
daemon off;
{user}
pid {directory}/nginx.pid;
error_log {directory}/log/main.log;
worker_processes 2;
# As docs/deploy.md says.
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    # As in Debian's nginx.conf.
    ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;
    ssl_prefer_server_ciphers on;
    set_real_ip_from {relay};
    real_ip_header {relayed};
    include conf.d/*.conf;
    include sites-enabled/*;
}}
"""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: bytes

    @property
    def code(self) -> str | None:
        """The error.code, if it is an error."""
        code: str | None = json.loads(self.body).get("error", {}).get("code")
        return code


@dataclass
class Site:
    """nginx and the instances of the service behind it."""

    directory: Path
    environ: Mapping[str, str]
    changes: Mapping[str, str] = field(default_factory=dict)
    """What stands in the site's configuration, and what shall stand there."""
    sites: Mapping[str, str] = field(default_factory=lambda: OWN_MACHINE)
    """The files in sites-enabled/."""
    https_port: int = 8443
    http_port: int = 8080
    """The ports, which the kernel chooses when nginx starts."""
    key_type: trustme.KeyType = trustme.KeyType.ECDSA
    instances: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    nginx: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._authority = trustme.CA()
        certificate = self._authority.issue_cert(SERVER_NAME, OWN_NAME, "127.0.0.1", key_type=self.key_type)
        (self.directory / "tls").mkdir()
        (self.directory / "log").mkdir()
        certificate.private_key_pem.write_to_path(self.directory / "tls" / "privkey.pem")
        certificate.cert_chain_pems[0].write_to_path(self.directory / "tls" / "fullchain.pem")
        self._tls = self.tls()

    def render(self) -> Path:
        """Write the configuration for nginx; returns its main file."""
        texts = {f"sites-enabled/{name}": text for name, text in self.sites.items()}
        if any("public-web-interface" in text for text in texts.values()):
            run = f"{self.directory}/run/"
            installed = installed_files(*INSTANCES)
            texts |= {path: text.replace("/run/public-web-interface/", run) for path, text in installed.items()}
        for there, here in self.changes.items():
            assert any(there in text for text in texts.values()), there
            texts = {path: text.replace(there, here) for path, text in texts.items()}
        moved = {
            "/var/log/nginx/": f"{self.directory}/log/",
            r"^ *listen \[::\].*\n": "",
            r"\blisten 80\b": f"listen 127.0.0.1:{self.http_port}",
            r"\blisten 443\b": f"listen 127.0.0.1:{self.https_port}",
            r"/etc/letsencrypt/live/[^/]+/": f"{self.directory}/tls/",
        }
        for there, here in moved.items():
            assert any(re.search(there, text, re.MULTILINE) for text in texts.values()), there
            texts = {path: re.sub(there, here, text, flags=re.MULTILINE) for path, text in texts.items()}
        for path, text in texts.items():
            (self.directory / path).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / path).write_text(text)
        main = self.directory / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        main.write_text(_MAIN.format(directory=self.directory, user=user, relay=RELAY, relayed=RELAYED))
        return main

    def start_nginx(self) -> None:
        """Start nginx, which inherits sockets that listen already: nobody else can take their ports in between."""
        with (
            socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as https,
            socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as http,
        ):
            self.https_port, self.http_port = https.getsockname()[1], http.getsockname()[1]
            for listener in (https, http):
                listener.setblocking(False)  # nginx leaves that as it is, and a worker would wait in accept()
            self.nginx = subprocess.Popen(
                ["nginx", "-c", str(self.render())],
                env=os.environ | {"NGINX": f"{https.fileno()};{http.fileno()};"},
                pass_fds=(https.fileno(), http.fileno()),
                stderr=subprocess.DEVNULL,
            )
        self.connect().close()  # waits until nginx has answered

    def start(self, *instances: str) -> None:
        """Start what the unit starts, and return once all of it serves."""
        for instance in instances:
            self._launch(instance)
        for instance in instances:
            self._wait(partial(self._probe, instance))

    def _launch(self, instance: str) -> None:
        unit = read_unit()["Service"]
        assert unit["ExecStart"] == "/bin/sh -c 'cd -P . && exec .venv/bin/gunicorn'"
        run = self.directory / "run" / instance
        run.mkdir(parents=True, exist_ok=True)
        moved = moved_environment(instance, run.parent)
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with self._log_of(instance).open("ab") as log:
            self.instances[instance] = subprocess.Popen(
                [f"{sys.prefix}/bin/gunicorn"],
                cwd=ROOT,
                env=kept | environment_file() | moved | {"MAIL_DIR": f"{self.directory}/mail"} | dict(self.environ),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _probe(self, instance: str) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(START_SECONDS)
            connection.connect(str(self.directory / "run" / instance / "gunicorn.sock"))
            connection.sendall(b"OPTIONS /api HTTP/1.0\r\n\r\n")
            assert connection.recv(1)

    def stop(self, *instances: str) -> None:
        """Stop instances and wait for their end."""
        processes = [self.instances.pop(instance) for instance in instances]
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(START_SECONDS)

    def restart(self, instance: str) -> None:
        """What systemctl restart does."""
        self.stop(instance)
        self.start(instance)

    def log(self, instance: str) -> str:
        return self._log_of(instance).read_text()

    def wait_for_log(self, instance: str, text: str) -> None:
        """Return once the log of the instance holds the text."""

        def probe() -> None:
            assert text in self.log(instance)

        self._wait(probe)

    def worker(self, instance: str) -> int:
        """The process id of the instance's newest worker."""
        return newest_worker(self.log(instance))

    def wait_for_exit(self, worker: int) -> None:
        """Return once that worker is gone."""

        def probe() -> None:
            assert not Path(f"/proc/{worker}").exists()

        self._wait(probe)

    def tls(self) -> ssl.SSLContext:
        """What a client needs to trust the site, and nobody else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(context)
        return context

    def connect(self, client: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """A connection from that address."""
        plain = socket.create_connection(("127.0.0.1", self.https_port), timeout=30, source_address=(client, 0))
        return (tls or self._tls).wrap_socket(plain, server_hostname=SERVER_NAME)

    def open(self, port: int | None = None, client: str = "127.0.0.1") -> socket.socket:
        """A connection from that address: over TLS, or in clear to that port."""
        return socket.create_connection(("127.0.0.1", port), timeout=30) if port else self.connect(client)

    def request(
        self,
        method: str,
        path: str,
        *,
        client: str = "127.0.0.1",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request on a connection of its own; a body is sent as JSON unless it is bytes."""
        fields = {"Host": SERVER_NAME, "Connection": "close"} | dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(SERVER_NAME)
        connection.sock = self.connect(client)
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def exchange(self, request: bytes, *, port: int | None = None, client: str = "127.0.0.1") -> Answer:
        """Whatever bytes a client sends, and what it is answered."""
        with self.open(port, client) as connection:
            connection.sendall(request)
            response = http.client.HTTPResponse(connection, method=request.partition(b" ")[0].decode("latin-1"))
            response.begin()
            return Answer(response.status, response.headers, response.read())

    def curl(self, *options: str, body: bytes = b"") -> str:
        """What curl is answered at /contact.php: the header fields and the body, if there is an answer."""
        address = f"https://127.0.0.1:{self.https_port}/contact.php"
        command = ["curl", "--silent", "--insecure", "--include", *options, address]
        return subprocess.run(command, input=body, capture_output=True, check=False).stdout.decode()

    def sockets(self, *instances: str) -> int:
        """How many these instances have: one that listens each, and one a connection.

        A connection counts before it is accepted, and also when its other end is closed.
        """
        open_now = Path("/proc/net/unix").read_text()
        return sum(open_now.count(f" {self.directory}/run/{instance}/gunicorn.sock\n") for instance in instances)

    def close(self) -> None:
        # nginx first, because a stopping gunicorn waits for the connections that nginx keeps.
        self.nginx.terminate()
        self.nginx.wait(START_SECONDS)
        self.stop(*self.instances)

    def _log_of(self, instance: str) -> Path:
        return self.directory / "log" / f"{instance}.log"

    def _wait(self, probe: Callable[[], None]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                probe()
            except (OSError, AssertionError):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return


@contextmanager
def site(
    directory: Path,
    *instances: str,
    environ: Mapping[str, str] | None = None,
    changes: Mapping[str, str] | None = None,
    key_type: trustme.KeyType = trustme.KeyType.ECDSA,
    sites: Mapping[str, str] = OWN_MACHINE,
) -> Iterator[Site]:
    """The site with these instances; without SMTP_HOST in ``environ`` messages are stored."""
    served = Site(directory, NO_MAIL_SERVER | dict(environ or {}), changes or {}, sites, key_type=key_type)
    served.start_nginx()
    try:
        served.start(*instances)
        yield served
    finally:
        served.close()


def installed_files(*instances: str) -> dict[str, str]:
    """What deploy/release.sh lays into nginx's folder, by path, on a machine with as many cores as instances."""
    nginx = DEPLOY / "nginx"
    texts = {f"snippets/public-web-interface/{path.name}": path.read_text() for path in (nginx / "snippets").iterdir()}
    kept = (nginx / "public-web-interface.conf").read_text()
    sockets = re.findall(r"^ *server unix:.*\n", kept, re.MULTILINE)
    assert len(sockets) == 1
    kept = kept.replace(sockets[0], "".join(sockets[0].replace("/0/", f"/{instance}/") for instance in instances))
    return texts | {"conf.d/public-web-interface.conf": kept}


def read_unit(name: str = "public-web-interface@.service") -> configparser.ConfigParser:
    """A unit with what stands in the folders for all units whose names begin alike (systemd.unit(5))."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names in units keep their case
    folders = [
        path for path in (DEPLOY / "systemd").glob("*.d") if name.startswith(path.name.removesuffix(".service.d"))
    ]
    unit.read([DEPLOY / "systemd" / name, *(file for folder in sorted(folders) for file in folder.iterdir())])
    return unit


def unit_environment(instance: str) -> dict[str, str]:
    """The variables that the unit itself sets for an instance."""
    unit = (DEPLOY / "systemd" / "public-web-interface@.service").read_text()
    assignments = re.findall(r"^Environment=(\w+)=(.*)", unit, re.MULTILINE)
    return {name: value.replace("%i", instance) for name, value in assignments}


def moved_environment(instance: str, run: Path) -> dict[str, str]:
    """The variables that systemd sets for an instance, with this folder in place of its own and a port of a test."""
    there = "/run/public-web-interface/"
    environ = {name: value.replace(there, f"{run}/") for name, value in unit_environment(instance).items()}
    return environ | {"METRICS_BIND": f"127.0.0.1:{free_port()}"}


def environment_file() -> dict[str, str]:
    """The example as systemd reads it."""
    lines = (DEPLOY / "public-web-interface.env").read_text().splitlines()
    assignments = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: shlex.split(value)[0] if value else "" for name, _, value in assignments}
