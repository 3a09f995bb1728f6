"""deploy/kubernetes.yaml and compose.yaml as podman runs them, in a network of their own with the published ports."""

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.container.podman import IMAGE, Podman, run
from tests.server.gunicorn import ROOT

MANIFEST = ROOT / "deploy" / "kubernetes.yaml"
COMPOSE = "podman-compose==1.6.0"
SETTING = "API_NAME='Una API'\n"
"""With a quotation mark, which the container must not see."""

OWN = "ip link set lo up && mount -t tmpfs tmpfs /run && echo && exec sleep infinity"
"""A network without any other machine. podman keeps in /run what belongs to it."""


@dataclass(frozen=True)
class Network:
    podman: Podman
    process: int

    def __call__(self, *command: str, entered: str = "") -> str:
        enter = ("nsenter", "--target", str(self.process), "--net", "--mount")
        return run(*enter, *command, environ=self.podman.environ, entered=entered)

    def get(self, url: str) -> str:
        """The answer at that address, once there is one."""
        return self("curl", "--silent", "--fail", "--retry", "60", "--retry-delay", "1", "--retry-all-errors", url)

    def serves_what_a_form_needs(self) -> None:
        """The setting counts, and a form is taken."""
        assert json.loads(self.get("http://127.0.0.1:8000/api"))["data"]["name"] == "Una API"
        form = ("--data", "form_type=demo", "--data", "email=ana@example.com", "--data-urlencode", "nombre=Ana Núñez")
        assert json.loads(self("curl", "--silent", *form, "http://127.0.0.1:8000/contact.php"))["ok"]


@pytest.fixture
def network(podman: Podman) -> Iterator[Network]:
    with subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", OWN], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        network = Network(podman, process.pid)
        yield network
        for kind in ("pod", "container"):  # what a failed test has left
            network("podman", kind, "rm", "--all", "--force")
        process.kill()


def test_the_manifest_runs_as_a_pod(network: Network) -> None:
    (image,) = re.findall("image: (.*)", MANIFEST.read_text())
    (name, value) = re.findall("(.*)='(.*)'", SETTING)[0]  # as the page's sed leaves it
    secret = json.dumps({name: base64.b64encode(value.encode()).decode()})  # podman 4.3 reads no other one
    pod, container = "public-web-interface-pod-0", "public-web-interface-pod-0-web"
    network("podman", "tag", IMAGE, image)
    network("podman", "secret", "create", "public-web-interface", "-", entered=secret)

    network("podman", "kube", "play", str(MANIFEST))
    network.serves_what_a_form_needs()
    listed = network("podman", "exec", container, "flask", "mail", "list")
    network("podman", "pod", "stop", pod)

    assert listed.count("stored") == 1
    assert network("podman", "inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    network("podman", "kube", "down", str(MANIFEST))


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program, of which Debian has too old a version."""
    directory = tmp_path_factory.mktemp("compose")
    environ = {"UV_TOOL_DIR": str(directory / "tools"), "UV_TOOL_BIN_DIR": str(directory)}
    run(sys.executable, "-m", "uv", "tool", "install", "--quiet", COMPOSE, environ=environ)
    return str(directory / "podman-compose")


def test_compose_serves_the_form_and_its_demo(network: Network, compose: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for mount in services["demo"]["volumes"]:
        if (source := mount.partition(":")[0]).startswith("./"):
            run("cp", "-R", "--parents", source, str(tmp_path), cwd=ROOT)
    (tmp_path / "settings.env").write_text(SETTING)
    composed = (compose, "--file", str(tmp_path / "compose.yaml"), "--profile", "demo")

    network(*composed, "up", "--detach", "--no-build")
    network.serves_what_a_form_needs()
    assert "Ana Núñez" in network.get("http://127.0.0.1:8080/inbox")
    assert "http://127.0.0.1:8000/" in network.get("http://127.0.0.1:8080/")
    network(*composed, "down", "--volumes")
