"""compose.yaml and deploy/kubernetes.yaml run the image of deploy/Containerfile as it is made to be run."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.monitoring.rules import CONFIGURATION
from tests.pages import CONTAINER as PAGE
from tests.server.gunicorn import ROOT

(VOLUME,) = re.findall(r"^VOLUME (\S+)$", (ROOT / "deploy" / "Containerfile").read_text(), re.MULTILINE)
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
WEB = SERVICES["web"]
PORTS = [port for service in SERVICES.values() for port in service.get("ports", [])]
MOUNTED = {each.partition(":")[0] for service in SERVICES.values() for each in service.get("volumes", [])} - {"state"}
(DEPLOYMENT,) = (
    each["spec"]
    for each in yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    if each["kind"] == "Deployment"
)
POD = DEPLOYMENT["template"]["spec"]
(CONTAINER,) = POD["containers"]
RIGHTS = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def jobs(configuration: str) -> list[Any]:
    """The jobs of Prometheus with the labels that each gives, without the targets."""
    configured = yaml.safe_load(configuration)["scrape_configs"]
    return [(job["job_name"], [each["labels"] for each in job["static_configs"]]) for job in configured]


FACTS: dict[str, tuple[Any, Any]] = {
    "compose keeps mail on the volume": (WEB["volumes"], [f"state:{VOLUME}"]),
    "compose gives no rights": ((WEB["read_only"], WEB["cap_drop"]), (True, ["ALL"])),
    "compose publishes to this machine": ([port for port in PORTS if not port.startswith("127.0.0.1:")], []),
    "compose has one proxy": (WEB["environment"], {"TRUSTED_PROXIES": 1}),
    "compose builds once": ([name for name, it in SERVICES.items() if "build" in it], ["web"]),
    "compose mounts what is there": ([source for source in MOUNTED if not (ROOT / source).exists()], []),
    "compose has the job of the rules": (
        jobs(COMPOSE["configs"]["prometheus"]["content"]),
        jobs(CONFIGURATION.read_text()),
    ),
    "Kubernetes keeps mail on the volume": ([each["mountPath"] for each in CONTAINER["volumeMounts"]], [VOLUME]),
    "Kubernetes gives no rights": (CONTAINER["securityContext"], RIGHTS),
    "Kubernetes has one proxy": (CONTAINER["env"], [{"name": "TRUSTED_PROXIES", "value": "1"}]),
    "one pod at a time": ((DEPLOYMENT["replicas"], DEPLOYMENT["strategy"]["type"]), (1, "Recreate")),
}


@pytest.mark.parametrize(("stated", "needed"), FACTS.values(), ids=FACTS)
def test_the_service_is_run_as_it_is_made_to_be_run(stated: Any, needed: Any) -> None:
    assert stated == needed


def test_the_grace_is_longer_than_a_hand_over_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_DIR", str(tmp_path))
    longest: int = runpy.run_path(str(ROOT / "gunicorn.conf.py"))["graceful_timeout"]

    assert int(WEB["stop_grace_period"].removesuffix("s")) > longest
    assert POD["terminationGracePeriodSeconds"] > longest


def test_the_page_leads_nginx_to_the_published_port() -> None:
    (edit,) = re.findall(r"^(sed .*) > /etc/nginx/", PAGE.text, re.MULTILINE)
    configured = subprocess.check_output(["sh", "-c", edit], cwd=ROOT, text=True)

    assert re.findall(r"^\s*server (\S+) ", configured, re.MULTILINE) == [WEB["ports"][0].removesuffix(":8000")]
