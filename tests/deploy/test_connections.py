"""The shipped rules of nftables in the real kernel: how many connections one client can have."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.deploy.connections import NAMESPACE
from tests.deploy.site import DEPLOY
from tests.server.gunicorn import ROOT

RULES = (DEPLOY / "nftables" / "public-web-interface.nft").read_text()
LIMITS = (DEPLOY / "nginx" / "snippets" / "limits.conf").read_text()
OPEN, BURST = 64, 128


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What tests/deploy/connections.py saw of the rules, for which time all but stands still.

    A machine that permits no network namespace cannot run these tests: they fail, and say so.
    """
    rules = tmp_path_factory.mktemp("nftables") / "public-web-interface.nft"
    assert "20/second" in RULES
    rules.write_text(RULES.replace("20/second", "1/hour"))
    run = subprocess.run(
        [*NAMESPACE, sys.executable, "-m", "tests.deploy.connections", rules],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    seen: dict[str, object] = json.loads(run.stdout)
    return seen


@pytest.mark.parametrize(
    ("case", "expected"),
    {
        "open": OPEN,
        "same address, other port": 0,
        "same address, port of another service": True,
        "other address": True,
        "open over IPv6": OPEN,
        "same /64": False,
        "other /64": True,
        "open over NAT64": OPEN,
        "other address of NAT64": True,
        "after one was closed": True,
        "opened and closed": BURST,
        "other address, meanwhile": True,
        "rules of others": True,
    }.items(),
)
def test_a_client_has_its_share_of_the_connections(report: dict[str, object], case: str, expected: object) -> None:
    assert report[case] == expected


def test_a_client_may_open_twice_what_nginx_serves_it_at_a_time() -> None:
    served = re.search(r"limit_conn public_web_interface_clients (\d+);", LIMITS)

    assert served
    assert 2 * int(served[1]) == OPEN
