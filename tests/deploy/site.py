"""The shipped nginx site in front of the shipped unit's processes, moved to folders and ports of a test."""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

import trustme

from tests.ports import free_port
from tests.server.gunicorn import ROOT, newest_worker
from tests.waiting import wait_until

DEPLOY = ROOT / "deploy"
SERVER_NAME = "www.example.com"
OWN_NAME = "api.example.com"
"""Another name of the service, beside a website: as long, so that answers that show it are as long, too."""
START_SECONDS = 30
INSTANCES = ("0", "1")
OWN_MACHINE = {"public-web-interface.conf": (DEPLOY / "nginx" / "own-machine.conf").read_text()}
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
# As deploy/nftables/public-web-interface.nft says.
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
    environ: Mapping[str, str] = field(default_factory=dict)
    """Settings beside the shipped ones. Without SMTP_HOST messages are stored."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """What stands in the site's configuration, and what shall stand there."""
    sites: Mapping[str, str] = field(default_factory=lambda: OWN_MACHINE)
    """The files in sites-enabled/."""
    https_port: int = field(init=False, default_factory=free_port)
    http_port: int = field(init=False, default_factory=free_port)
    instances: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._authority = trustme.CA()
        certificate = self._authority.issue_cert(SERVER_NAME, OWN_NAME)
        for folder in ("tls", "log"):
            (self.directory / folder).mkdir()
        certificate.private_key_pem.write_to_path(self.directory / "tls" / "privkey.pem")
        certificate.cert_chain_pems[0].write_to_path(self.directory / "tls" / "fullchain.pem")

    def render(self) -> Path:
        """Write the configuration for nginx; returns its main file."""
        texts = {f"sites-enabled/{name}": text for name, text in self.sites.items()}
        if any("public-web-interface" in text for text in texts.values()):
            texts |= installed_files(*INSTANCES)
        for there, here in self.changes.items():
            assert any(there in text for text in texts.values()), there
            texts = {path: text.replace(there, here) for path, text in texts.items()}
        moved = {
            "/run/public-web-interface/": f"{self.directory}/run/",
            "/var/log/nginx/": f"{self.directory}/log/",
            r"^ *listen \[::\].*\n": "",
            r"\blisten 80\b": f"listen 127.0.0.1:{self.http_port}",
            r"\blisten 443\b": f"listen 127.0.0.1:{self.https_port}",
            r"/etc/letsencrypt/live/[^/]+/": f"{self.directory}/tls/",
        }
        for path, text in texts.items():
            for there, here in moved.items():
                text = re.sub(there, here, text, flags=re.MULTILINE)  # noqa: PLW2901
            (self.directory / path).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / path).write_text(text)
        main = self.directory / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        main.write_text(_MAIN.format(directory=self.directory, user=user, relay=RELAY, relayed=RELAYED))
        return main

    def start(self, *instances: str) -> None:
        """Start what the unit starts, and return once all of it serves."""
        for instance in instances:
            command = [f"{sys.prefix}/bin/gunicorn"]
            self.instances[instance] = start_instance(instance, self.directory, command, ROOT, **self.environ)
        wait_until(lambda: all(self._serves(instance) for instance in instances))

    def _serves(self, instance: str) -> bool:
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.settimeout(START_SECONDS)
            connection.connect(str(self.directory / "run" / instance / "gunicorn.sock"))
            connection.sendall(b"OPTIONS /api HTTP/1.0\r\n\r\n")
            return bool(connection.recv(1))
        return False

    def stop(self, *instances: str) -> None:
        """Stop instances and wait for their end."""
        stop_instances(*(self.instances.pop(instance) for instance in instances))

    def log(self, instance: str) -> str:
        return (self.directory / "log" / f"{instance}.log").read_text()

    def worker(self, instance: str) -> int:
        """The process id of the instance's newest worker."""
        return newest_worker(self.log(instance))

    def connect(self, client: str = "127.0.0.1") -> ssl.SSLSocket:
        """A connection from that address, by somebody who trusts the site and nobody else."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(tls)
        plain = socket.create_connection(("127.0.0.1", self.https_port), timeout=30, source_address=(client, 0))
        return tls.wrap_socket(plain, server_hostname=SERVER_NAME)

    def open(self, port: int | None = None) -> socket.socket:
        """A connection over TLS, or in clear to that port."""
        return socket.create_connection(("127.0.0.1", port), timeout=30) if port else self.connect()

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
        with closing(http.client.HTTPConnection(SERVER_NAME)) as connection:
            connection.sock = self.connect(client)
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def exchange(self, request: bytes, *, port: int | None = None) -> Answer:
        """Whatever bytes a client sends, and what it is answered."""
        with self.open(port) as connection:
            connection.sendall(request)
            response = http.client.HTTPResponse(connection)
            response.begin()
            return Answer(response.status, response.headers, response.read())

    @property
    def sockets(self) -> int:
        """How many the instances have: one that listens each, and one for each connection of nginx."""
        return Path("/proc/net/unix").read_text().count(f" {self.directory}/run/")


@contextmanager
def site(directory: Path, *instances: str, **given: Mapping[str, str]) -> Iterator[Site]:
    """The site with these instances, and with what else is given to it."""
    served = Site(directory, **given)
    nginx = subprocess.Popen(["nginx", "-c", str(served.render())], stderr=subprocess.DEVNULL)
    try:
        wait_until((directory / "nginx.pid").exists)  # it listens by then
        served.start(*instances)
        yield served
    finally:
        nginx.terminate()
        nginx.wait(START_SECONDS)
        served.stop(*served.instances)


def installed_files(*instances: str) -> dict[str, str]:
    """What deploy/release.sh lays into nginx's folder, by path, on a machine with as many cores as instances."""
    nginx = DEPLOY / "nginx"
    texts = {f"snippets/public-web-interface/{path.name}": path.read_text() for path in (nginx / "snippets").iterdir()}
    kept = (nginx / "public-web-interface.conf").read_text()
    sockets = re.findall(r"^ *server unix:.*\n", kept, re.MULTILINE)
    assert len(sockets) == 1
    kept = kept.replace(sockets[0], "".join(sockets[0].replace("/0/", f"/{instance}/") for instance in instances))
    return texts | {"conf.d/public-web-interface.conf": kept}


def read_unit() -> configparser.ConfigParser:
    """The unit of the instances, with the last value of a name that it has more than once."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(DEPLOY / "systemd" / "public-web-interface@.service")
    return unit


def unit_environment(instance: str) -> dict[str, str]:
    """The variables that the unit itself sets for an instance."""
    unit = (DEPLOY / "systemd" / "public-web-interface@.service").read_text()
    assignments = re.findall(r"^Environment=(\w+)=(.*)", unit, re.MULTILINE)
    return {name: value.replace("%i", instance) for name, value in assignments}


def start_instance(
    instance: str, directory: Path, command: Sequence[str], folder: Path, **environ: str
) -> subprocess.Popen[bytes]:
    """Start it in that folder as the unit does, without a mail server; all that it writes is in the directory."""
    run = directory / "run"
    (run / instance).mkdir(parents=True, exist_ok=True)
    moved = {
        name: value.replace("/run/public-web-interface/", f"{run}/")
        for name, value in unit_environment(instance).items()
    }
    moved |= {"METRICS_BIND": f"127.0.0.1:{free_port()}", "MAIL_DIR": f"{directory}/mail"}
    kept = {"PATH": os.environ["PATH"], "PWD": str(folder)}
    env = environment_file() | NO_MAIL_SERVER | moved | kept | environ
    with (directory / "log" / f"{instance}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)


def stop_instances(*processes: subprocess.Popen[bytes]) -> None:
    """Stop them, and wait for their end."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(START_SECONDS)


def environment_file() -> dict[str, str]:
    """The example as systemd reads it."""
    lines = (DEPLOY / "public-web-interface.env").read_text().splitlines()
    assignments = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: shlex.split(value)[0] if value else "" for name, _, value in assignments}
