"""An image and its containers by Debian's buildah, without a daemon. They share the network of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.server.gunicorn import PATIENCE, ROOT, Server

SUITE = "bookworm"
"""The Debian of the base; its Python is the oldest that the service takes."""

RELEASE = "3f0c9a1"
STATE = "/var/lib/public-web-interface"
READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t tmpfs tmpfs "$0/run" && exec "$@"
"""
"""Runs a command where the root of a container cannot be written. buildah itself leaves a file in its /run."""


@dataclass(frozen=True)
class Container:
    """A container in which gunicorn serves."""

    server: Server
    inside: tuple[str, ...]
    """What runs a command in it."""

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the same container, as with `docker compose exec`."""
        return subprocess.run([*self.inside, *command], capture_output=True, text=True, timeout=PATIENCE, check=False)

    @property
    def main_process(self) -> int:
        return int(self.server.wait_for(r"Listening at: \S+ \((\d+)\)")[1])

    def stop(self) -> int:
        """Tell it to stop as a daemon does; returns its exit status."""
        os.kill(self.main_process, signal.SIGTERM)
        return self.server.process.wait(PATIENCE)


class Buildah:
    """Builds the image from deploy/Containerfile, with a storage of its own."""

    def __init__(self, directory: Path) -> None:
        self.command = (
            *("buildah", "--storage-driver", "vfs"),
            *("--root", str(directory / "storage"), "--runroot", str(directory / "run")),
        )
        make_base(directory / "base")
        empty = self("from", "scratch")
        self("add", "--quiet", empty, str(directory / "base"), "/")
        self("commit", "--quiet", empty, "base")
        shutil.rmtree(directory / "base")
        # Nobody but root may read the files of a clone that was made under a strict umask.
        context = directory / "context"
        context.mkdir()
        ignored = (ROOT / "deploy" / "Containerfile.dockerignore").read_text()
        parts = " ".join(line[1:] for line in ignored.splitlines() if line[0] == "!")
        copy = f"cp -r deploy {parts} {context}"
        subprocess.run(["sh", "-c", copy], cwd=ROOT, umask=0o077, check=True)
        options = ("--isolation", "chroot", "--format", "docker", "--tag", "image", "--file", "deploy/Containerfile")
        arguments = ("--build-arg", "BASE=localhost/base", "--build-arg", f"RELEASE={RELEASE}")
        self("build", *options, *arguments, str(context))
        self.config: dict[str, Any] = json.loads(self("inspect", "--type", "image", "image"))["Docker"]["config"]
        self.user = self.config["User"].split(":")[0]
        self.environ = dict(variable.split("=", 1) for variable in self.config["Env"])

    def __call__(self, *arguments: str) -> str:
        return run(*self.command, *arguments)

    @contextmanager
    def serving(self, volume: Path, environ: dict[str, str], *mounts: str, user: str = "") -> Iterator[Container]:
        """A container with its own command, whose root cannot be written. The mounts are as Compose writes them."""
        name, log_file = self("from", "localhost/image"), volume / "gunicorn.log"
        root = Path(self("mount", name))
        # Of two volumes buildah sometimes forgets the first, so the mounts are copies.
        for source, target in (mount.split(":")[:2] for mount in mounts):
            self("add", "--quiet", name, str(ROOT / source), target)
        # A new volume gets the owner and the mode that its folder has in the image.
        folder = (root / STATE.lstrip("/")).stat()
        os.chown(volume, folder.st_uid, folder.st_gid)
        volume.chmod(folder.st_mode)
        port = free_port()
        variables = environ | {"BIND": self.environ["BIND"].replace(":8000", f":{port}")}
        options = (
            *(f"--user={user or self.config['User']}", f"--volume={volume}:{STATE}"),
            *(f"--env={name}={value}" for name, value in variables.items()),
        )
        inside = (*self.command, "run", "--isolation", "chroot", *options, name, "--")
        run(*inside, "true")  # it makes the mount points
        with log_file.open("wb") as log:
            serve = ["unshare", "--mount", "sh", "-c", READ_ONLY, str(root), *inside, *self.config["Cmd"]]
            process = subprocess.Popen(serve, stdout=log, stderr=subprocess.STDOUT)
        container = Container(Server(process, port, log_file), inside)
        try:
            container.server.wait_until_it_answers()
            yield container
        finally:
            if process.poll() is None:
                container.stop()
            self("rm", name)


def run(*command: str) -> str:
    """What a command writes that must succeed."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
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
