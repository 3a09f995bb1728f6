"""compose.yaml and deploy/kubernetes.yaml run the image of Containerfile as it is made to be run."""

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

CONTAINERFILE = (ROOT / "Containerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICE = COMPOSE["services"]["web"]
KUBERNETES = {each["kind"]: each for each in yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())}
DEPLOYMENT = KUBERNETES["Deployment"]["spec"]
POD = DEPLOYMENT["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_grace_is_longer_than_a_hand_over_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_DIR", str(tmp_path))
    longest: int = runpy.run_path(str(ROOT / "gunicorn.conf.py"))["graceful_timeout"]

    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > longest
    assert POD["terminationGracePeriodSeconds"] > longest


def test_the_service_has_no_rights_and_one_folder_to_write() -> None:
    (volume,) = re.findall(r"^VOLUME (\S+)$", CONTAINERFILE, re.MULTILINE)

    assert f" MAIL_DIR={volume}/mail\n" in CONTAINERFILE
    assert SERVICE["volumes"] == [f"state:{volume}"]
    assert SERVICE["read_only"]
    assert SERVICE["cap_drop"] == ["ALL"]
    assert [each["mountPath"] for each in CONTAINER["volumeMounts"]] == [volume]
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_one_process_writes_the_maildir_at_a_time() -> None:
    assert DEPLOYMENT["replicas"] == 1
    assert DEPLOYMENT["strategy"]["type"] == "Recreate"


def test_the_client_is_named_by_the_one_proxy_that_reaches_the_service() -> None:
    published = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]

    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    assert SERVICE["environment"] == {"TRUSTED_PROXIES": 1}
    assert CONTAINER["env"] == [{"name": "TRUSTED_PROXIES", "value": "1"}]


def test_the_shipped_rules_find_their_job_in_compose() -> None:
    def jobs(configuration: str) -> list[Any]:
        """The jobs with the labels that each gives, without the targets."""
        configured = yaml.safe_load(configuration)["scrape_configs"]
        return [(job["job_name"], [each["labels"] for each in job["static_configs"]]) for job in configured]

    assert jobs(COMPOSE["configs"]["prometheus"]["content"]) == jobs(CONFIGURATION.read_text())


def test_one_service_builds_the_image_for_all() -> None:
    users = [name for name, service in COMPOSE["services"].items() if service["image"] == SERVICE["image"]]

    assert users == ["web", "demo", "web2"]
    assert [name for name in users if "build" in COMPOSE["services"][name]] == ["web"]


def test_what_compose_mounts_of_this_folder_is_there() -> None:
    mounts = [volume for service in COMPOSE["services"].values() for volume in service.get("volumes", [])]
    sources = {source for source in (mount.partition(":")[0] for mount in mounts) if source.startswith(".")}

    assert len(sources) == 2
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_the_page_leads_nginx_to_the_published_port() -> None:
    (edit,) = re.findall(r"^(sed .*) > /etc/nginx/", PAGE.text, re.MULTILINE)
    configured = subprocess.check_output(["sh", "-c", edit], cwd=ROOT, text=True)
    (published,) = SERVICE["ports"]

    assert re.findall(r"^\s*server (\S+) ", configured, re.MULTILINE) == [published.removesuffix(":8000")]
