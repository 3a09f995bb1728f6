"""compose.yaml and deploy/kubernetes.yaml against the code; `make test-container` runs both."""

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
MOUNTED = {each.partition(":")[0] for service in SERVICES.values() for each in service.get("volumes", [])} - {"state"}
(POD,) = (
    each["spec"]["template"]["spec"]
    for each in yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    if each["kind"] == "Deployment"
)


def jobs(configuration: str) -> list[Any]:
    """The jobs of Prometheus with the labels that each gives, without the targets."""
    configured = yaml.safe_load(configuration)["scrape_configs"]
    return [(job["job_name"], [each["labels"] for each in job["static_configs"]]) for job in configured]


def test_prometheus_of_compose_has_the_job_of_the_rules() -> None:
    assert jobs(COMPOSE["configs"]["prometheus"]["content"]) == jobs(CONFIGURATION.read_text())


def test_mail_is_kept_on_the_volume_of_the_image() -> None:
    (container,) = POD["containers"]

    assert WEB["volumes"] == [f"state:{VOLUME}"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == [VOLUME]


def test_compose_mounts_what_is_there() -> None:
    assert [source for source in MOUNTED if not (ROOT / source).exists()] == []


def test_the_grace_is_longer_than_a_hand_over_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_DIR", str(tmp_path))
    longest: int = runpy.run_path(str(ROOT / "gunicorn.conf.py"))["graceful_timeout"]

    assert int(WEB["stop_grace_period"].removesuffix("s")) > longest
    assert POD["terminationGracePeriodSeconds"] > longest


def test_the_page_leads_nginx_to_the_published_port() -> None:
    (edit,) = re.findall(r"^(sed .*) > /etc/nginx/", PAGE.text, re.MULTILINE)
    configured = subprocess.check_output(["sh", "-c", edit], cwd=ROOT, text=True)

    assert re.findall(r"^\s*server (\S+) ", configured, re.MULTILINE) == [WEB["ports"][0].removesuffix(":8000")]
