"""An image and its containers by Debian's podman, with a storage and a configuration of its own."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.ports import free_port
from tests.server.gunicorn import PATIENCE, ROOT, Server

SUITE = "bookworm"
"""The Debian of the base; its Python is the oldest that the service takes."""

IMAGE = "public-web-interface"
RELEASE = "3f0c9a1"
STATE = "/var/lib/public-web-interface"
CONFIGURATION = """
[containers]
# podman's own are above what root may set within another container.
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
[network]
network_config_dir = "{directory}/networks"
"""
STORAGE = """
[storage]
driver = "" # the fastest that works
graphroot = "{directory}/storage"
runroot = "{directory}/run"
"""


@dataclass(frozen=True)
class Container:
    """A container in which gunicorn serves."""

    podman: "Podman"
    server: Server
    name: str
    volume: Path
    """Where this machine has the volume of its messages."""

    def run(self, *command: str, status: int = 0) -> str:
        """What a command writes in it, as with `docker compose exec`."""
        return self.podman("exec", self.name, *command, status=status)

    def stop(self) -> int:
        """Tell it to stop as a daemon does; returns its exit status."""
        self.podman("stop", "--time", str(PATIENCE), self.name)
        return self.server.process.wait(PATIENCE)


class Podman:
    """Has built the image from deploy/Containerfile."""

    def __init__(self, directory: Path) -> None:
        self.environ: dict[str, str] = {}
        for name, text in {"CONTAINERS_CONF": CONFIGURATION, "CONTAINERS_STORAGE_CONF": STORAGE}.items():
            path = directory / f"{name.lower()}.conf"
            path.write_text(text.format(directory=directory))
            self.environ[name] = str(path)
        make_base(directory / "base")
        run("tar", "-C", str(directory / "base"), "-cf", str(directory / "base.tar"), ".")
        self("import", "--quiet", str(directory / "base.tar"), "localhost/base")
        (directory / "base.tar").unlink()
        shutil.rmtree(directory / "base")
        # Nobody but root may read the files of a clone that was made under a strict umask.
        self.context = directory / "context"
        self.context.mkdir()
        ignored = (ROOT / "deploy" / "Containerfile.dockerignore").read_text()
        parts = " ".join(line[1:] for line in ignored.splitlines() if line[0] == "!")
        copy = f"cp -r deploy {parts} {self.context}"
        subprocess.run(["sh", "-c", copy], cwd=ROOT, umask=0o077, check=True)
        self.build(IMAGE, RELEASE)
        base, image = json.loads(self("image", "inspect", "localhost/base", IMAGE))
        self.added = image["Size"] - base["Size"]
        self.config: dict[str, Any] = image["Config"]
        self.health_check: list[str] = image["Healthcheck"]["Test"][1:]
        self.user = image["User"].split(":")[0]

    def __call__(self, *arguments: str, status: int = 0) -> str:
        return run("podman", "--log-level", "error", *arguments, environ=self.environ, status=status)

    def build(self, image: str, release: str) -> None:
        """Build the image as docs/container.md says."""
        options = ("--format", "docker", "--tag", image, "--file", "deploy/Containerfile", "--network", "host")
        arguments = ("--build-arg", "BASE=localhost/base", "--build-arg", f"RELEASE={release}")
        self("build", "--quiet", *options, *arguments, str(self.context))

    @contextmanager
    def serving(
        self, log: Path, environ: dict[str, str], *, user: str = "", volume: str = "", image: str = IMAGE
    ) -> Iterator[Container]:
        """A container with its own command, whose root cannot be written."""
        port, name, volume = free_port(), f"web-{uuid4()}", volume or f"state-{uuid4()}"
        options = (
            *("--name", name, "--network", "host", "--volume", f"{volume}:{STATE}"),
            *(("--user", user) if user else ()),
            *("--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
            *(f"--env={key}={value}" for key, value in (environ | {"BIND": f"0.0.0.0:{port}"}).items()),
        )
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["podman", "--log-level", "error", "run", "--rm", *options, image],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environ,
            )
        server = Server(process, port, log)
        try:
            server.wait_until_it_answers()
            mounted = Path(self("volume", "inspect", "--format", "{{.Mountpoint}}", volume))
            yield Container(self, server, name, mounted)
        finally:
            if process.poll() is None:
                self("stop", "--time", str(PATIENCE), name)
                process.wait(PATIENCE)


def run(
    *command: str, environ: dict[str, str] | None = None, cwd: Path | None = None, entered: str = "", status: int = 0
) -> str:
    """What a command writes that must end so; these variables come beside those of this process."""
    ended = subprocess.run(
        command, env=os.environ | (environ or {}), cwd=cwd, input=entered, capture_output=True, text=True, check=False
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout.strip()


def make_base(directory: Path) -> None:
    """A Debian with Python and pip, in which pip reaches its index as it does here."""
    run("debootstrap", "--variant=minbase", "--include=python3,python3-pip", SUITE, str(directory))
    settings = {name: os.environ[f"PIP_{name}"] for name in ("CERT", "INDEX_URL") if f"PIP_{name}" in os.environ}
    if authorities := settings.get("CERT"):
        shutil.copy(authorities, directory / "etc" / "authorities.pem")
        settings["CERT"] = "/etc/authorities.pem"
    lines = [f"{name.lower().replace('_', '-')} = {value}" for name, value in settings.items()]
    (directory / "etc" / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
